//! Connections on which anything can be written, frames of HTTP/2 among it.

use std::time::Duration;

use http::StatusCode;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::TestServer;
use super::client::{as_user, connect_tls};
use super::pki::SERVER_NAME;

pub const ECHO: &str = "/apis/g.io/v1/namespaces/n/echoes";
/// Longest wait for what must come.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A connection on which anything can be written.
pub async fn raw(server: &TestServer, alpn: &[u8]) -> TlsStream<TcpStream> {
    let proxy = server.pki.proxy();
    connect_tls(server.address, &server.pki.serving, Some(&proxy), alpn)
        .await
        .unwrap()
}

/// Everything until the server ends the connection.
pub async fn until_closed(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match timeout(PATIENCE, stream.read(&mut piece))
            .await
            .expect("an end in time")
        {
            Ok(0) | Err(_) => return all,
            Ok(length) => all.extend_from_slice(&piece[..length]),
        }
    }
}

/// A client on a connection of its own is answered.
pub async fn others_are_served(server: &TestServer) {
    let answer = server.proxy().await.send(as_user(ECHO, "bob")).await;
    assert_eq!(answer.status, StatusCode::OK);
}

/// A frame of HTTP/2.
pub fn frame(type_: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([type_, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Returns the first bytes of a client, with empty settings.
pub fn preface() -> Vec<u8> {
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[]),
    ]
    .concat()
}

/// The headers of a get, without compression.
pub fn head(path: &str) -> Vec<u8> {
    // `:method: GET` and `:scheme: https` of the static table, then literals with an indexed name.
    let mut block = vec![0x82, 0x87];
    for (index, value) in [(0x04, path), (0x01, SERVER_NAME)] {
        block.push(index);
        block.push(u8::try_from(value.len()).unwrap());
        block.extend_from_slice(value.as_bytes());
    }
    let (name, value) = ("x-remote-user", "bob");
    block.push(0);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).unwrap());
        block.extend_from_slice(text.as_bytes());
    }
    block
}

/// Types of the frames in what a server sent.
pub fn types(mut bytes: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let [a, b, c, type_, rest @ ..] = bytes {
        types.push(*type_);
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap();
        bytes = rest.get(5 + length..).unwrap_or_default();
    }
    types
}
