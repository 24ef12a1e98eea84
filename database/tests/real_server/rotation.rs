use database::{Diagnosis, ParametersReader, establish};
use pgtest::{Authority, Postgres, PostgresOptions, Tls};

use super::options;

/// Everything that a client is given changes, file by file as the kubelet does it, and the next
/// connection goes through; the present one stays.
#[tokio::test]
async fn passwords_and_certificates_change_under_a_running_process() {
    let options = options();
    let server = Postgres::start(PostgresOptions::quick().with_tls(Tls::Required))
        .await
        .unwrap();
    let directory = server.params_dir().unwrap();
    let reader = ParametersReader::new(&directory);
    let first = reader.read().unwrap();
    let session = establish(&first.parameters, &options).await.unwrap();
    let (client, _task) = session.spawn();

    server.set_password("another").await.unwrap();
    let stale = reader.read().unwrap();
    assert_eq!(stale.revision, first.revision);
    let error = establish(&stale.parameters, &options).await.unwrap_err();
    assert_eq!(error.diagnosis(), Diagnosis::WrongPassword);

    server.params().write(&directory).unwrap();
    let second = reader.read().unwrap();
    assert_eq!(second.revision, first.revision + 1);
    establish(&second.parameters, &options).await.unwrap();

    let authority = Authority::new("the next one").unwrap();
    let pair = authority.server(&["127.0.0.1"]).unwrap();
    server.set_certificate(&pair).await.unwrap();
    // The server follows a moment later.
    let error = loop {
        match establish(&second.parameters, &options).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.diagnosis(), Diagnosis::TlsMismatch, "{error}");
    let renewed = server.params().with("ca.crt", authority.pem());
    renewed.write(&directory).unwrap();
    let third = reader.read().unwrap();
    assert_eq!(third.revision, second.revision + 1);
    establish(&third.parameters, &options).await.unwrap();

    client.simple_query("SELECT 1").await.unwrap();
}
