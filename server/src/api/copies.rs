//! Copies of an embedded database, as backups ask for them. One is made at a time, in a directory of
//! its own: a database whose volume a copy has filled could take no write.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apimachinery::error::ApiError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, StatusCode};
use storage::store::Store;
use tokio::fs::{self, File};
use tokio::io::AsyncReadExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::response;
use crate::registry::store_error;

/// Media type of a SQLite database.
const MEDIA_TYPE: &str = "application/vnd.sqlite3";
/// Name of the file while it is written; it has none while it is sent.
const NAME: &str = "copy.db";
/// Bytes after which a part is handed on.
const CHUNK: u64 = 256 * 1024;
/// Seconds after which a client whose turn it is not should try again.
const RETRY_AFTER: u32 = 30;

/// Makes copies, one at a time.
#[derive(Debug)]
pub struct Copies {
    directory: PathBuf,
    turn: Arc<Semaphore>,
}

/// A copy on its way to a client. The file is gone with it, and the next one may be made.
struct Copied {
    file: File,
    bytes: u64,
    _turn: OwnedSemaphorePermit,
}

impl Copies {
    /// Returns copies that are written to `directory`, which must exist.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns an answer with the database of `store` as it is now.
    ///
    /// # Errors
    /// 429 while another copy is made or sent, 409 where the database is no file, 503 if the copy
    /// cannot be written.
    pub async fn answer(&self, store: &Store) -> Result<Response, ApiError> {
        let turn = self.turn.clone().try_acquire_owned().map_err(|_| {
            let message = "another copy of the database is being made; try again later";
            ApiError::too_many_requests(message, RETRY_AFTER)
        })?;
        // In a task of its own: it goes on to its end, and takes the file away, also where the
        // client does not wait for it.
        let made = tokio::spawn(make(store.clone(), self.directory.join(NAME), turn));
        let copied = made.await.map_err(ApiError::internal)??;
        Ok(send(copied))
    }
}

async fn make(store: Store, path: PathBuf, turn: OwnedSemaphorePermit) -> Result<Copied, ApiError> {
    // A process that was killed may have left one.
    remove(&path).await?;
    let written = store.write_copy(&path).await;
    let opened = match written {
        Ok(()) => open(&path).await.map_err(ApiError::internal),
        Err(error) => Err(store_error(&error)),
    };
    remove(&path).await?;
    let (file, bytes) = opened?;
    tracing::info!(bytes, "copied the database");
    Ok(Copied {
        file,
        bytes,
        _turn: turn,
    })
}

async fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path).await?;
    let bytes = file.metadata().await?.len();
    Ok((file, bytes))
}

async fn remove(path: &Path) -> Result<(), ApiError> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let message = format!("cannot remove {}: {error}", path.display());
            Err(ApiError::internal(message))
        }
        _ => Ok(()),
    }
}

fn send(copied: Copied) -> Response {
    let length = HeaderValue::from(copied.bytes);
    let bytes = stream::try_unfold(copied, |mut copied| async move {
        let mut chunk = Vec::new();
        let mut part = (&mut copied.file).take(CHUNK);
        let read = part.read_to_end(&mut chunk).await?;
        Ok::<_, io::Error>((read > 0).then(|| (Bytes::from(chunk), copied)))
    });
    let mut response = response::bytes(StatusCode::OK, MEDIA_TYPE, Body::from_stream(bytes));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}
