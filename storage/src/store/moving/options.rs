//! Options of a move.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::store::PostgresOptions;

/// A database that can be moved.
#[derive(Clone, Debug)]
pub struct MoveOptions {
    /// The database that is moved.
    pub from: MovedFrom,
    /// Directory that names the database to move to, if any.
    pub directory: PathBuf,
    /// The file of this server to which the reports of a PostgreSQL can be moved; without one they
    /// can only be moved to another PostgreSQL.
    pub file: Option<PathBuf>,
    /// Longest time for which writes wait in the last step. A step that takes longer is given up,
    /// and tried again later.
    pub hold: Duration,
    /// Interval of looks at the directory.
    pub interval: Duration,
    /// Time after which another server goes on with a move whose server is not heard of.
    pub lease: Duration,
}

impl MoveOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        Self {
            from: MovedFrom::File(file.into()),
            directory: directory.into(),
            file: None,
            hold: Duration::from_secs(5),
            interval: Duration::from_secs(1),
            lease: Duration::from_secs(20),
        }
    }

    /// Returns the defaults for a PostgreSQL database. Writes of other servers wait as long as
    /// those of the one that moves, and a bit less than they can.
    #[must_use]
    pub fn between(postgres: PostgresOptions, directory: impl Into<PathBuf>) -> Self {
        Self {
            from: MovedFrom::Postgres(postgres),
            hold: Duration::from_secs(4),
            ..Self::new(PathBuf::new(), directory)
        }
    }
}

/// The database that is moved.
#[derive(Clone, Debug)]
pub enum MovedFrom {
    /// A SQLite file; made if it does not exist, in a directory that exists.
    File(PathBuf),
    /// A PostgreSQL database, which other servers may use as well.
    Postgres(PostgresOptions),
}

impl fmt::Display for MovedFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Postgres(options) => {
                write!(f, "PostgreSQL as in {}", options.directory.display())
            }
        }
    }
}
