//! The operator's logs: one JSON object a line. Their level follows a file, so that it can be changed
//! while the operator works.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use traces::{LOG_DIRECTIVE, Traces};
use tracing::{info, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Interval of looks at the file. The kubelet brings a changed `ConfigMap` within about a minute.
const INTERVAL: Duration = Duration::from_secs(5);

/// Logs cannot be written as asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is no `tracing` filter.
    #[error("log level {level:?} is not a level or filter such as info or info,kube=debug")]
    Filter {
        /// The given level.
        level: String,
        /// The error of the parser.
        source: tracing_subscriber::filter::ParseError,
    },
    /// A logger is installed already.
    #[error("cannot install the logger: {0}")]
    Installed(#[from] TryInitError),
    /// The logger is gone.
    #[error("cannot change the log level: {0}")]
    Changed(#[from] reload::Error),
}

/// The level of the logs that are written.
#[derive(Debug)]
pub struct LogLevel {
    filter: Handle<EnvFilter, Registry>,
    /// The level of the start: in force while the file says nothing.
    given: String,
    /// The level that was asked for last.
    present: String,
}

impl LogLevel {
    fn new(filter: Handle<EnvFilter, Registry>, given: &str) -> Self {
        Self {
            filter,
            given: given.to_owned(),
            present: given.to_owned(),
        }
    }

    /// Has the level follow `file` for as long as it is polled.
    pub async fn follow(mut self, file: PathBuf) {
        loop {
            self.look(&file);
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Changes the level to that of the file, and to that of the start where there is none. One that
    /// cannot be read changes nothing.
    fn look(&mut self, file: &Path) {
        let level = match std::fs::read_to_string(file) {
            Ok(level) if !level.trim().is_empty() => level.trim().to_owned(),
            Ok(_) => self.given.clone(),
            Err(error) if error.kind() == ErrorKind::NotFound => self.given.clone(),
            Err(error) => {
                warn!(%error, file = %file.display(), "the log level stays");
                return;
            }
        };
        if level == self.present {
            return;
        }
        // Before or after it, whichever the levels let be seen.
        info!(from = self.present, to = level, "the log level changes");
        match self.set(&level) {
            Ok(()) => info!(level, "the log level has changed"),
            Err(error) => warn!(%error, "the log level stays"),
        }
        self.present = level;
    }

    fn set(&self, level: &str) -> Result<(), LogError> {
        let filter = filter(level)?;
        Ok(self.filter.reload(filter)?)
    }
}

/// Starts logs at `level` (a level, or directives such as `info,kube=debug`), and has spans go to
/// `traces`.
///
/// # Errors
/// If the level cannot be read or a logger is there already.
pub fn install(level: &str, traces: Option<&Traces>) -> Result<LogLevel, LogError> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let registry = tracing_subscriber::registry();
    match traces {
        // The level is that of the logs alone.
        Some(traces) => {
            let logs = fmt::layer::<Registry>().json().with_filter(filter);
            registry.with(logs).with(traces.layer()).try_init()?;
        }
        None => registry.with(filter).with(fmt::layer().json()).try_init()?,
    }
    Ok(LogLevel::new(handle, level))
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let failed = |source| LogError::Filter {
        level: level.to_owned(),
        source,
    };
    let filter = EnvFilter::try_new(directives(level)).map_err(failed)?;
    let spans = LOG_DIRECTIVE.parse().map_err(failed)?;
    Ok(filter.add_directive(spans))
}

/// Returns the directives for a level. A plain level leaves out what the HTTP client logs of each
/// answer that is an error: the caller logs it, with its meaning.
fn directives(level: &str) -> String {
    if level.contains(['=', ',']) {
        return level.to_owned();
    }
    format!("{level},kube_client::client::builder=off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_the_file_while_there_is_one_that_can_be_read() {
        let (_layer, handle) = reload::Layer::new(filter("warn").unwrap());
        let mut level = LogLevel::new(handle, "warn");
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("logLevel");
        let steps = [
            (None, "warn"),
            (Some("debug\n"), "debug"),
            // A mistake changes nothing.
            (Some("loud,,="), "debug"),
            (Some(""), "warn"),
            (Some("info,kube=trace"), "kube=trace"),
            (None, "warn"),
        ];
        for (text, expected) in steps {
            match text {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => drop(std::fs::remove_file(&file)),
            }
            level.look(&file);
            let present = level.filter.with_current(ToString::to_string).unwrap();
            assert!(present.contains(expected), "{text:?}: {present}");
            assert!(present.contains(LOG_DIRECTIVE), "{text:?}: {present}");
        }
    }

    #[test]
    fn the_clients_own_lines_are_left_out_unless_directives_are_given() {
        assert!(directives("info").contains("builder=off"));
        assert_eq!(directives("info,kube=debug"), "info,kube=debug");
    }
}
