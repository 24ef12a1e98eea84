//! The options of a line.

use std::path::PathBuf;

use super::{Database, incumbent};
use testcluster::ClusterOptions;
use testreports::Input;

/// Options of a line.
#[derive(Clone, Debug)]
pub struct TakeoverOptions {
    /// Reports to load before anything else.
    pub reports: usize,
    /// The source of the reports.
    pub input: Input,
    /// Writes a second of the witness.
    pub rate: f64,
    /// Folder with the OCI archives that `hack/image` makes.
    pub images: PathBuf,
    /// The repository's `manifests` folder.
    pub manifests: PathBuf,
    /// The cluster that is started, unless there is one; it needs a node.
    pub cluster: ClusterOptions,
    /// The database in which the servers store the reports.
    pub database: Database,
    /// The folder of [`crate::incumbent::parts`]: the reports are taken over from it, and not from
    /// etcd.
    pub incumbent: Option<PathBuf>,
}

impl TakeoverOptions {
    /// Returns the archives of images that the node needs.
    #[must_use]
    pub fn archives(&self) -> Vec<PathBuf> {
        let mut archives = self.database.archives(&self.images);
        archives
            .extend(["image-server.tar", "image-operator.tar"].map(|name| self.images.join(name)));
        if let Some(parts) = &self.incumbent {
            archives.extend(incumbent::archives(parts, &self.images));
        }
        archives
    }
}
