//! Logs on standard error: one JSON object a line, or text for people.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object.
    #[default]
    Json,
    /// Text for people.
    Text,
}

/// Logs cannot be written as asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is no `tracing` filter.
    #[error("log level {level:?} is not a level or filter such as info or reports_server=debug")]
    Filter {
        /// The given level.
        level: String,
        /// The error of the parser.
        source: tracing_subscriber::filter::ParseError,
    },
    /// A logger is installed already.
    #[error("cannot install the logger: {0}")]
    Installed(#[from] TryInitError),
}

/// Starts logs at `level` (a level or a `tracing` filter) in a `format`, of panics too.
///
/// # Errors
/// If the level cannot be read or a logger is there already.
pub fn install(level: &str, format: LogFormat) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(level).map_err(|source| LogError::Filter {
        level: level.to_owned(),
        source,
    })?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match format {
        LogFormat::Json => logs
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .finish()
            .try_init()?,
        // Pods have no terminal: colours would be noise.
        LogFormat::Text => logs.with_ansi(false).finish().try_init()?,
    }
    std::panic::set_hook(Box::new(|panic| {
        let trace = std::backtrace::Backtrace::force_capture();
        tracing::error!(%panic, %trace, "panic: please report it as a bug");
    }));
    Ok(())
}
