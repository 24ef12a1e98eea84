//! Disks that can be full.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Disk, Postgres};
use crate::account::Account;

const CHUNK: usize = 64 * 1024;
/// Size of a page of the file system, in bytes.
const PAGE: usize = 4096;

/// Mounts a file system of this size, owned by the account, at `path`.
pub fn mount(path: &Path, megabytes: u32, account: Account) -> Result<()> {
    ensure!(
        account.is_privileged(),
        "a disk of limited size has to be mounted, which needs root"
    );
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o"])
        .arg(format!("size={megabytes}m,mode=755"))
        .arg("tmpfs")
        .arg(path)
        .status()
        .context("cannot run mount")?;
    ensure!(status.success(), "cannot mount {}", path.display());
    account.own(path)
}

impl Postgres {
    /// Fills its limited disk to the last page.
    ///
    /// # Errors
    /// If its disk has no limit.
    pub fn fill_disk(&self) -> Result<()> {
        ensure!(
            matches!(self.options.disk, Disk::Limited { .. }),
            "only a disk of limited size is filled"
        );
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.filler())?;
        for size in [CHUNK, PAGE] {
            let zeros = vec![0; size];
            loop {
                match file.write_all(&zeros) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Frees the space that [`Postgres::fill_disk`] took.
    ///
    /// # Errors
    /// If it was not filled.
    pub fn free_disk(&self) -> Result<()> {
        std::fs::remove_file(self.filler()).context("the disk was not filled")
    }

    fn filler(&self) -> std::path::PathBuf {
        self.root().join("disk/filler")
    }
}
