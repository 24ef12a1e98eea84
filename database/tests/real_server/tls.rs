use database::Diagnosis;
use database::parameters::SslMode;
use pgtest::{Authority, Postgres, PostgresOptions, Tls};

use super::{ask, open, options, parameters, refused};

async fn server(tls: Tls) -> Postgres {
    Postgres::start(PostgresOptions::quick().with_tls(tls))
        .await
        .unwrap()
}

const ENCRYPTED: &str = "SELECT (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())::text";

#[tokio::test]
async fn every_mode_encrypts_but_the_one_that_says_so() {
    let server = server(Tls::Offered).await;
    for mode in ["verify-full", "verify-ca", "require"] {
        let session = open(&server.params().with("sslmode", mode)).await.unwrap();
        assert_eq!(ask(session, ENCRYPTED).await, "true", "{mode}");
    }
    let plain = server.params().with("sslmode", "disable");
    assert_eq!(ask(open(&plain).await.unwrap(), ENCRYPTED).await, "false");
    // Without a word about it, names and authorities count.
    let usual = parameters(&server.params().without("sslmode"));
    assert_eq!(usual.ssl_mode, SslMode::VerifyFull);
}

#[tokio::test]
async fn an_authority_of_somebody_else_is_named_as_the_cause() {
    let server = server(Tls::Offered).await;
    let other = Authority::new("other").unwrap();
    for mode in ["verify-full", "verify-ca", "require"] {
        let params = server
            .params()
            .with("sslmode", mode)
            .with("ca.crt", other.pem());
        let (diagnosis, text) = refused(&params).await;
        assert_eq!(diagnosis, Diagnosis::TlsMismatch, "{mode}: {text}");
        assert!(
            text.contains("not signed by a CA in `ca.crt`"),
            "{mode}: {text}"
        );
    }
    // Without a CA, require asks for none.
    let params = server.params().with("sslmode", "require").without("ca.crt");
    open(&params).await.unwrap();
}

#[tokio::test]
async fn another_name_is_named_as_the_cause() {
    let server = server(Tls::Offered).await;
    let elsewhere = server.params().with("host", "db.example");
    let mut options = options();
    let place = format!("127.0.0.1:{}", server.port()).parse().unwrap();
    options.resolve.insert("db.example".to_owned(), place);

    let error = database::establish(&parameters(&elsewhere), &options)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.diagnosis(), Diagnosis::TlsMismatch, "{text}");
    assert!(text.contains("certificate for another host"), "{text}");
    assert!(text.contains("db.example"), "{text}");

    let any_name = parameters(&elsewhere.with("sslmode", "verify-ca"));
    database::establish(&any_name, &options).await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_told_from_one_that_insists_on_it() {
    let without = server(Tls::Off).await;
    let authority = Authority::new("any").unwrap();
    let params = without
        .params()
        .with("sslmode", "verify-full")
        .with("ca.crt", authority.pem());
    let (diagnosis, text) = refused(&params).await;
    assert_eq!(diagnosis, Diagnosis::TlsMismatch, "{text}");
    assert!(
        text.contains("does not use TLS, but sslmode is verify-full"),
        "{text}"
    );

    let insists = server(Tls::Required).await;
    let (diagnosis, text) = refused(&insists.params().with("sslmode", "disable")).await;
    assert_eq!(diagnosis, Diagnosis::TlsMismatch, "{text}");
    assert!(text.contains("accepts only TLS connections"), "{text}");
}

#[tokio::test]
async fn a_client_certificate_is_enough_and_the_wrong_one_is_named() {
    let server = server(Tls::ClientCertificate).await;
    let params = server.params();
    assert!(params.get("password").is_none());
    assert_eq!(ask(open(&params).await.unwrap(), ENCRYPTED).await, "true");

    let none = params.clone().without("tls.crt").without("tls.key");
    let (diagnosis, text) = refused(&none).await;
    assert_eq!(diagnosis, Diagnosis::TlsMismatch, "{text}");
    assert!(text.contains("client certificate"), "{text}");

    let stranger = Authority::new("stranger")
        .unwrap()
        .client("reports")
        .unwrap();
    let foreign = params
        .with("tls.crt", stranger.certificate)
        .with("tls.key", stranger.key);
    let (diagnosis, text) = refused(&foreign).await;
    assert_eq!(diagnosis, Diagnosis::TlsMismatch, "{text}");
    assert!(text.contains("client certificate"), "{text}");
}
