//! Backups in an S3 bucket. The official image of PostgreSQL does not support S3, so the pods that
//! dump and restore a managed database write and read a file, and this program, beside it, carries
//! the file to the bucket and back.

mod bucket;
mod error;
mod retention;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use tracing::info;

pub use bucket::{Bucket, Place, Stored};
pub use error::Error;
pub use rusty_s3::Credentials;

/// End of the name of a backup's file.
const SUFFIX: &str = ".dump";

/// Copies a backup of a managed database to an S3 bucket, or back.
#[derive(Debug, Parser)]
#[command(name = "reports-server backup", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log level, or a filter such as `info,reports_server=debug`.
    #[arg(long, env = "LOG_LEVEL", default_value = "info", global = true)]
    pub log_level: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Stores the file of a backup in the bucket, and removes backups that are too old.
    Put {
        #[command(flatten)]
        backup: Backup,
        /// Time for which backups are kept, in minutes; the one just stored is always kept.
        #[arg(long)]
        retention_minutes: u64,
    },
    /// Fetches the file of a backup from the bucket.
    Get {
        #[command(flatten)]
        backup: Backup,
    },
}

#[derive(Args, Debug)]
struct Backup {
    /// Name of the backup; its file is NAME.dump.
    #[arg(long)]
    name: String,
    /// Directory of the file.
    #[arg(long, default_value = "/backups")]
    directory: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Backup {
    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}{SUFFIX}", self.name))
    }
}

/// Runs the command of the command line.
///
/// # Errors
/// If the bucket or the file cannot be used.
pub async fn run(cli: Cli) -> Result<(), Error> {
    match cli.command {
        Command::Put {
            backup,
            retention_minutes,
        } => put(&backup, Duration::from_secs(retention_minutes * 60)).await,
        Command::Get { backup } => get(&backup).await,
    }
}

async fn put(backup: &Backup, retention: Duration) -> Result<(), Error> {
    let bucket = Bucket::open(&backup.place)?;
    let bytes = bucket.put(&backup.name, &backup.path()).await?;
    info!(name = backup.name, bytes, "stored");
    let stored = bucket.list().await?;
    for name in retention::expired(&stored, &backup.name, Timestamp::now(), retention) {
        bucket.remove(name).await?;
        info!(name, "removed");
    }
    Ok(())
}

async fn get(backup: &Backup) -> Result<(), Error> {
    let bucket = Bucket::open(&backup.place)?;
    let bytes = bucket.get(&backup.name, &backup.path()).await?;
    info!(name = backup.name, bytes, "fetched");
    Ok(())
}
