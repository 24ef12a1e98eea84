//! Clients that connect and then take their time, whatever they speak: each is cut off, and the
//! connections that there are go on.

use std::time::Duration;

use reports_server::http::LimitConfig;
use rstest::rstest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, pause, resume, sleep, timeout};

use crate::support::raw::{
    ECHO, END_HEADERS, END_STREAM, HEADERS, PATIENCE, frame, head, others_are_served, preface, raw,
};
use crate::support::{Options, start};

/// Longer than any limit, of a clock that stands still while somebody works.
const FOR_EVER: Duration = Duration::from_hours(1);
/// Time between two bytes.
const DRIP: Duration = Duration::from_secs(10);

/// Returns the seconds until the server hangs up on who sends `byte` now and then, or nothing.
async fn survives<S>(stream: S, byte: Option<u8>) -> u64
where
    S: AsyncRead + AsyncWrite,
{
    pause();
    let began = Instant::now();
    let (mut incoming, mut outgoing) = tokio::io::split(stream);
    let hung_up = async {
        let mut piece = [0; 4096];
        while !matches!(incoming.read(&mut piece).await, Ok(0) | Err(_)) {}
    };
    let dripping = async {
        while let Some(byte) = byte {
            sleep(DRIP).await;
            if outgoing.write_all(&[byte]).await.is_err() || outgoing.flush().await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = timeout(FOR_EVER, hung_up) => ended.expect("an end"),
        () = dripping => {}
    }
    let passed = began.elapsed().as_secs();
    resume();
    passed
}

fn half_a_head_of_http2() -> Vec<u8> {
    // The frame says that it has 16,000 bytes.
    let whole = frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0; 16_000]);
    [&preface()[..], &whole[..20]].concat()
}

/// The head of a first request, and what comes before it, has 75 seconds, be it that nothing comes
/// or a byte at a time.
#[rstest]
#[case::nothing(b"http/1.1", Vec::new(), None)]
#[case::half_a_head(b"http/1.1", b"GET /readyz HTTP/1.1\r\nhost: a\r\nx: ".to_vec(), None)]
#[case::a_head_in_drops(b"http/1.1", b"GET /readyz HTTP/1.1\r\nx: ".to_vec(), Some(b'y'))]
#[case::empty_lines(b"http/1.1", Vec::new(), Some(b'\n'))]
#[case::nothing_over_http2(b"h2", Vec::new(), None)]
#[case::half_a_preface(b"h2", b"PRI * HTTP/2.0\r\n".to_vec(), None)]
#[case::a_preface_alone(b"h2", preface(), None)]
#[case::half_a_head_over_http2(b"h2", half_a_head_of_http2(), None)]
#[case::a_head_in_drops_over_http2(b"h2", half_a_head_of_http2(), Some(0))]
#[tokio::test]
async fn slow_heads_end_the_connection(
    #[case] alpn: &[u8],
    #[case] beginning: Vec<u8>,
    #[case] byte: Option<u8>,
) {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, alpn).await;
    stream.write_all(&beginning).await.unwrap();
    stream.flush().await.unwrap();
    let passed = survives(stream, byte).await;
    assert!((70..=90).contains(&passed), "{passed} s");
    others_are_served(&server).await;
}

/// So has every later one; a client of HTTP/2 in the midst of a head cannot answer the server's
/// pings.
#[rstest]
#[case::nothing(None)]
#[case::drops(Some(0))]
#[tokio::test]
async fn so_does_a_slow_head_of_a_later_request(#[case] byte: Option<u8>) {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, b"h2").await;
    let request = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head(ECHO));
    let whole = frame(HEADERS, END_HEADERS | END_STREAM, 3, &[0; 16_000]);
    let beginning = [&preface()[..], &request, &whole[..20]].concat();
    stream.write_all(&beginning).await.unwrap();
    stream.flush().await.unwrap();
    // Something of the answer comes.
    let mut piece = [0; 4096];
    let read = timeout(PATIENCE, stream.read(&mut piece)).await.unwrap();
    assert_ne!(read.unwrap(), 0);
    let passed = survives(stream, byte).await;
    assert!((60..=120).contains(&passed), "{passed} s");
    others_are_served(&server).await;
}

#[rstest]
#[case::nothing(None)]
#[case::drops(Some(0x16))]
#[tokio::test]
async fn a_slow_handshake_ends_the_connection(#[case] byte: Option<u8>) {
    let server = start(Options::default()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let passed = survives(stream, byte).await;
    assert!((9..=20).contains(&passed), "{passed} s");
    others_are_served(&server).await;
}

/// Who comes when all places are taken waits until one is free.
#[tokio::test]
async fn connections_are_bounded() {
    let limits = LimitConfig {
        connections: 2,
        ..LimitConfig::default()
    };
    let server = start(Options {
        limits,
        ..Options::default()
    })
    .await;
    let (first, second) = (raw(&server, b"h2").await, raw(&server, b"h2").await);
    let mut third = Box::pin(raw(&server, b"h2"));
    let early = timeout(Duration::from_millis(300), &mut third).await;
    assert!(early.is_err(), "a third connection");
    drop(first);
    timeout(PATIENCE, third).await.expect("a place in time");
    drop(second);
    others_are_served(&server).await;
}
