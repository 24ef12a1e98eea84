//! Loopback ports that lead to addresses inside of a cluster, so that any client of the
//! test process gets there. They live as long as the [`Forwarder`].

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::Error;
use super::agent::client;
use super::error::IoContext;

/// Forwards loopback ports into one cluster, on a runtime of its own: tests share a
/// cluster across runtimes.
#[derive(Debug)]
pub(super) struct Forwarder {
    socket: PathBuf,
    runtime: Option<Runtime>,
    ports: Mutex<BTreeMap<SocketAddr, SocketAddr>>,
}

impl Forwarder {
    /// Returns a forwarder through the agent at `socket`.
    pub(super) fn new(socket: PathBuf) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cluster-forward")
            .enable_all()
            .build()
            .context(|| "start the forwarding runtime")?;
        Ok(Self {
            socket,
            runtime: Some(runtime),
            ports: Mutex::default(),
        })
    }

    /// Returns the loopback address that leads to `target`; the same one each time.
    pub(super) fn forward(&self, target: SocketAddr) -> Result<SocketAddr, Error> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = ports.get(&target) {
            return Ok(*port);
        }
        let local = self
            .listen(target)
            .context(|| format!("forward to {target}"))?;
        ports.insert(target, local);
        Ok(local)
    }

    fn listen(&self, target: SocketAddr) -> io::Result<SocketAddr> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let socket = self.socket.clone();
        if let Some(runtime) = &self.runtime {
            let entered = runtime.enter();
            let listener = TcpListener::from_std(listener)?;
            drop(entered);
            runtime.spawn(accept(listener, socket, target));
        }
        Ok(local)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // Dropping a runtime waits for it, which is not allowed inside of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, socket: PathBuf, target: SocketAddr) {
    loop {
        // Only for want of file descriptors: the next one may find some.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let socket = socket.clone();
        tokio::spawn(async move { tunnel(stream, &socket, target).await });
    }
}

/// Passes on a connection. Where nobody listens at the target, the client sees its connection
/// closed.
async fn tunnel(mut local: TcpStream, socket: &Path, target: SocketAddr) {
    if local.set_nodelay(true).is_err() {
        return;
    }
    if let Ok(mut remote) = client::connect(socket, target).await {
        // A reset on either side ends both: that is what it means, not an error of ours.
        let _ = copy_bidirectional(&mut local, &mut remote).await;
    }
}
