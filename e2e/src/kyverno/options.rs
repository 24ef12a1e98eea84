//! Options of a run.

use std::path::PathBuf;
use std::time::Duration;

use super::install::Parts;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct KyvernoOptions {
    /// The parts that `hack/lib/kyverno.sh` built.
    pub parts: Parts,
    /// Folder for the audit log and the logs of Kyverno and the servers.
    pub logs: PathBuf,
    /// Number of times that the groups go to the server and back, before they go there once more.
    pub rounds: u32,
    /// Duration of the baseline without any switch.
    pub baseline: Duration,
}
