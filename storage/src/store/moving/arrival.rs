//! The first steps of a server in the database that the reports were moved to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::MoveOptions;
use super::request::MoveRequest;
use super::rows::Departure;
use crate::store::engine::Engine;
use crate::store::postgres::Postgres;
use crate::store::sqlite::Sqlite;
use crate::store::{Etcd, OpenError, PostgresOptions};

/// The ways to the databases that the reports of this server can be moved to.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    /// The directory that names the database to move to.
    pub directory: PathBuf,
    /// The file of this server; none where it has no volume for it.
    pub file: Option<PathBuf>,
}

impl Ways {
    pub fn of(options: &MoveOptions) -> Self {
        Self {
            directory: options.directory.clone(),
            file: options.file.clone(),
        }
    }

    /// Opens the database that reports were moved to, for a server that goes on there from what
    /// clients may hold of the one that they have left.
    pub async fn follow(
        &self,
        departure: &Departure,
        etcd: &dyn Etcd,
    ) -> Result<Arrived, OpenError> {
        let marker = &departure.marker;
        if marker.leads_to_file() {
            let file = self.file.as_deref().ok_or(OpenError::MovedToFile)?;
            let sqlite = arrive_in_file(file, departure, etcd).await?;
            return Ok(Arrived::File(Arc::new(sqlite)));
        }
        let request = MoveRequest::read(&self.directory).unwrap_or_default();
        let options = request.options(&self.directory, &marker.identity);
        let postgres = arrive(&options, departure, etcd).await?;
        Ok(Arrived::Postgres(Arc::new(postgres)))
    }
}

/// The database that reports were moved to, which is open.
pub(super) enum Arrived {
    /// One that servers share.
    Postgres(Arc<Postgres>),
    /// A file of this server.
    File(Arc<Sqlite>),
}

impl Arrived {
    /// Returns its engine.
    pub fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Postgres(engine) => Arc::clone(engine) as Arc<dyn Engine>,
            Self::File(engine) => Arc::clone(engine) as Arc<dyn Engine>,
        }
    }

    /// Returns the words for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "PostgreSQL",
            Self::File(_) => "the file of this server",
        }
    }
}

async fn arrive(
    options: &PostgresOptions,
    departure: &Departure,
    etcd: &dyn Etcd,
) -> Result<Postgres, OpenError> {
    let engine = Postgres::open_moved(options, departure).await?;
    if engine.is_apart(&departure.last).await? {
        let revision = etcd.revision().await.map_err(OpenError::Revision)?;
        engine.begin_behind(&departure.last, revision).await?;
    }
    Ok(engine)
}

async fn arrive_in_file(
    file: &Path,
    departure: &Departure,
    etcd: &dyn Etcd,
) -> Result<Sqlite, OpenError> {
    let engine = Sqlite::open_moved(file, departure).await?;
    if engine.is_apart(&departure.last).await? {
        let revision = etcd.revision().await.map_err(OpenError::Revision)?;
        engine.begin_behind(&departure.last, revision).await?;
    }
    Ok(engine)
}
