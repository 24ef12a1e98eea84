//! How a run is made.

use std::path::PathBuf;
use std::time::Duration;

use super::install::Parts;

/// How a run is made.
#[derive(Clone, Debug)]
pub struct KyvernoOptions {
    /// What `hack/lib/kyverno.sh` built.
    pub parts: Parts,
    /// Folder for the audit log and the logs of Kyverno.
    pub logs: PathBuf,
    /// How often the groups go to the server and back, before they go there once more.
    pub rounds: u32,
    /// How long the baseline without any switch is measured.
    pub baseline: Duration,
}
