//! The agent: the process inside of a cluster's namespaces that starts the others and connects the
//! outside to addresses inside. Unix sockets are not bound to a network namespace, which makes that
//! possible without any change outside.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Notify;

use super::processes::Processes;
use super::protocol::{Request, Response};
use crate::Error;
use crate::error::IoContext;
use crate::state::StateDir;

/// The signals that end the cluster.
#[derive(Default)]
struct End {
    asked: Notify,
    /// True when it outlives the process that started it.
    detached: AtomicBool,
}

/// Runs the agent of the cluster in `directory` until the cluster's end.
///
/// # Errors
/// If the directory belongs to a living cluster or the socket cannot be opened.
pub async fn run(directory: &Path) -> Result<(), Error> {
    let state = StateDir::at(directory.to_owned());
    let _alive = state.lock_as_agent()?;
    let socket = state.agent_socket();
    let listener =
        UnixListener::bind(&socket).context(|| format!("listen on {}", socket.display()))?;
    let end = Arc::new(End::default());
    end_with_stdin(end.clone());
    let processes = Processes::new(state.logs());
    loop {
        let connection = tokio::select! {
            () = end.asked.notified() => return Ok(()),
            connection = listener.accept() => connection,
        };
        // Only for want of file descriptors: the next one may find some.
        let Ok((stream, _)) = connection else {
            continue;
        };
        let (processes, end) = (processes.clone(), end.clone());
        tokio::spawn(async move {
            if let Err(error) = serve(stream, &processes, &end).await {
                eprintln!("agent: {error}");
            }
        });
    }
}

/// Ends the cluster with standard input, which is the lifeline: it ends when the process that
/// started the cluster does, by whatever cause. It uses a thread, because reads of standard input
/// block; nothing is ever written to it.
fn end_with_stdin(end: Arc<End>) {
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while io::stdin().read(&mut buffer).is_ok_and(|read| read > 0) {}
        if !end.detached.load(Ordering::Acquire) {
            end.asked.notify_one();
        }
    });
}

async fn serve(stream: UnixStream, processes: &Processes, end: &End) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let response = match serde_json::from_str(&line) {
        Ok(Request::Connect(address)) => match TcpStream::connect(address).await {
            Ok(target) => return tunnel(stream, target).await,
            Err(error) => Response::Error(format!("connect to {address}: {error}")),
        },
        Ok(Request::Spawn(spec)) => done(processes.spawn(&spec)),
        Ok(Request::Signal(name, signal)) => done(processes.signal(&name, signal)),
        Ok(Request::Wait(name)) => match processes.wait(&name).await {
            Ok(info) => Response::Processes(vec![info]),
            Err(error) => Response::Error(error),
        },
        Ok(Request::List) => Response::Processes(processes.list()),
        Ok(Request::Detach) => {
            end.detached.store(true, Ordering::Release);
            Response::Done
        }
        Ok(Request::Shutdown) => {
            end.asked.notify_one();
            Response::Done
        }
        Err(error) => Response::Error(format!("request not understood: {error}")),
    };
    answer(&mut stream, &response).await
}

fn done(result: Result<(), String>) -> Response {
    result.map_or_else(Response::Error, |()| Response::Done)
}

async fn answer(stream: &mut BufReader<UnixStream>, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

async fn tunnel(mut stream: BufReader<UnixStream>, mut target: TcpStream) -> io::Result<()> {
    target.set_nodelay(true)?;
    answer(&mut stream, &Response::Done).await?;
    // A reset on either side ends both: that is what it means, not an error of ours.
    let _ = copy_bidirectional(&mut stream, &mut target).await;
    Ok(())
}
