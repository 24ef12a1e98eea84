//! Clients that mean harm, or are broken: each is answered or cut off, within bounded time and
//! memory, and others are served all the while.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use reports_server::http::LimitConfig;
use rstest::rstest;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::support::client::{Client, as_user};
use crate::support::pki::SERVER_NAME;
use crate::support::raw::{
    CONTINUATION, ECHO, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PATIENCE, PING, RST_STREAM,
    SETTINGS, frame, head, others_are_served, preface, raw, types, until_closed,
};
use crate::support::{Options, TestServer, start};

const GATE: &str = "/apis/g.io/v1/gates";
const WATCH: &str = "/apis/g.io/v1/watches?watch=1";

/// The value of a metric without labels, or with these.
fn metric(server: &TestServer, name: &str) -> f64 {
    let page = server.metrics.encode().unwrap();
    let line = page.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let polled = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, polled).await.expect(what);
}

#[rstest]
#[case::many(5_000, 10)]
#[case::large(60, 20_000)]
#[tokio::test]
async fn a_flood_of_headers_over_http1_is_refused(#[case] count: usize, #[case] length: usize) {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, b"http/1.1").await;
    let mut head = format!("GET {ECHO} HTTP/1.1\r\nhost: {SERVER_NAME}\r\n");
    for index in 0..count {
        head.extend(["x-", &index.to_string(), ": ", &"x".repeat(length), "\r\n"]);
    }
    head += "\r\n";
    // The server may hang up before it has read everything.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = until_closed(&mut stream).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
    others_are_served(&server).await;
}

#[tokio::test]
async fn a_flood_of_headers_over_http2_is_refused() {
    let server = start(Options::default()).await;
    let mut client = server.proxy().await;
    let mut request = as_user(ECHO, "bob");
    for index in 0..200 {
        let name: http::HeaderName = format!("x-{index}").parse().unwrap();
        request
            .headers_mut()
            .insert(name, "x".repeat(10_000).parse().unwrap());
    }
    let answered = timeout(PATIENCE, client.open(request)).await.unwrap();
    if let Ok(answer) = answered {
        assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    others_are_served(&server).await;
}

/// Requests that are taken back at once: the connection is given up before long, and no request of
/// it stays in work.
#[rstest]
#[case::in_work(GATE)]
#[case::watches(WATCH)]
#[tokio::test]
async fn rapid_resets_end_the_connection(#[case] path: &str) {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, b"h2").await;
    stream.write_all(&preface()).await.unwrap();
    let block = head(path);
    let mut written = Ok(());
    for request in 0..20_000_u32 {
        let id = 2 * request + 1;
        let both = [
            frame(HEADERS, END_HEADERS | END_STREAM, id, &block),
            frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()),
        ];
        written = stream.write_all(&both.concat()).await;
        if written.is_err() {
            break;
        }
    }
    let answer = until_closed(&mut stream).await;
    assert!(written.is_err() || types(&answer).contains(&GOAWAY));
    others_are_served(&server).await;
    let in_flight = "reports_server_requests_in_flight{kind=\"readOnly\"}";
    until("nothing is in work", || metric(&server, in_flight) == 0.0).await;
    until("one connection at most", || {
        metric(&server, "reports_server_connections ") <= 1.0
    })
    .await;
}

/// A head that never ends is not gathered.
#[tokio::test]
async fn endless_continuations_end_the_connection() {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, b"h2").await;
    stream.write_all(&preface()).await.unwrap();
    let first = frame(HEADERS, END_STREAM, 1, &head(ECHO));
    stream.write_all(&first).await.unwrap();
    // A literal that is never indexed, and long.
    let mut literal = vec![0x10, 1, b'x', 0x7f, 0x81, 0x7c];
    literal.resize(literal.len() + 16_000, b'y');
    let more = frame(CONTINUATION, 0, 1, &literal);
    let mut sent = 0;
    while sent < 200_000_000 && stream.write_all(&more).await.is_ok() {
        sent += more.len();
    }
    assert!(sent < 200_000_000, "the server reads on and on");
    let answer = until_closed(&mut stream).await;
    assert!(
        answer.is_empty() || types(&answer).contains(&GOAWAY),
        "{answer:?}"
    );
    others_are_served(&server).await;
}

/// Pings and settings must be answered, but answers that nobody reads are not piled up.
#[rstest]
#[case::pings(PING, &[0; 8])]
#[case::settings(SETTINGS, &[])]
#[tokio::test]
async fn answers_that_nobody_reads_are_not_piled_up(#[case] type_: u8, #[case] payload: &[u8]) {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, b"h2").await;
    stream.write_all(&preface()).await.unwrap();
    let many = frame(type_, 0, 0, payload).repeat(1000);
    let before = resident();
    let flood = async {
        for _ in 0..2_000 {
            if stream.write_all(&many).await.is_err() {
                break;
            }
        }
    };
    // Either the server stops reading, or hangs up, or has taken it all in its stride.
    let _ = timeout(Duration::from_secs(5), flood).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 256, "{grown} MiB more");
    others_are_served(&server).await;
}

/// Memory of this process, in MiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024
}

/// A body that comes byte by byte costs its place no longer than any other request.
#[tokio::test]
async fn slow_bodies_end_at_the_deadline() {
    let limits = LimitConfig {
        writing: 1,
        deadline: Duration::from_millis(300),
        ..LimitConfig::default()
    };
    let server = start(Options {
        limits,
        ..Options::default()
    })
    .await;
    let bytes = futures::stream::iter(0..).then(|_| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok::<_, std::io::Error>(Bytes::from_static(b"x"))
    });
    let mut slow = as_user(ECHO, "bob").map(|_| Body::from_stream(bytes));
    *slow.method_mut() = Method::POST;
    let answer = server.proxy().await.send(slow).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer.json()["reason"], "Timeout");
    let mut next = as_user(ECHO, "bob").map(|_| Body::from("x"));
    *next.method_mut() = Method::POST;
    assert_eq!(server.proxy().await.send(next).await.status, StatusCode::OK);
}

/// Over HTTP/1.1, too, where the rest of the body is in the way of the next request.
#[tokio::test]
async fn a_body_that_stops_coming_ends_its_connection() {
    let limits = LimitConfig {
        deadline: Duration::from_millis(300),
        ..LimitConfig::default()
    };
    let server = start(Options {
        limits,
        ..Options::default()
    })
    .await;
    let mut stream = raw(&server, b"http/1.1").await;
    let request = format!(
        "POST {ECHO} HTTP/1.1\r\nhost: {SERVER_NAME}\r\nx-remote-user: bob\r\n\
         content-length: 1000\r\n\r\n{{"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = until_closed(&mut stream).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(answer.contains("\"reason\":\"Timeout\""), "{answer}");
}

/// Bytes that are no request at all.
#[rstest]
#[case::noise(b"\x00\x01\x02\xff\r\n\r\n")]
#[case::no_version(b"GET /\r\n\r\n")]
#[case::two_lengths(
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"
)]
#[case::negative(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n")]
#[case::chunk(
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n"
)]
#[tokio::test]
async fn what_is_no_request_is_refused(#[case] bytes: &[u8]) {
    let server = start(Options::default()).await;
    let mut stream = raw(&server, b"http/1.1").await;
    stream.write_all(bytes).await.unwrap();
    let answer = until_closed(&mut stream).await;
    let answer = String::from_utf8_lossy(&answer);
    // A body that nobody reads is not looked at.
    let refused = [400, 401, 403, 404].map(|code| format!("HTTP/1.1 {code} "));
    assert!(
        answer.is_empty() || refused.iter().any(|line| answer.starts_with(line)),
        "{answer}"
    );
    others_are_served(&server).await;
}

/// As many watches as a connection carries: who opens more has to wait, others do not, and all is
/// freed with the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_watches_is_bounded() {
    const OPENED: usize = 4_500;
    let server = start(Options::default()).await;
    let mut client: Client = server.proxy().await;
    let before = resident();
    let mut opened = tokio::task::JoinSet::new();
    for _ in 0..OPENED {
        let answer = client.begin(as_user(WATCH, "bob"));
        opened.spawn(async move {
            let mut body = answer.await.ok()?.into_body();
            // The watch lives: its first event comes.
            body.frame().await?.ok()?;
            Some(body)
        });
    }
    let mut watches = Vec::new();
    while watches.len() < 4_000 {
        let next = timeout(PATIENCE, opened.join_next())
            .await
            .expect("watches in time");
        watches.push(next.unwrap().unwrap().expect("the watch is accepted"));
    }
    let more = timeout(Duration::from_millis(500), opened.join_next()).await;
    assert!(
        more.is_err(),
        "more than 4000 requests at one time on one connection"
    );
    others_are_served(&server).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 512, "{grown} MiB more");
    // Who ends one makes room for another.
    drop(watches.split_off(3_900));
    let next = timeout(PATIENCE, opened.join_next())
        .await
        .expect("a place in time");
    assert!(next.unwrap().unwrap().is_some());
    drop((watches, opened, client));
    until("one connection at most", || {
        metric(&server, "reports_server_connections ") <= 1.0
    })
    .await;
}
