//! Programs that are run to their end.

use std::process::Stdio;

use tokio::process::Command;

use super::error::MatrixError;

/// Runs a program, which errors call `name`; returns what it printed.
///
/// # Errors
/// If it cannot be started, or fails.
pub async fn run(name: &str, mut command: Command) -> Result<String, MatrixError> {
    command.stdin(Stdio::null());
    let output = command.output().await;
    let output = output.map_err(|source| MatrixError::Start {
        program: name.to_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(MatrixError::Refused {
        program: name.to_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
