//! Programs that are run to their end.

use testcluster::{Error, run_command};
use tokio::process::Command;

use super::error::MatrixError;

/// Runs a program, which errors call `name`; returns what it printed.
///
/// # Errors
/// If it cannot be started, or fails.
pub async fn run(name: &str, command: Command) -> Result<String, MatrixError> {
    let program = name.to_owned();
    let output = run_command(command, "").await;
    output.map_err(|error| match error {
        Error::Io { source, .. } => MatrixError::Start { program, source },
        Error::Command { stderr, .. } => MatrixError::Refused {
            program,
            said: stderr,
        },
        error => error.into(),
    })
}
