//! A TCP proxy with faults.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::port;

const CHUNK: usize = 32 * 1024;
/// Chunks that are under way in one direction of one connection.
const UNDER_WAY: usize = 64;

/// The direction in which bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A TCP proxy, on 127.0.0.1 unless it has a listener of its own. It passes everything on until it
/// has an order; an order holds for connections that are open and for new ones. It runs on a thread
/// of its own, so that it lives on while a test blocks or drops its runtime. Gone when dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: watch::Sender<State>,
    /// The number of bytes that still go each way before all is cut.
    remaining: Mutex<[Option<u64>; 2]>,
    open: AtomicUsize,
    accepted: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
struct State {
    target: SocketAddr,
    delay: Duration,
    held: [bool; 2],
    refusing: bool,
    /// The present generation; connections of earlier ones are cut.
    generation: u64,
}

impl Proxy {
    /// Returns a proxy to `port` of 127.0.0.1, on a port of its own.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(port: u16) -> Result<Self> {
        Self::on(port::listener()?, port)
    }

    /// Returns a proxy from `listener`, which may be in another network namespace, to `port` of
    /// 127.0.0.1.
    ///
    /// # Errors
    /// If the listener cannot be used.
    pub fn on(listener: std::net::TcpListener, port: u16) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            state: watch::Sender::new(State {
                target: local(port),
                delay: Duration::ZERO,
                held: [false; 2],
                refusing: false,
                generation: 0,
            }),
            remaining: Mutex::default(),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the proxy's runtime")?;
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("pgtest-proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    tokio::select! {
                        _ = stopped => {}
                        () = serve(listener, serving) => {}
                    }
                });
            })?;
        Ok(Self {
            port: own,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the port to which clients connect, on the listener's address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.open.load(Ordering::Acquire)
    }

    /// Returns the number of connections that were accepted since the start.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Acquire)
    }

    /// Delays every byte by this time each way. The rate stays the same.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|state| state.delay = delay);
    }

    /// Holds back the bytes in `direction`, without an end of the connection: the network loses
    /// them, or the other side does not answer.
    pub fn hold(&self, direction: Direction) {
        self.shared
            .change(|state| state.held[direction as usize] = true);
    }

    /// Holds back everything, as a network that is partitioned. New connections are accepted, and
    /// receive nothing.
    pub fn black_hole(&self) {
        self.shared.change(|state| state.held = [true; 2]);
    }

    /// Passes on the bytes that were held back, and later ones.
    pub fn release(&self) {
        self.shared.change(|state| state.held = [false; 2]);
    }

    /// Resets all connections. Bytes that were held back are lost. New connections are passed on.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Resets all connections when `bytes` more have gone in `direction`, counted over all of them;
    /// once.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.remaining()[direction as usize] = Some(bytes);
    }

    /// Resets all connections and every new one, or stops doing that.
    pub fn refuse(&self, refuse: bool) {
        self.shared.change(|state| state.refusing = refuse);
        if refuse {
            self.cut();
        }
    }

    /// Sends new connections to another port of 127.0.0.1, as a Service does after a failover.
    pub fn retarget(&self, port: u16) {
        self.shared.change(|state| state.target = local(port));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
    }

    fn cut(&self) {
        self.change(|state| state.generation += 1);
    }

    fn remaining(&self) -> MutexGuard<'_, [Option<u64>; 2]> {
        self.remaining
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of `length` bytes that may still go, and whether all is cut then.
    fn take(&self, direction: Direction, length: usize) -> (usize, bool) {
        let mut remaining = self.remaining();
        let Some(left) = &mut remaining[direction as usize] else {
            return (length, false);
        };
        let allowed = usize::try_from(*left).map_or(length, |left| left.min(length));
        *left -= allowed as u64;
        let spent = *left == 0;
        if spent {
            remaining[direction as usize] = None;
        }
        (allowed, spent)
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(connection(client, Arc::clone(&shared)));
            }
            // Out of file descriptors, most likely; some will be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    // What is dropped with bytes under way is reset.
    let _ = client.set_zero_linger();
    let mut states = shared.state.subscribe();
    let state = *states.borrow_and_update();
    if state.refusing {
        return;
    }
    shared.open.fetch_add(1, Ordering::AcqRel);
    shared.accepted.fetch_add(1, Ordering::AcqRel);
    tokio::select! {
        _ = pass(&mut client, state.target, &shared) => {}
        _ = states.wait_for(|now| now.generation != state.generation) => {}
    }
    shared.open.fetch_sub(1, Ordering::AcqRel);
}

async fn pass(client: &mut TcpStream, target: SocketAddr, shared: &Shared) -> std::io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    server.set_zero_linger()?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    // These halves do not end the connection when they are dropped: the sockets reset it.
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    tokio::try_join!(
        pump(
            &mut from_client,
            &mut to_server,
            Direction::ToServer,
            shared
        ),
        pump(
            &mut from_server,
            &mut to_client,
            Direction::ToClient,
            shared
        ),
    )?;
    Ok(())
}

/// Passes on one direction until its end.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    direction: Direction,
    shared: &Shared,
) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel(UNDER_WAY);
    tokio::try_join!(read(from, sender), write(to, receiver, direction, shared))?;
    Ok(())
}

async fn read(
    from: &mut (impl AsyncRead + Unpin),
    chunks: mpsc::Sender<(Instant, Vec<u8>)>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = from.read(&mut buffer).await?;
        let chunk = buffer[..length].to_vec();
        if length == 0 || chunks.send((Instant::now(), chunk)).await.is_err() {
            return Ok(());
        }
    }
}

async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut chunks: mpsc::Receiver<(Instant, Vec<u8>)>,
    direction: Direction,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut states = shared.state.subscribe();
    while let Some((arrived, chunk)) = chunks.recv().await {
        let delay = states.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep_until(arrived + delay).await;
        }
        let released = states.wait_for(|state| !state.held[direction as usize]);
        // The sender lives in `shared`.
        let _ = released.await;
        let (allowed, cut) = shared.take(direction, chunk.len());
        to.write_all(&chunk[..allowed]).await?;
        if cut {
            shared.cut();
        }
    }
    to.shutdown().await
}
