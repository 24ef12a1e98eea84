//! The refusals of real servers, poolers and networks that will not do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fitness;
mod network;
mod refusals;
mod rotation;
mod tls;

use std::time::Duration;

use database::{ConnectError, ConnectOptions, Diagnosis, Parameters, Session, establish};
use pgtest::Params;

/// Short enough for tests in which nobody answers.
fn options() -> ConnectOptions {
    let mut options = ConnectOptions::new("tests");
    options.attempt_timeout = Duration::from_secs(2);
    options.total_timeout = Duration::from_secs(6);
    options
}

fn parameters(params: &Params) -> Parameters {
    Parameters::from_map(params.to_map()).unwrap()
}

async fn open(params: &Params) -> Result<Session, ConnectError> {
    establish(&parameters(params), &options()).await
}

/// Returns the reason of a refusal, in both forms.
async fn refused(params: &Params) -> (Diagnosis, String) {
    let error = open(params).await.expect_err("a refusal");
    (error.diagnosis(), error.to_string())
}

async fn ask(session: Session, question: &str) -> String {
    let (client, _task) = session.spawn();
    let rows = client.query_typed(question, &[]).await.unwrap();
    rows[0].get(0)
}
