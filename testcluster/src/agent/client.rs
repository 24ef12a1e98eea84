//! Requests to the agent. Control requests block for microseconds and use a blocking socket, so
//! that they work on any runtime and in `Drop`; the others are asynchronous.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use super::protocol::{ProcessInfo, ProcessSpec, Request, Response, Signal};
use crate::Error;
use crate::error::IoContext;

/// Longest time for a control request: they only start or signal processes.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of the agent of one cluster.
#[derive(Clone, Debug)]
pub(in super::super) struct AgentClient {
    socket: PathBuf,
}

impl AgentClient {
    pub(in super::super) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    pub(in super::super) fn spawn(&self, spec: ProcessSpec) -> Result<(), Error> {
        self.control(&Request::Spawn(spec)).map(drop)
    }

    pub(in super::super) fn signal(&self, name: &str, signal: Signal) -> Result<(), Error> {
        self.control(&Request::Signal(name.to_owned(), signal))
            .map(drop)
    }

    pub(in super::super) fn list(&self) -> Result<Vec<ProcessInfo>, Error> {
        self.control(&Request::List).map(processes)
    }

    pub(in super::super) fn detach(&self) -> Result<(), Error> {
        self.control(&Request::Detach).map(drop)
    }

    pub(in super::super) fn shutdown(&self) -> Result<(), Error> {
        self.control(&Request::Shutdown).map(drop)
    }

    fn control(&self, request: &Request) -> Result<Response, Error> {
        let context = || format!("agent at {}", self.socket.display());
        let mut stream = UnixStream::connect(&self.socket).context(context)?;
        stream
            .set_read_timeout(Some(CONTROL_TIMEOUT))
            .context(context)?;
        stream.write_all(&encode(request)?).context(context)?;
        let mut line = String::new();
        BufReader::new(stream)
            .read_line(&mut line)
            .context(context)?;
        decode(&line)
    }

    /// Returns when the process has ended.
    pub(in super::super) async fn wait(&self, name: &str) -> Result<ProcessInfo, Error> {
        let (response, _) = exchange(&self.socket, &Request::Wait(name.to_owned())).await?;
        processes(response)
            .pop()
            .ok_or_else(|| Error::Agent(format!("no answer about the process '{name}'")))
    }
}

/// Opens a byte stream to an address inside of the cluster.
pub(in super::super) async fn connect(
    socket: &Path,
    address: SocketAddr,
) -> Result<tokio::io::BufReader<tokio::net::UnixStream>, Error> {
    exchange(socket, &Request::Connect(address))
        .await
        .map(|(_, stream)| stream)
}

async fn exchange(
    socket: &Path,
    request: &Request,
) -> Result<(Response, tokio::io::BufReader<tokio::net::UnixStream>), Error> {
    let context = || format!("agent at {}", socket.display());
    let stream = tokio::net::UnixStream::connect(socket)
        .await
        .context(context)?;
    let mut stream = tokio::io::BufReader::new(stream);
    stream.write_all(&encode(request)?).await.context(context)?;
    let mut line = String::new();
    stream.read_line(&mut line).await.context(context)?;
    Ok((decode(&line)?, stream))
}

fn encode(request: &Request) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(request).map_err(|source| Error::Json {
        what: "request to the agent".into(),
        source,
    })?;
    line.push(b'\n');
    Ok(line)
}

fn decode(line: &str) -> Result<Response, Error> {
    if line.is_empty() {
        return Err(Error::Agent(
            "it ended before it answered; read logs/agent.log".into(),
        ));
    }
    match serde_json::from_str(line) {
        Ok(Response::Error(why)) => Err(Error::Agent(why)),
        Ok(response) => Ok(response),
        Err(source) => Err(Error::Json {
            what: "answer of the agent".into(),
            source,
        }),
    }
}

fn processes(response: Response) -> Vec<ProcessInfo> {
    match response {
        Response::Processes(processes) => processes,
        _ => Vec::new(),
    }
}
