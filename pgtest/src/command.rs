//! Running commands to their end.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;

/// Runs `command` with `input` on its standard input and returns its output. An error holds its
/// messages.
pub async fn run(command: Command, input: &str) -> Result<String> {
    let name = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input may be gone already; its status tells.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        bail!(
            "{name} failed with {}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
