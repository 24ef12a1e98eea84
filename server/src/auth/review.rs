//! Questions to the kube-apiserver, with retries.

use std::future::Future;
use std::time::Duration;

use tracing::Instrument as _;
use tracing::field::Empty;

/// Longest time for one attempt, as in Go's delegated authentication and authorization.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// First pause; each further one is half as long again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Attempts in all.
const ATTEMPTS: u32 = 5;

/// The kube-apiserver could not be asked. Clones share the text, not the source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} failed: {why}")]
pub struct ReviewError {
    /// `TokenReview` or `SubjectAccessReview`.
    pub what: &'static str,
    /// The error of the last attempt.
    pub why: String,
}

/// Runs a request to the kube-apiserver, again where trying again can help: on a broken
/// connection, a timeout, 429 and 5xx. All attempts are one span.
pub(super) async fn with_retries<T, F, Fut>(
    what: &'static str,
    attempt: F,
) -> Result<T, ReviewError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = kube::Result<T>>,
{
    let span = tracing::info_span!(
        target: traces::TARGET,
        "review",
        otel.name = what,
        otel.kind = "client",
        otel.status_code = Empty,
    );
    let result = attempts(what, attempt).instrument(span.clone()).await;
    if result.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    result
}

async fn attempts<T, F, Fut>(what: &'static str, mut attempt: F) -> Result<T, ReviewError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = kube::Result<T>>,
{
    let mut pause = FIRST_PAUSE;
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        let why = match tokio::time::timeout(ATTEMPT_TIMEOUT, attempt()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if !retriable(&error) => {
                return Err(ReviewError {
                    what,
                    why: error.to_string(),
                });
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs()),
        };
        if left == 0 {
            return Err(ReviewError { what, why });
        }
        tracing::debug!(what, why, "asking the kube-apiserver again");
        tokio::time::sleep(pause.mul_f64(1.0 + 0.2 * rand::random::<f64>())).await;
        pause = pause.mul_f64(1.5);
    }
}

fn retriable(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}
