use std::io::ErrorKind;
use std::time::{Duration, Instant};

use pgtest::{Direction, Proxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::eventually;

const A_WHILE: Duration = Duration::from_millis(200);

/// Answers every byte with the next one.
async fn successor(step: u8) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    stream.write_u8(byte.wrapping_add(step)).await.unwrap();
                }
            });
        }
    });
    port
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port()))
        .await
        .unwrap()
}

async fn ask(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
    stream.write_u8(byte).await?;
    stream.read_u8().await
}

#[tokio::test]
async fn everything_passes() {
    let proxy = Proxy::start(successor(1).await).unwrap();
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
    assert_eq!(proxy.connections(), 1);
    drop(stream);
    eventually("no connection", || proxy.connections() == 0).await;
}

#[tokio::test]
async fn a_delay_counts_both_ways() {
    let proxy = Proxy::start(successor(1).await).unwrap();
    let mut stream = connect(&proxy).await;
    proxy.delay(A_WHILE);
    let began = Instant::now();
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
    assert!(began.elapsed() >= 2 * A_WHILE);
    // It is a latency, not a rate: many bytes take as long as one.
    let began = Instant::now();
    for byte in 0..20 {
        stream.write_u8(byte).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for byte in 0..20 {
        assert_eq!(stream.read_u8().await.unwrap(), byte + 1);
    }
    assert!(began.elapsed() < 10 * A_WHILE);
}

#[tokio::test]
async fn what_is_held_comes_later_or_never() {
    for direction in [Direction::ToServer, Direction::ToClient] {
        let proxy = Proxy::start(successor(1).await).unwrap();
        let mut stream = connect(&proxy).await;
        assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
        proxy.hold(direction);
        stream.write_u8(5).await.unwrap();
        tokio::time::timeout(A_WHILE, stream.read_u8())
            .await
            .unwrap_err();
        proxy.release();
        assert_eq!(stream.read_u8().await.unwrap(), 6);
        proxy.black_hole();
        stream.write_u8(7).await.unwrap();
        tokio::time::timeout(A_WHILE, stream.read_u8())
            .await
            .unwrap_err();
        proxy.cut();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn connections_are_cut_and_refused() {
    let proxy = Proxy::start(successor(1).await).unwrap();
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
    proxy.refuse(true);
    ask(&mut stream, 1).await.unwrap_err();
    let refused = async {
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await?;
        ask(&mut stream, 1).await
    };
    refused.await.unwrap_err();
    proxy.refuse(false);
    assert_eq!(ask(&mut connect(&proxy).await, 1).await.unwrap(), 2);
}

#[tokio::test]
async fn a_cut_comes_after_so_many_bytes() {
    let proxy = Proxy::start(successor(1).await).unwrap();
    let mut stream = connect(&proxy).await;
    proxy.cut_after(Direction::ToClient, 3);
    let mut answers = 0;
    while ask(&mut stream, 1).await.is_ok() {
        answers += 1;
        assert!(answers <= 3);
    }
    // The last byte may be lost to the reset that follows it.
    assert!((2..=3).contains(&answers), "{answers}");
    let mut stream = connect(&proxy).await;
    for _ in 0..10 {
        ask(&mut stream, 1).await.unwrap();
    }
}

#[tokio::test]
async fn new_connections_go_to_the_new_target() {
    let proxy = Proxy::start(successor(1).await).unwrap();
    let mut old = connect(&proxy).await;
    assert_eq!(ask(&mut old, 1).await.unwrap(), 2);
    proxy.retarget(successor(2).await);
    assert_eq!(ask(&mut old, 1).await.unwrap(), 2);
    assert_eq!(ask(&mut connect(&proxy).await, 1).await.unwrap(), 3);
}
