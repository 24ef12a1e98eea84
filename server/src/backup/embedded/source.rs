//! The server, which makes copies of its embedded database ([`crds::control::COPY`]).

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use crds::control::{API_VERSION, COPY, DATABASE_NAME, DATABASES};
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::fs;
use tokio::time::{sleep, timeout};
use url::Url;

use super::archive::Archive;
use crate::backup::error::causes;
use crate::backup::{Error, tls};

const DOING: &str = "fetch a copy of the database";
/// The longest time until an answer begins: the copy is made before.
const BEGIN: Duration = Duration::from_hours(1);
/// The longest time without a byte of it.
const SILENCE: Duration = Duration::from_mins(5);
/// Most bytes of the answer of a refusal that are read.
const REFUSAL: usize = 64 * 1024;
/// Pauses between the tries of one Job: the server may be restarting, or sending another copy.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_mins(1),
];

/// The way to the server.
#[derive(Args, Clone, Debug)]
pub(in crate::backup) struct Source {
    /// URL of the server.
    #[arg(long)]
    pub server: Url,
    /// File with the CAs of the server's certificate, PEM.
    #[arg(long)]
    pub ca_file: PathBuf,
    /// File with the token of a user who may get databases/copy of the control API.
    #[arg(
        long,
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    pub token_file: PathBuf,
}

impl Source {
    /// Writes a copy of the server's database to a file, and returns its size. Tries again where
    /// that may help.
    ///
    /// # Errors
    /// If the server does not send one, or the file cannot be written.
    pub async fn fetch(&self, path: &Path, cluster_uid: &str) -> Result<u64, Error> {
        let mut pauses = PAUSES.iter();
        loop {
            let error = match self.try_fetch(path, cluster_uid).await {
                Ok(bytes) => return Ok(bytes),
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

    /// Writes a copy as [`fetch`](Self::fetch), at one try.
    ///
    /// # Errors
    /// The same.
    pub async fn try_fetch(&self, path: &Path, cluster_uid: &str) -> Result<u64, Error> {
        let answer = self.ask().await?;
        let announced = length(&answer);
        let failed = |source| Error::File {
            path: path.to_owned(),
            source,
        };
        let mut archive = Archive::create(path, cluster_uid).map_err(failed)?;
        let (mut body, mut bytes) = (answer.into_body(), 0);
        while let Some(frame) = timeout(SILENCE, body.frame())
            .await
            .map_err(|_| self.unreachable("the answer does not go on".to_owned()))?
        {
            let frame = frame.map_err(|error| self.unreachable(error.to_string()))?;
            if let Ok(data) = frame.into_data() {
                bytes += data.len() as u64;
                archive.add(&data).map_err(failed)?;
            }
        }
        if announced != Some(bytes) {
            return Err(self.unreachable(format!("the answer ended after {bytes} bytes")));
        }
        archive.finish().map_err(failed)?;
        Ok(bytes)
    }

    async fn ask(&self) -> Result<Response<Incoming>, Error> {
        // Read each time: the kubelet replaces it before it expires.
        let token = fs::read_to_string(&self.token_file).await;
        let token = token.map_err(|source| Error::File {
            path: self.token_file.clone(),
            source,
        })?;
        let path = format!("apis/{API_VERSION}/{DATABASES}/{DATABASE_NAME}/{COPY}");
        let url = self.server.join(&path).map_err(|error| invalid(&error))?;
        let request = Request::get(url.as_str())
            .header(AUTHORIZATION, format!("Bearer {}", token.trim()))
            .body(Empty::new())
            .map_err(|error| invalid(&error))?;
        let answer = timeout(BEGIN, self.client()?.request(request))
            .await
            .map_err(|_| self.unreachable("no answer in time".to_owned()))?
            .map_err(|error| self.unreachable(causes(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(Error::NoCopy {
            status: status.as_u16(),
            why: refusal(answer).await,
        })
    }

    fn client(&self) -> Result<Client<HttpsConnector<HttpConnector>, Empty<Bytes>>, Error> {
        let config = tls::client_config(Some(self.ca_file.as_path()))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Client::builder(TokioExecutor::new()).build(connector))
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable {
            doing: DOING,
            host: self.server.host_str().unwrap_or_default().to_owned(),
            why,
        }
    }
}

fn invalid(error: &dyn std::error::Error) -> Error {
    Error::Invalid {
        what: "--server",
        why: error.to_string(),
    }
}

/// Returns the size of the database, which the server knows beforehand.
fn length(answer: &Response<Incoming>) -> Option<u64> {
    let length = answer.headers().get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// Returns the message of a `Status`, or the beginning of another answer.
async fn refusal(answer: Response<Incoming>) -> String {
    let body = Limited::new(answer.into_body(), REFUSAL).collect().await;
    let Ok(body) = body else {
        return String::new();
    };
    let body = body.to_bytes();
    let status = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    match status["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(&body).chars().take(200).collect(),
    }
}
