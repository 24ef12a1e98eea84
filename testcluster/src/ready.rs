//! Waiting for conditions, with a deadline, and with an explanation when they do not come true.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Error;
use super::agent::client::AgentClient;
use super::state::{StateDir, tail};

/// Interval of questions for these conditions, which nothing announces.
const INTERVAL: Duration = Duration::from_millis(50);

/// Lines of the log that an error shows.
const TAIL: usize = 15;

/// Asks `probe` until it answers `Ok`.
///
/// # Errors
/// If `timeout` has passed: `what` is not ready, for the probe's last reason, with the end of the
/// log at `log`. At once when the process `process` has ended.
pub(super) async fn until<F: Future<Output = Result<(), String>>>(
    what: &str,
    process: Option<(&AgentClient, &str)>,
    log: &Path,
    timeout: Duration,
    mut probe: impl FnMut() -> F,
) -> Result<(), Error> {
    let begin = Instant::now();
    loop {
        let remaining = timeout.saturating_sub(begin.elapsed()).max(INTERVAL);
        let why = match tokio::time::timeout(remaining, probe()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(_) => "no answer".to_owned(),
        };
        if let Some((agent, name)) = process
            && let Some(ending) = ending(agent, name)?
        {
            return Err(failure(what, format!("it has ended ({ending})"), log));
        }
        if begin.elapsed() >= timeout {
            return Err(failure(
                what,
                format!("after {} s: {why}", timeout.as_secs()),
                log,
            ));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the error that `what` is not ready, with the end of its log.
pub(super) fn failure(what: &str, why: String, log: &Path) -> Error {
    Error::NotReady {
        what: what.to_owned(),
        why,
        log: log.to_owned(),
        tail: tail(log, TAIL),
    }
}

/// Returns the end of a process, if it has ended.
fn ending(agent: &AgentClient, name: &str) -> Result<Option<String>, Error> {
    Ok(agent
        .list()?
        .into_iter()
        .find(|info| info.name == name)
        .and_then(|info| info.ended))
}

/// Waits as [`until`] does for the process of that name with its own log.
pub(super) async fn process<F: Future<Output = Result<(), String>>>(
    name: &str,
    agent: &AgentClient,
    state: &StateDir,
    timeout: Duration,
    probe: impl FnMut() -> F,
) -> Result<(), Error> {
    until(name, Some((agent, name)), &state.log(name), timeout, probe).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_deadline_names_reason_and_log() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("x.log");
        std::fs::write(&log, "last words\n").unwrap();
        let error = until("x", None, &log, Duration::from_millis(10), || async {
            Err("not yet".to_owned())
        })
        .await
        .unwrap_err()
        .to_string();
        for expected in ["x is not ready", "not yet", "x.log", "last words"] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn a_probe_that_hangs_is_given_up() {
        let error = until(
            "x",
            None,
            Path::new("/none"),
            Duration::from_millis(10),
            std::future::pending::<Result<(), String>>,
        )
        .await
        .unwrap_err()
        .to_string();
        assert!(error.contains("no answer"), "{error}");
    }
}
