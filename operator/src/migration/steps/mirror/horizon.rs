//! The reach of the CRD's own watch cache.
//!
//! A watch at resourceVersion 1 is refused with `too old resource version: 1 (N)`; a watch from N
//! replays everything since, deletions included. Every kube-apiserver has its own cache, so each is
//! asked and the smallest N becomes our horizon: a client that could have resumed at the CRD can
//! resume at ours.

use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;

use crate::migration::cluster::control::retry;
use crate::migration::cluster::endpoints::Endpoint;
use crate::migration::cluster::wire::{Wire, WireError, query};

/// The longest wait for the first event. The refusal comes at once.
const ANSWER: Duration = Duration::from_secs(2);
/// The time for which a kube-apiserver is asked again while it cannot answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns the endpoint whose watch cache reaches back furthest, and the version that it reaches;
/// `None` when no endpoint tells it: then the list's version is the horizon.
///
/// # Errors
/// See [`WireError`]: an endpoint that cannot be asked might reach back further than the others.
pub async fn oldest<'a>(
    endpoints: &'a [Endpoint],
    path: &str,
) -> Result<Option<(&'a Endpoint, u64)>, WireError> {
    let asked = endpoints.iter().map(|endpoint| {
        async move {
            retry(PATIENCE, || ask(&endpoint.wire, path))
                .await
                .map(|n| n.map(|n| (endpoint, n)))
        }
        .boxed()
    });
    let answers = futures::future::try_join_all(asked).await?;
    Ok(answers.into_iter().flatten().min_by_key(|(_, n)| *n))
}

async fn ask(wire: &Wire, path: &str) -> Result<Option<u64>, WireError> {
    let uri = query(
        path,
        &[
            ("watch", "1"),
            ("resourceVersion", "1"),
            ("timeoutSeconds", "5"),
        ],
    );
    let mut stream = match wire.watch(&uri).await {
        Ok(stream) => stream,
        Err(WireError::Status {
            code: 410, message, ..
        }) => return Ok(oldest_in(&message)),
        Err(error) => return Err(error),
    };
    match tokio::time::timeout(ANSWER, stream.next()).await {
        Ok(Ok(Some(event))) if event.type_ == "ERROR" => {
            let message = event.object.get("message").and_then(Value::as_str);
            Ok(message.and_then(oldest_in))
        }
        // It replays from 1: nothing has ever been dropped.
        Ok(Ok(Some(_))) => Ok(Some(1)),
        Ok(Err(error)) => Err(error),
        Ok(Ok(None)) | Err(_) => Ok(None),
    }
}

/// Returns N of `too old resource version: 1 (N)`.
fn oldest_in(message: &str) -> Option<u64> {
    let rest = message.split("too old resource version: ").nth(1)?;
    let inner = rest.split_once('(')?.1.split_once(')')?.0;
    inner.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::oldest_in;

    #[test]
    fn the_number_in_brackets_is_the_oldest_version() {
        assert_eq!(
            oldest_in("too old resource version: 1 (20477)"),
            Some(20477)
        );
        let wrapped = "watch failed: too old resource version: 1 (7)";
        assert_eq!(oldest_in(wrapped), Some(7));
        assert_eq!(
            oldest_in("The resourceVersion for the provided watch is too old."),
            None
        );
        assert_eq!(oldest_in("too old resource version: 1 (x)"), None);
    }
}
