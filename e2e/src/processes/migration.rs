//! A migration as a process: what it prints, and its end.

use std::sync::Arc;
use std::time::Duration;

use super::ProcessesError;
use testcluster::Process;

/// Beginning of the line in which a migration prints the most memory that it had resident.
pub const PEAK_MEMORY: &str = "peak memory";
/// Longest time of one migration.
pub const LIMIT: Duration = Duration::from_mins(3);
/// Pause between two looks at the output of a migration.
const PAUSE: Duration = Duration::from_millis(50);

/// A migration under way.
pub struct Migration {
    /// Name of the process.
    pub name: String,
    /// The process.
    pub process: Arc<Process>,
}

/// The end of a migration.
pub struct Ended {
    /// True when it has reached its goal.
    pub done: bool,
    /// The exit of the process.
    pub how: String,
    /// The log of the process.
    pub log: String,
}

impl Migration {
    /// Returns everything that it has printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// Waits until it prints a line with all of `words`, for [`LIMIT`] at most; returns the first
    /// such line.
    ///
    /// # Errors
    /// If it prints no such line.
    pub async fn says(&self, words: &[&str]) -> Result<String, ProcessesError> {
        let said = async {
            loop {
                let log = self.log();
                let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
                if let Some(line) = log.lines().find(has_all) {
                    return line.to_owned();
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let said = tokio::time::timeout(LIMIT, said).await;
        said.map_err(|_| ProcessesError::Migration {
            name: self.name.clone(),
            how: format!("did not say {words:?} within {LIMIT:?}"),
            log: self.log(),
        })
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn ended(&self, limit: Duration) -> Result<Ended, ProcessesError> {
        let ended = tokio::time::timeout(limit, self.process.wait()).await;
        let log = self.log();
        let Ok(info) = ended else {
            return Err(ProcessesError::Migration {
                name: self.name.clone(),
                how: format!("did not end within {limit:?}"),
                log,
            });
        };
        let how = info?.ended.unwrap_or_default();
        // The last line that a migration prints is its status.
        let done = log.lines().any(|line| line.starts_with('['));
        Ok(Ended { done, how, log })
    }
}

impl Ended {
    /// Returns the most memory that the migration had resident, in KiB; `None` where it did not
    /// come to its end.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        let lines = &mut self.log.lines();
        let told = lines.find_map(|line| line.strip_prefix(PEAK_MEMORY))?;
        told.trim().strip_suffix(" KiB")?.parse().ok()
    }
}
