//! Backups: files in a directory, and in an S3 bucket. The official image of PostgreSQL does not
//! support S3, so the pods that dump and restore a managed database write and read a file, and this
//! program, beside it, carries the file to the bucket and back. Of an embedded database, it makes the
//! file itself.

mod bucket;
mod embedded;
mod error;
mod file;
mod retention;
mod tls;

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use tracing::info;

use self::file::Named;
pub use bucket::{Bucket, Place, Stored};
pub use error::Error;
pub use rusty_s3::Credentials;

/// Makes and restores backups of an embedded database, and copies those of any database to an S3
/// bucket, or back.
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
    /// Makes the file of a backup of an embedded database, of a copy that the server sends.
    Make(embedded::Make),
    /// Makes an embedded database of the file of a backup, before a server opens it.
    Restore(embedded::Restore),
}

#[derive(Args, Debug)]
struct Backup {
    #[command(flatten)]
    file: Named,
    #[command(flatten)]
    place: Place,
}

/// Runs the command of the command line.
///
/// # Errors
/// If the bucket, the server or a file cannot be used.
pub async fn run(cli: Cli) -> Result<(), Error> {
    match cli.command {
        Command::Put {
            backup,
            retention_minutes,
        } => put(&backup, Duration::from_secs(retention_minutes * 60)).await,
        Command::Get { backup } => get(&backup).await,
        Command::Make(options) => embedded::make(&options).await,
        Command::Restore(options) => embedded::restore(&options).await,
    }
}

async fn put(backup: &Backup, retention: Duration) -> Result<(), Error> {
    let bucket = Bucket::open(&backup.place)?;
    let bytes = bucket.put(&backup.file.name, &backup.file.path()).await?;
    info!(name = backup.file.name, bytes, "stored");
    let stored = bucket.list().await?;
    for name in retention::expired(&stored, &backup.file.name, Timestamp::now(), retention) {
        bucket.remove(name).await?;
        info!(name, "removed");
    }
    Ok(())
}

async fn get(backup: &Backup) -> Result<(), Error> {
    let bucket = Bucket::open(&backup.place)?;
    let bytes = bucket.get(&backup.file.name, &backup.file.path()).await?;
    info!(name = backup.file.name, bytes, "fetched");
    Ok(())
}
