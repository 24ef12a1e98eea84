//! The bucket: signed requests, in parts where a file is large.

mod answer;
mod place;
#[cfg(test)]
mod tests;
mod upload;

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use rusty_s3::actions::{ListObjectsV2, ListObjectsV2Response};
use rusty_s3::{Credentials, S3Action};
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{sleep, timeout};
use url::Url;

pub use place::Place;

use self::place::{bucket, credentials, prefix};
use super::error::causes;
use super::file::SUFFIX;
use super::{Error, tls};

/// Time for which a signature is valid, and that one request may take.
const REQUEST: Duration = Duration::from_mins(10);
/// Tries of one request, with these pauses between them.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(30),
];

/// A backup in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The name of the backup.
    pub name: String,
    /// The time at which it was stored, if that can be read.
    pub modified: Option<Timestamp>,
}

/// A bucket with backups.
pub struct Bucket {
    api: rusty_s3::Bucket,
    credentials: Credentials,
    prefix: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Bucket {
    /// Returns the bucket at this place, with the credentials of `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and, where it is set, `AWS_SESSION_TOKEN`.
    ///
    /// # Errors
    /// If the place or the credentials cannot be used. Nothing is sent yet.
    pub fn open(place: &Place) -> Result<Self, Error> {
        Self::with(place, credentials()?)
    }

    /// Opens the bucket as [`open`](Self::open), with these credentials.
    ///
    /// # Errors
    /// If the place cannot be used.
    pub fn with(place: &Place, credentials: Credentials) -> Result<Self, Error> {
        let config = tls::client_config(place.ca_file.as_deref())?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            api: bucket(place)?,
            credentials,
            prefix: prefix(&place.prefix),
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    /// Fetches a backup into a file, and returns its size. The file has its name when it is whole.
    ///
    /// # Errors
    /// If there is no backup of this name, or it cannot be fetched or written.
    pub async fn get(&self, name: &str, path: &Path) -> Result<u64, Error> {
        let partial = path.with_extension("partial");
        let mut pauses = PAUSES.iter();
        let bytes = loop {
            match self.fetch(name, &partial).await {
                Ok(bytes) => break bytes,
                Err(Error::Refused { status: 404, .. }) => {
                    let stored = self.list().await?.into_iter();
                    return Err(Error::Missing {
                        name: name.to_owned(),
                        present: stored.map(|backup| backup.name).collect(),
                    });
                }
                // The connection may break long after its first byte.
                Err(error) if error.is_passing() => match pauses.next() {
                    Some(pause) => sleep(*pause).await,
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        };
        let renamed = fs::rename(&partial, path).await;
        renamed.map_err(|source| file_error(path, source))?;
        Ok(bytes)
    }

    async fn fetch(&self, name: &str, path: &Path) -> Result<u64, Error> {
        let doing = "fetch the backup";
        let failed = |source| file_error(path, source);
        let key = self.key(name);
        let action = self.api.get_object(Some(&self.credentials), &key);
        let answer = self.ask(doing, &action, Bytes::new()).await?;
        let expected = answer::length(&answer);
        let mut file = File::create(path).await.map_err(failed)?;
        let (mut body, mut bytes) = (answer.into_body(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.unreachable(doing, error.to_string()))?;
            if let Ok(data) = frame.into_data() {
                bytes += data.len() as u64;
                file.write_all(&data).await.map_err(failed)?;
            }
        }
        if expected.is_some_and(|expected| expected != bytes) {
            return Err(self.unreachable(doing, format!("the answer ended after {bytes} bytes")));
        }
        file.sync_all().await.map_err(failed)?;
        Ok(bytes)
    }

    /// Returns all backups.
    ///
    /// # Errors
    /// If the bucket refuses.
    pub async fn list(&self) -> Result<Vec<Stored>, Error> {
        let doing = "list the backups";
        let (mut found, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut action = self.api.list_objects_v2(Some(&self.credentials));
            action.with_prefix(self.prefix.as_str());
            if let Some(token) = &token {
                action.with_continuation_token(token.as_str());
            }
            let answer = self.ask(doing, &action, Bytes::new()).await?;
            let page = ListObjectsV2::parse_response(&answer::text(doing, answer).await?)
                .map_err(|error| answer::unreadable(doing, &error))?;
            found.extend(backups(&page, &self.prefix));
            token = page.next_continuation_token;
            if token.is_none() {
                return Ok(found);
            }
        }
    }

    /// Removes a backup.
    ///
    /// # Errors
    /// If the bucket refuses.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let key = self.key(name);
        let action = self.api.delete_object(Some(&self.credentials), &key);
        let answer = self.ask("remove an old backup", &action, Bytes::new());
        answer.await.map(drop)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}{SUFFIX}", self.prefix)
    }

    /// Sends a request until it is answered with success, or an answer is final.
    async fn ask<'a, A: S3Action<'a>>(
        &self,
        doing: &'static str,
        action: &A,
        body: Bytes,
    ) -> Result<Response<Incoming>, Error> {
        let mut pauses = PAUSES.iter();
        loop {
            let url = action.sign(REQUEST);
            let error = match self
                .send(doing, A::METHOD.to_str(), &url, body.clone())
                .await
            {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if error.is_passing() => {
                    tracing::warn!(%error, "trying again");
                    sleep(*pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn send(
        &self,
        doing: &'static str,
        method: &str,
        url: &Url,
        body: Bytes,
    ) -> Result<Response<Incoming>, Error> {
        let method = Method::from_bytes(method.as_bytes());
        let request = method.map_err(http::Error::from).and_then(|method| {
            Request::builder()
                .method(method)
                .uri(url.as_str())
                .body(Full::new(body))
        });
        let request = request.map_err(|error| answer::unreadable(doing, &error))?;
        let answer = timeout(REQUEST, self.client.request(request))
            .await
            .map_err(|_| self.unreachable(doing, "no answer in time".to_owned()))?
            .map_err(|error| self.unreachable(doing, causes(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(Error::Refused {
            doing,
            status: status.as_u16(),
            why: answer::refusal(status, &answer::text(doing, answer).await?),
        })
    }

    fn unreachable(&self, doing: &'static str, why: String) -> Error {
        let host = self.api.base_url().host_str().unwrap_or_default();
        Error::Unreachable {
            doing,
            host: host.to_owned(),
            why,
        }
    }
}

/// Returns the backups among a page's objects; the bucket may hold others.
fn backups(page: &ListObjectsV2Response, prefix: &str) -> Vec<Stored> {
    let objects = page.contents.iter();
    objects
        .filter_map(|object| {
            let name = object.key.strip_prefix(prefix)?.strip_suffix(SUFFIX)?;
            let modified = object.last_modified.as_ref();
            (!name.contains('/')).then(|| Stored {
                name: name.to_owned(),
                modified: modified.and_then(|time| time.parse().ok()),
            })
        })
        .collect()
}

fn file_error(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}
