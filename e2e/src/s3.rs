//! An S3 service beside the pods of a cluster, which reach it at the node's address: HTTPS, with
//! signatures checked. Its content is lost with it; [`S3::client`] carries it elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::{fs, io};

use pgtest::Authority;
use reports_server::backup::{self, Bucket, Credentials, Place};
use serde_json::{Value, json};
use tokio::process::Command;

use testcluster::{Cluster, Process, ProcessSpec, network, work_tree};

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(network::NODE_IP), 19443);
const BUCKET: &str = "backups";
const PREFIX: &str = "reports";
const REGION: &str = "eu-west-1";
const ACCESS_KEY: &str = "access-key-of-the-tests";
/// Name of the Secret with credentials and CA.
const SECRET: &str = "s3";

/// The reason why the service could not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// The cluster that it runs in.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It could not be built.
    #[error("hack/s3: {0}")]
    Build(String),
    /// Certificates could not be made.
    #[error("certificates of the S3 service: {0}")]
    Certificates(String),
    /// It does not answer as it should.
    #[error(transparent)]
    Bucket(#[from] backup::Error),
}

/// A running service with one empty bucket. It ends when dropped, and with the cluster at the
/// latest.
pub struct S3 {
    #[expect(dead_code, reason = "held: its drop ends it")]
    process: Process,
    authority: String,
    secret: String,
    ca_file: PathBuf,
}

impl S3 {
    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// If it cannot be built, or does not answer.
    pub async fn start(cluster: &Cluster) -> Result<Self, S3Error> {
        let program = program().await?;
        let directory = cluster.directory().join("s3");
        let write = |name: &str, content: &str| {
            let path = directory.join(name);
            let written = fs::create_dir_all(&directory).and_then(|()| fs::write(&path, content));
            written
                .map(|()| path.clone())
                .map_err(|source| S3Error::File { path, source })
        };
        let failed = |error: anyhow::Error| S3Error::Certificates(error.to_string());
        let authority = Authority::new("the S3 service's CA").map_err(failed)?;
        // Tests reach it through a loopback port.
        let names = [network::NODE_IP.to_string(), "127.0.0.1".to_owned()];
        let pair = authority.server(&[&names[0], &names[1]]).map_err(failed)?;
        let (certificate, key) = (
            write("tls.crt", &pair.certificate)?,
            write("tls.key", &pair.key)?,
        );
        let secret = uuid::Uuid::new_v4().simple().to_string();
        let spec = ProcessSpec::new("s3", program)
            .args([
                format!("-listen={ADDRESS}"),
                format!("-certificate={}", certificate.display()),
                format!("-key={}", key.display()),
                format!("-bucket={BUCKET}"),
            ])
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", secret.as_str());
        let service = Self {
            process: cluster.run(spec)?,
            ca_file: write("ca.crt", authority.pem())?,
            authority: authority.pem().to_owned(),
            secret,
        };
        service.client(cluster)?.list().await?;
        Ok(service)
    }

    /// Returns a client of its bucket, for this process.
    ///
    /// # Errors
    /// If no loopback port can be opened.
    pub fn client(&self, cluster: &Cluster) -> Result<Bucket, S3Error> {
        self.client_with(cluster, &self.secret)
    }

    /// Returns a client as [`client`](Self::client) does, with another secret key.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub fn client_with(&self, cluster: &Cluster, secret: &str) -> Result<Bucket, S3Error> {
        let address = cluster.forward(ADDRESS)?;
        let endpoint = format!("https://127.0.0.1:{}", address.port()).parse();
        let place = Place {
            bucket: BUCKET.to_owned(),
            prefix: PREFIX.to_owned(),
            endpoint: endpoint.ok(),
            region: REGION.to_owned(),
            ca_file: Some(self.ca_file.clone()),
        };
        Ok(Bucket::with(&place, Credentials::new(ACCESS_KEY, secret))?)
    }

    /// Returns the member `s3` of a specification.
    #[must_use]
    pub fn destination(&self) -> Value {
        json!({"bucket": BUCKET, "prefix": PREFIX, "region": REGION,
            "endpoint": format!("https://{ADDRESS}"),
            "credentialsSecretRef": {"name": SECRET}, "caSecretRef": {"name": SECRET}})
    }

    /// Returns the Secret that [`destination`](Self::destination) names.
    #[must_use]
    pub fn secret(&self, namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": namespace},
            "stringData": {"accessKeyId": ACCESS_KEY, "secretAccessKey": self.secret,
                "ca.crt": self.authority}})
    }
}

/// Returns the program that `hack/s3` names, which builds it when it is not in the cache.
async fn program() -> Result<PathBuf, S3Error> {
    let output = Command::new(work_tree().join("hack/s3"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| S3Error::Build(error.to_string()))?;
    if !output.status.success() {
        return Err(S3Error::Build(output.status.to_string()));
    }
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}
