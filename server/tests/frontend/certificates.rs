use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reports_server::tls::{CertificateFiles, LoadError, reload};
use rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

use crate::support::client::get_http1;
use crate::support::pki::{Ca, Leaf};
use crate::support::{Options, TestServer, start};

/// Asks on new connections, without a pause, until the server shows `leaf`.
async fn until_served(server: &TestServer, leaf: &CertificateDer<'_>) {
    loop {
        let (answer, shown) = get_http1(server.address, &server.pki.serving, "/livez")
            .await
            .unwrap();
        assert_eq!(answer.body, "ok");
        if shown == *leaf {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_exchanged_without_a_failed_request() {
    let server = start(Options::default()).await;
    let stop = CancellationToken::new();
    let interval = Duration::from_millis(5);
    let watching = tokio::spawn(reload(
        server.certificates.clone(),
        interval,
        stop.clone(),
        |_| {},
    ));
    let failed = Arc::new(AtomicBool::new(false));
    // An old connection stays usable through all of it.
    let mut open = server.proxy().await;
    for generation in 2..7 {
        let leaf = server.pki.serving.server();
        server.pki.write_serving(&leaf, &generation.to_string());
        until_served(&server, &leaf.chain()[0]).await;
        failed.fetch_or(open.get("/livez").await.body != "ok", Ordering::SeqCst);
    }
    assert!(!failed.load(Ordering::SeqCst));
    stop.cancel();
    watching.await.unwrap();
}

#[tokio::test]
async fn unusable_files_leave_the_certificate_in_force() {
    let server = start(Options::default()).await;
    let (_, before) = get_http1(server.address, &server.pki.serving, "/livez")
        .await
        .unwrap();
    let (one, two) = (server.pki.serving.server(), server.pki.serving.server());
    let mixed = Leaf {
        cert: one.cert.clone(),
        key: two.key.clone(),
    };
    let broken = Leaf {
        cert: "nothing".to_owned(),
        key: one.key.clone(),
    };
    let cut = Leaf {
        cert: one.cert.clone(),
        key: one.key[..40].to_owned(),
    };
    for (generation, leaf) in [("2", mixed), ("3", broken), ("4", cut)] {
        server.pki.write_serving(&leaf, generation);
        assert!(server.certificates.refresh().await.is_err());
        let (_, now) = get_http1(server.address, &server.pki.serving, "/livez")
            .await
            .unwrap();
        assert_eq!(now, before);
    }
    server.pki.write_serving(&one, "5");
    assert!(server.certificates.refresh().await.unwrap());
    assert!(!server.certificates.refresh().await.unwrap());
}

#[tokio::test]
async fn errors_name_the_file() {
    let server = start(Options::default()).await;
    let files = server.pki.serving_files();
    let missing = CertificateFiles {
        cert: "/nowhere/tls.crt".into(),
        ..files.clone()
    };
    let error = missing.load().await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/tls.crt"), "{error}");
    let other = Ca::new("other").server();
    server.pki.write_serving(
        &Leaf {
            cert: other.cert,
            key: server.pki.proxy().key,
        },
        "2",
    );
    assert!(matches!(
        files.load().await,
        Err(LoadError::Mismatch { .. })
    ));
}
