//! Logs on standard error: one JSON object a line, or text for people. Their level can be changed
//! while they are written.

use std::io;

use clap::ValueEnum;
use tokio::sync::watch;
use traces::{LOG_DIRECTIVE, Traces};
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// The target of lines about requests of direct clients. They are written whatever the level is.
pub const AUDIT_TARGET: &str = "reports_server::audit";

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
    /// The logger is gone.
    #[error("cannot change the log level: {0}")]
    Changed(#[from] reload::Error),
}

/// The level of the logs that are written.
#[derive(Clone, Debug)]
pub struct LogLevel {
    filter: Handle<EnvFilter, Registry>,
    /// The level of the start: in force while nobody wants another.
    given: String,
}

impl LogLevel {
    /// Changes the level, to a level or a `tracing` filter.
    ///
    /// # Errors
    /// If the level cannot be read; the present one stays.
    pub fn set(&self, level: &str) -> Result<(), LogError> {
        let filter = filter(level)?;
        Ok(self.filter.reload(filter)?)
    }

    /// Sets each level that is wanted, and that of the start while none is, until nobody can want
    /// another.
    pub async fn follow(self, mut wanted: watch::Receiver<Option<String>>) {
        let mut present = self.given.clone();
        loop {
            let level = wanted.borrow_and_update().clone();
            let level = level.unwrap_or_else(|| self.given.clone());
            if level != present {
                self.change(&present, &level);
                present = level;
            }
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }

    /// Changes the level, and tells of it before or after, whichever has the logs show it.
    fn change(&self, present: &str, level: &str) {
        tracing::info!(from = present, to = level, "the log level changes");
        match self.set(level) {
            Ok(()) => tracing::info!(level, "the log level has changed"),
            Err(error) => tracing::warn!(%error, "the log level stays"),
        }
    }
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let failed = |source| LogError::Filter {
        level: level.to_owned(),
        source,
    };
    let filter = EnvFilter::try_new(level).map_err(failed)?;
    let audit = format!("{AUDIT_TARGET}=info").parse().map_err(failed)?;
    let spans = LOG_DIRECTIVE.parse().map_err(failed)?;
    Ok(filter.add_directive(audit).add_directive(spans))
}

/// Starts logs at `level` (a level or a `tracing` filter) in a `format`, of panics too, and has
/// spans go to `traces`. Returns the level, to be changed.
///
/// # Errors
/// If the level cannot be read or a logger is there already.
pub fn install(
    level: &str,
    format: LogFormat,
    traces: Option<&Traces>,
) -> Result<LogLevel, LogError> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let registry = tracing_subscriber::registry();
    match traces {
        // The level is that of the logs alone.
        Some(traces) => {
            let logs = lines::<Registry>(format).with_filter(filter);
            registry.with(logs).with(traces.layer()).try_init()?;
        }
        None => registry.with(filter).with(lines(format)).try_init()?,
    }
    std::panic::set_hook(Box::new(|panic| {
        let trace = std::backtrace::Backtrace::force_capture();
        tracing::error!(%panic, %trace, "panic: please report it as a bug");
    }));
    Ok(LogLevel {
        filter: handle,
        given: level.to_owned(),
    })
}

/// Returns what writes the lines.
fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = fmt::layer::<S>().with_writer(io::stderr);
    match format {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
        // Pods have no terminal: colours would be noise.
        LogFormat::Text => lines.with_ansi(false).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a level without logs. It can be changed while the layer is there.
    fn started(level: &str) -> (reload::Layer<EnvFilter, Registry>, LogLevel) {
        let (layer, handle) = reload::Layer::new(filter(level).unwrap());
        let level = LogLevel {
            filter: handle,
            given: level.to_owned(),
        };
        (layer, level)
    }

    /// Returns the directives in force.
    fn present(level: &LogLevel) -> Vec<String> {
        let all = level.filter.with_current(ToString::to_string).unwrap();
        all.split(',').map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn the_level_follows_what_is_wanted_and_falls_back_to_that_of_the_start() {
        let (_layer, level) = started("warn");
        let (wanted, follow) = watch::channel(None);
        let task = tokio::spawn(level.clone().follow(follow));
        let steps = [
            (None, "warn"),
            (Some("debug"), "debug"),
            // A mistake changes nothing.
            (Some("loud,,="), "debug"),
            (Some("info"), "info"),
            (None, "warn"),
        ];
        for (want, expected) in steps {
            wanted.send_replace(want.map(str::to_owned));
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let present = present(&level);
            assert!(
                present.iter().any(|p| p == expected),
                "{want:?}: {present:?}"
            );
            for kept in [format!("{AUDIT_TARGET}=info"), LOG_DIRECTIVE.to_owned()] {
                assert!(present.contains(&kept), "{want:?}: {present:?}");
            }
        }
        drop(wanted);
        task.await.unwrap();
    }

    /// Of the logs alone: the spans that are exported do not depend on it.
    #[test]
    fn the_level_is_changed_where_there_are_traces_too() {
        let settings = traces::Settings {
            endpoint: "http://127.0.0.1:1".parse().unwrap(),
            rate_per_million: 0,
            ca: None,
        };
        let service = traces::Service {
            name: "test",
            version: "1",
            instance: None,
        };
        let export = Traces::start(settings, &service).unwrap();
        let (layer, level) = started("warn");
        let logs = lines::<Registry>(LogFormat::Text).with_filter(layer);
        let both = tracing_subscriber::registry()
            .with(logs)
            .with(export.layer());
        tracing::subscriber::with_default(both, || {
            assert!(!tracing::enabled!(tracing::Level::INFO));
            assert!(!tracing::info_span!(target: traces::TARGET, "a").is_disabled());
            assert!(tracing::info_span!("of the log").is_disabled());
            level.set("debug").unwrap();
            assert!(tracing::enabled!(tracing::Level::DEBUG));
            level.set("error").unwrap();
            assert!(!tracing::info_span!(target: traces::TARGET, "b").is_disabled());
        });
    }

    #[test]
    fn a_filter_can_be_set_too() {
        let (_layer, level) = started("info");
        level.set("info,reports_server=debug").unwrap();
        assert!(present(&level).contains(&"reports_server=debug".to_owned()));
        let error = level.set("loud,,=").unwrap_err().to_string();
        assert!(error.contains("loud"), "{error}");
    }
}
