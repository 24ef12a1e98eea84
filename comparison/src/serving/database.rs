//! The PostgreSQL of the servers. It listens on the loopback of the host, which processes in a
//! cluster's network do not reach: a proxy at the node leads them there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pgtest::{Postgres, PostgresOptions, Proxy};

use super::ServingError;
use testcluster::Cluster;
use testcluster::network::NODE_IP;

/// Port at the node.
const PORT: u16 = 5432;
/// Folder with the parameters of the connection, in that of the servers' files.
const PARAMS: &str = "database";

/// A PostgreSQL that processes in a cluster's network reach at [`NODE_IP`].
pub(super) struct Database {
    params: PathBuf,
    // Held for as long as the servers run.
    _proxy: Proxy,
    postgres: Postgres,
}

impl Database {
    /// Starts it, and writes the parameters of the connection below `files`.
    pub(super) async fn start(cluster: &Cluster, files: &Path) -> Result<Self, ServingError> {
        let address = SocketAddr::from((NODE_IP, PORT));
        let failed = |error: anyhow::Error| ServingError::Postgres(format!("{error:#}"));
        let postgres = Postgres::start(PostgresOptions::default())
            .await
            .map_err(failed)?;
        let proxy = Proxy::on(cluster.listen(address)?, postgres.port()).map_err(failed)?;
        let params = files.join(PARAMS);
        postgres
            .params()
            .with("host", NODE_IP.to_string())
            .with("port", PORT.to_string())
            .write(&params)
            .map_err(failed)?;
        Ok(Self {
            params,
            _proxy: proxy,
            postgres,
        })
    }

    /// Returns the server itself.
    pub(super) fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    /// Returns the folder with the parameters of the connection.
    pub(super) fn params(&self) -> &Path {
        &self.params
    }
}
