//! A reader that reads the directory again and again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::{Parameters, ParametersError, key};

/// The name under which the kubelet keeps the files of a volume. The files beside it are links into
/// it, and it is exchanged for another as a whole.
const KUBELET_DATA: &str = "..data";

/// The number of times that a directory is read again which was exchanged while it was read.
const ATTEMPTS: usize = 8;

type Files = BTreeMap<String, Vec<u8>>;

/// A reader of the directory, which reads whenever it is asked to and tells whether something
/// changed.
///
/// ```no_run
/// # fn main() -> Result<(), database::ParametersError> {
/// let reader = database::ParametersReader::new("/etc/reports-server/database");
/// let first = reader.read()?;
/// // … before the next connection:
/// let now = reader.read()?;
/// if now.revision != first.revision {
///     // connections made with `first` are replaced as they become idle
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ParametersReader {
    directory: PathBuf,
    past: Mutex<Past>,
}

/// The result of earlier reads.
#[derive(Debug, Default)]
struct Past {
    last: Option<Reading>,
    /// The time since which the directory cannot be read.
    failing: Option<Instant>,
}

/// The result of a read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The parameters.
    pub parameters: Arc<Parameters>,
    /// A number that grows by one whenever the parameters differ from the ones before.
    pub revision: u64,
}

impl ParametersReader {
    /// Returns a reader for this directory, which is not read yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            past: Mutex::default(),
        }
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads the directory. Parameters that did not change are the same `Arc` as before.
    ///
    /// # Errors
    /// See [`ParametersError`]. What was read before stays in [`ParametersReader::last`].
    pub fn read(&self) -> Result<Reading, ParametersError> {
        let now = Parameters::from_directory(&self.directory)?;
        let mut past = self.past();
        if past.failing.take().is_some() {
            tracing::info!("the database's parameters can be read again");
        }
        let revision = match &past.last {
            Some(last) if *last.parameters == now => return Ok(last.clone()),
            Some(last) => last.revision + 1,
            None => 0,
        };
        let parameters = Arc::new(now);
        let reading = Reading {
            parameters,
            revision,
        };
        past.last = Some(reading.clone());
        Ok(reading)
    }

    /// Reads the directory. For as long as `grace` after it could not be read for the first time,
    /// it returns what was read last: a Secret that is deleted and made again, or lacks a key for a
    /// moment, ends no connection.
    ///
    /// # Errors
    /// As [`ParametersReader::read`], once that time is over, and where nothing was read before.
    pub fn read_or_last(&self, grace: Duration) -> Result<Reading, ParametersError> {
        let error = match self.read() {
            Ok(reading) => return Ok(reading),
            Err(error) => error,
        };
        let mut past = self.past();
        let first = past.failing.is_none();
        let failing = past.failing.get_or_insert_with(Instant::now).elapsed();
        match &past.last {
            Some(last) if failing < grace => {
                if first {
                    tracing::warn!(
                        %error,
                        seconds = grace.as_secs(),
                        "the database's parameters cannot be read; using the previous ones for now"
                    );
                }
                Ok(last.clone())
            }
            _ => Err(error),
        }
    }

    /// Returns what was last read without an error; the directory is not read again.
    #[must_use]
    pub fn last(&self) -> Option<Reading> {
        self.past().last.clone()
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the known files of a directory, all of one version where the kubelet made it.
pub(super) fn read_files(directory: &Path) -> Result<Files, ParametersError> {
    let version = || fs::canonicalize(directory.join(KUBELET_DATA)).ok();
    for _ in 0..ATTEMPTS {
        let before = version();
        let result = read_known(before.as_deref().unwrap_or(directory));
        // The link is exchanged before the version behind it goes: while it is the same, so was
        // everything that was read.
        if before == version() {
            return result;
        }
    }
    // What was read last may lack the files of a version that was being deleted.
    let source = io::Error::other("it was replaced repeatedly while it was read");
    Err(ParametersError::Read {
        path: directory.to_owned(),
        source,
    })
}

fn read_known(place: &Path) -> Result<Files, ParametersError> {
    let failed = |path: &Path, source| ParametersError::Read {
        path: path.to_owned(),
        source,
    };
    // A directory that is not there is another mistake than one without the files.
    fs::read_dir(place).map_err(|source| failed(place, source))?;
    let mut files = Files::new();
    for key in key::ALL {
        let path = place.join(key);
        match fs::read(&path) {
            Ok(value) => {
                files.insert(key.to_owned(), value);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(&path, source)),
        }
    }
    Ok(files)
}
