//! The bucket: signed requests, in parts where a file is large.

mod answer;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use bytes::Bytes;
use clap::Args;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use rusty_s3::actions::{ListObjectsV2, ListObjectsV2Response};
use rusty_s3::{Credentials, S3Action, UrlStyle};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};
use url::Url;

use super::error::causes;
use super::file::SUFFIX;
use super::{Error, error, tls};

/// Least size of a part, in bytes; also the size up to which a file is sent whole.
const PART: u64 = 16 << 20;
/// Most parts of one object, by S3's own limit of 10,000.
const PARTS: u64 = 9_000;
/// Time for which a signature is valid, and that one request may take.
const REQUEST: Duration = Duration::from_mins(10);
/// Tries of one request, with these pauses between them.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(30),
];
/// Region when none is given; services that know no regions accept it.
const REGION: &str = "us-east-1";

/// The place of a bucket.
#[derive(Args, Clone, Debug, Default)]
pub struct Place {
    /// Name of the bucket.
    #[arg(long)]
    pub bucket: String,
    /// Beginning of every key in the bucket.
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// URL of the service; AWS where it is absent.
    #[arg(long)]
    pub endpoint: Option<Url>,
    /// Region of the bucket.
    #[arg(long, default_value = REGION)]
    pub region: String,
    /// File with the CAs of the service's certificate, PEM; Mozilla's where it is absent.
    #[arg(long)]
    pub ca_file: Option<PathBuf>,
}

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

    /// Stores a file as the backup of this name, and returns its size. It is there as a whole, or
    /// not at all.
    ///
    /// # Errors
    /// If the file cannot be read, or the bucket does not take it.
    pub async fn put(&self, name: &str, path: &Path) -> Result<u64, Error> {
        let failed = |source| file_error(path, source);
        let mut file = File::open(path).await.map_err(failed)?;
        let size = file.metadata().await.map_err(failed)?.len();
        let key = self.key(name);
        if size <= PART {
            let content = read(&mut file, PART).await.map_err(failed)?;
            let action = self.api.put_object(Some(&self.credentials), &key);
            self.ask("store the backup", &action, content).await?;
        } else {
            self.put_in_parts(&key, &mut file, size, path).await?;
        }
        let stored = self.size(&key).await?;
        if stored != size {
            return Err(Error::Answer {
                doing: "store the backup",
                why: format!("{stored} of {size} bytes arrived"),
            });
        }
        Ok(size)
    }

    async fn put_in_parts(
        &self,
        key: &str,
        file: &mut File,
        size: u64,
        path: &Path,
    ) -> Result<(), Error> {
        let doing = "start the upload of the backup";
        let action = self
            .api
            .create_multipart_upload(Some(&self.credentials), key);
        let answer = self.ask(doing, &action, Bytes::new()).await?;
        let answer = answer::text(doing, answer).await?;
        let upload = error::element(&answer, "UploadId").ok_or_else(|| Error::Answer {
            doing,
            why: "the answer has no UploadId".to_owned(),
        })?;
        let sent = self.send_parts(key, upload, file, size, path).await;
        if sent.is_err() {
            // Parts without an end cost money until somebody removes them.
            let action = self
                .api
                .abort_multipart_upload(Some(&self.credentials), key, upload);
            let aborted = self.ask("abort the upload", &action, Bytes::new()).await;
            if let Err(error) = aborted {
                tracing::warn!(%error, "parts of the backup are left in the bucket");
            }
        }
        sent
    }

    async fn send_parts(
        &self,
        key: &str,
        upload: &str,
        file: &mut File,
        size: u64,
        path: &Path,
    ) -> Result<(), Error> {
        let credentials = Some(&self.credentials);
        let part = PART.max(size.div_ceil(PARTS));
        let mut tags = Vec::new();
        for number in 1..=u16::MAX {
            let content = read(file, part).await;
            let content = content.map_err(|source| file_error(path, source))?;
            if content.is_empty() {
                break;
            }
            let doing = "store a part of the backup";
            let action = self.api.upload_part(credentials, key, number, upload);
            let answer = self.ask(doing, &action, content).await?;
            tags.push(answer::tag(doing, &answer)?);
        }
        let doing = "complete the upload of the backup";
        let tags = || tags.iter().map(String::as_str);
        let action = self
            .api
            .complete_multipart_upload(credentials, key, upload, tags());
        let body = self
            .api
            .complete_multipart_upload(credentials, key, upload, tags())
            .body();
        let answer = self.ask(doing, &action, body.into()).await?;
        // S3 may say 200 and then that it failed.
        let answer = answer::text(doing, answer).await?;
        if error::element(&answer, "ETag").is_none() {
            let why = error::of_document(&answer);
            return Err(Error::Answer { doing, why });
        }
        Ok(())
    }

    async fn size(&self, key: &str) -> Result<u64, Error> {
        let doing = "check the stored backup";
        let action = self.api.head_object(Some(&self.credentials), key);
        let answer = self.ask(doing, &action, Bytes::new()).await?;
        answer::length(&answer).ok_or_else(|| Error::Answer {
            doing,
            why: "the answer has no length".to_owned(),
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

fn credentials() -> Result<Credentials, Error> {
    let variable = |what: &'static str| {
        env::var(what).map_err(|_| Error::Invalid {
            what,
            why: "is not set: it comes from the Secret of credentialsSecretRef".to_owned(),
        })
    };
    let key = variable("AWS_ACCESS_KEY_ID")?;
    let secret = variable("AWS_SECRET_ACCESS_KEY")?;
    Ok(match env::var("AWS_SESSION_TOKEN") {
        Ok(token) if !token.is_empty() => Credentials::new_with_token(key, secret, token),
        _ => Credentials::new(key, secret),
    })
}

/// Returns the bucket. AWS has a host for each bucket; other services often have no name but the
/// one of the endpoint.
fn bucket(place: &Place) -> Result<rusty_s3::Bucket, Error> {
    let invalid = |why: String| Error::Invalid {
        what: "--endpoint",
        why,
    };
    let (endpoint, style) = if let Some(endpoint) = &place.endpoint {
        (endpoint.clone(), UrlStyle::Path)
    } else {
        let aws = format!("https://s3.{}.amazonaws.com", place.region);
        let endpoint = aws
            .parse::<Url>()
            .map_err(|error| invalid(error.to_string()))?;
        // A dot would make it a name that the certificate does not cover.
        let dotted = place.bucket.contains('.');
        let style = if dotted {
            UrlStyle::Path
        } else {
            UrlStyle::VirtualHost
        };
        (endpoint, style)
    };
    rusty_s3::Bucket::new(endpoint, style, place.bucket.clone(), place.region.clone())
        .map_err(|error| invalid(error.to_string()))
}

/// Returns the prefix with a slash at its end, and without one at its beginning.
fn prefix(text: &str) -> String {
    match text.trim_matches('/') {
        "" => String::new(),
        text => format!("{text}/"),
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

async fn read(file: &mut File, most: u64) -> io::Result<Bytes> {
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content).await?;
    Ok(content.into())
}

fn file_error(path: &Path, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        source,
    }
}
