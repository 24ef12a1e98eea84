//! The file of a backup.

use std::path::PathBuf;

use clap::Args;

/// End of the name of a backup's file.
pub(super) const SUFFIX: &str = ".dump";

/// The file of a backup.
#[derive(Args, Debug)]
pub(super) struct Named {
    /// Name of the backup; its file is NAME.dump.
    #[arg(long)]
    pub name: String,
    /// Directory of the file.
    #[arg(long, default_value = "/backups")]
    pub directory: PathBuf,
}

impl Named {
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{}{SUFFIX}", self.name))
    }
}
