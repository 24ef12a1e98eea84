//! The store and plain SQL on disks that are slower than this machine's: a library before the C
//! library's makes fsync take longer, in every process of the database alike.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use pgtest::{Postgres, PostgresOptions, Preload};

use super::bodies::Bodies;
use super::book::Book;
use super::sql::{self, Writing};
use super::storage::{Alone, Verb};

const SYSTEM: &str = "postgres";
const SOURCE: &str = include_str!("slow_fsync.c");
/// Additional times of fsync, in milliseconds.
const DELAYS: [u32; 2] = [1, 5];

/// Measures on each kind of disk, with fewer writes where each waits for the disk alone.
///
/// # Errors
/// If something fails.
pub async fn run(book: &mut Book, bodies: &Bodies, count: usize) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()?;
    let library = compile(folder.path())?;
    for delay in DELAYS {
        let postgres = Postgres::start(PostgresOptions::default().with_preload(Preload {
            library: library.clone(),
            environment: vec![("SLOW_FSYNC_US".to_owned(), (delay * 1000).to_string())],
        }))
        .await?;
        store(book, &postgres, bodies, delay, count).await?;
        peers(book, &postgres, bodies, delay, count).await?;
    }
    Ok(())
}

fn compile(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, library) = (folder.join("slow_fsync.c"), folder.join("slow_fsync.so"));
    std::fs::write(&source, SOURCE)?;
    let status = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .context("cannot run cc; hack/deps build installs it")?;
    ensure!(status.success(), "cc cannot compile {}", source.display());
    Ok(library)
}

async fn store(
    book: &mut Book,
    postgres: &Postgres,
    bodies: &Bodies,
    delay: u32,
    count: usize,
) -> anyhow::Result<()> {
    let alone = Alone::open(postgres.params_dir()?, |_| ()).await?;
    for writers in [256, 64, 16] {
        for verb in Verb::ALL {
            let run = alone.run(bodies, verb, writers, count).await?;
            if verb != Verb::Delete {
                let metric = format!("+{delay} ms {}@{writers} rate", verb.name());
                book.add(&metric, SYSTEM, run.rate);
                eprintln!("  {metric:<26} {SYSTEM:<12} {:>8.0} /s", run.rate);
            }
        }
    }
    alone.close().await;
    Ok(())
}

async fn peers(
    book: &mut Book,
    postgres: &Postgres,
    bodies: &Bodies,
    delay: u32,
    count: usize,
) -> anyhow::Result<()> {
    let prefix = format!("+{delay} ms ");
    // One transaction after the other: as many as there is time for.
    let ordered = count / 4 / usize::try_from(delay)?;
    let ways: &[(Writing, usize)] = if delay == 1 {
        &[
            (Writing::Insert, count),
            (Writing::KineCreate, count),
            (Writing::KineUpdate, count),
        ]
    } else {
        &[(Writing::Insert, ordered), (Writing::Transaction, ordered)]
    };
    let connections: &[usize] = if delay == 1 { &[16, 64] } else { &[16] };
    sql::run(book, postgres, None, bodies, &prefix, connections, ways).await
}
