//! Command line and environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use storage::store::{Database, MoveOptions, PostgresOptions};

use crate::cluster::ConfigMapRef;
use crate::http::LimitConfig;
use crate::telemetry::LogFormat;
use crate::tls::CertificateFiles;

/// One connection writes, one follows other servers, one listens to them, one tells them, one
/// reads.
const MIN_CONNECTIONS: usize = 5;

/// An aggregated API server for policy reports: serves the report APIs of a Kubernetes cluster
/// from its own database in place of etcd.
#[derive(Clone, Debug, Parser)]
#[command(version, about)]
pub struct Config {
    /// Address and port to listen on.
    #[arg(
        long,
        env = "REPORTS_SERVER_BIND_ADDRESS",
        default_value = "0.0.0.0:8443"
    )]
    pub bind_address: SocketAddr,
    /// File with the serving certificate and its chain in PEM; read again when it changes.
    #[arg(long, env = "REPORTS_SERVER_TLS_CERT_FILE")]
    pub tls_cert_file: PathBuf,
    /// File with the key of the serving certificate in PEM; read again when it changes.
    #[arg(long, env = "REPORTS_SERVER_TLS_PRIVATE_KEY_FILE")]
    pub tls_private_key_file: PathBuf,
    /// SQLite database file; created if it does not exist.
    #[arg(
        long,
        env = "REPORTS_SERVER_DATABASE",
        default_value = "/var/lib/reports-server/reports.db"
    )]
    pub database: PathBuf,
    /// Directory with the parameters of a PostgreSQL database, in place of --database; read again
    /// for each connection. A file `history` beside them names the history that the database has to
    /// have (`kubectl get databases.control.reports-server.io` shows it): nothing is made in one that
    /// lacks it.
    #[arg(
        long,
        env = "REPORTS_SERVER_DATABASE_DIR",
        conflicts_with = "database",
        requires = "cluster_identity"
    )]
    pub database_dir: Option<PathBuf>,
    /// Directory that names the PostgreSQL to which the reports are moved from --database, or from
    /// the one of --database-dir: the parameters of the connection, and beside them
    /// `cluster-identity`. Checked regularly; nothing is moved while it is empty. Servers that share
    /// a database must all have it.
    // An operator may run servers of the release before. Those refuse the option beside
    // --database-dir, also by its variable of then, so the variable is another one.
    #[arg(long, env = "REPORTS_SERVER_MOVE_DIR")]
    pub move_database_dir: Option<PathBuf>,
    /// SQLite file to which the reports of the PostgreSQL of --database-dir can be moved, where a file
    /// `to-file` in --move-database-dir asks for it: no other server may be on that database then.
    // As --move-database-dir, its variable is none of the release before.
    #[arg(
        long,
        env = "REPORTS_SERVER_MOVE_FILE",
        conflicts_with = "database",
        requires = "move_database_dir"
    )]
    pub move_database_file: Option<PathBuf>,
    /// Directory for copies of --database, which `reports-server backup make` asks for: it needs
    /// room for one. Without it there are no copies.
    #[arg(long, env = "REPORTS_SERVER_COPY_DIR", conflicts_with = "database_dir")]
    pub copy_dir: Option<PathBuf>,
    /// Identity that distinguishes this cluster from others in the same PostgreSQL database, such
    /// as the uid of its namespace kube-system. It must never change.
    #[arg(long, env = "REPORTS_SERVER_CLUSTER_IDENTITY")]
    pub cluster_identity: Option<String>,
    /// Uid of the namespace `kube-system`: where the database holds this cluster's reports under
    /// another identity, they are not begun anew.
    #[arg(long, env = "REPORTS_SERVER_CLUSTER_UID", default_value = "")]
    pub cluster_uid: String,
    /// Name of this cluster for people; SQL users see it.
    #[arg(long, env = "REPORTS_SERVER_CLUSTER_NAME", default_value = "")]
    pub cluster_name: String,
    /// Maximum number of connections to PostgreSQL.
    #[arg(
        long,
        env = "REPORTS_SERVER_DATABASE_MAX_CONNECTIONS",
        default_value_t = 8,
        value_parser = max_connections
    )]
    pub database_max_connections: usize,
    /// `ConfigMap` (NAMESPACE/NAME) whose key `groups` lists the API groups to serve; watched.
    #[arg(
        long,
        env = "REPORTS_SERVER_CONFIG_MAP",
        conflicts_with = "groups",
        required_unless_present = "groups"
    )]
    pub config_map: Option<ConfigMapRef>,
    /// API groups to serve, separated by commas, in place of --config-map.
    #[arg(long, env = "REPORTS_SERVER_GROUPS")]
    pub groups: Option<String>,
    /// Users whose writes and watches are refused whatever their rights, separated by commas. With
    /// --config-map, its key `refusedWriters` lists them.
    #[arg(
        long,
        env = "REPORTS_SERVER_REFUSED_WRITERS",
        conflicts_with = "config_map"
    )]
    pub refused_writers: Option<String>,
    /// Log each request of a client that did not come through the kube-apiserver. With --config-map,
    /// its key `auditDirectClients` says it.
    #[arg(
        long,
        env = "REPORTS_SERVER_AUDIT_DIRECT_CLIENTS",
        conflicts_with = "config_map"
    )]
    pub audit_direct_clients: bool,
    /// Kubeconfig file; by default the pod's service account is used.
    #[arg(long, env = "REPORTS_SERVER_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Log level, or a filter such as `info,reports_server=debug`.
    #[arg(long, env = "REPORTS_SERVER_LOG_LEVEL", default_value = "info")]
    pub log_level: String,
    /// Form of a log line: an object for programs, or text for people.
    #[arg(long, env = "REPORTS_SERVER_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// URL of a collector that takes traces by OTLP over HTTP, such as
    /// `http://otel-collector.monitoring:4318`; without it there are no traces.
    #[arg(long, env = "REPORTS_SERVER_TRACING_ENDPOINT")]
    pub tracing_endpoint: Option<traces::Endpoint>,
    /// Traces of a million that are recorded, of those that begin here. One that a kube-apiserver
    /// has begun is recorded where that one records it.
    #[arg(
        long,
        env = "REPORTS_SERVER_TRACING_SAMPLING_RATE_PER_MILLION",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(traces::MAX_RATE)),
        requires = "tracing_endpoint"
    )]
    pub tracing_sampling_rate_per_million: u32,
    /// File with the CAs of the collector's certificate in PEM, read again for each export; the
    /// public CAs without it.
    #[arg(
        long,
        env = "REPORTS_SERVER_TRACING_CA_FILE",
        requires = "tracing_endpoint"
    )]
    pub tracing_ca_file: Option<PathBuf>,
    /// Time between failing /readyz and the end of service, in which clients move to other servers.
    #[arg(long, env = "REPORTS_SERVER_SHUTDOWN_DELAY", default_value = "10s", value_parser = duration)]
    pub shutdown_delay: Duration,
    /// Maximum time to wait for running requests when the service ends.
    #[arg(long, env = "REPORTS_SERVER_DRAIN_TIMEOUT", default_value = "15s", value_parser = duration)]
    pub drain_timeout: Duration,
    /// Time after another server joins the same database, plus or minus a fifth, at which clients
    /// of older connections are told to open new ones, so that they spread over the servers again;
    /// requests on the old ones continue. Without a pause between requests, twice that time. 0s:
    /// never.
    #[arg(long, env = "REPORTS_SERVER_CONNECTION_MAX_AGE", default_value = "5m", value_parser = duration)]
    pub connection_max_age: Duration,
    /// Time for which changes are kept: a watch can resume from that far back.
    #[arg(long, env = "REPORTS_SERVER_HISTORY", default_value = "10m", value_parser = duration)]
    pub history: Duration,
    /// Maximum number of get and list requests at one time; more are refused with 429.
    #[arg(long, env = "REPORTS_SERVER_MAX_REQUESTS", default_value_t = LimitConfig::default().reading)]
    pub max_requests_inflight: usize,
    /// Maximum number of writing requests at one time; more are refused with 429.
    #[arg(
        long,
        env = "REPORTS_SERVER_MAX_MUTATING_REQUESTS",
        default_value_t = LimitConfig::default().writing
    )]
    pub max_mutating_requests_inflight: usize,
}

impl Config {
    /// Returns the files of the serving certificate.
    #[must_use]
    pub fn certificate_files(&self) -> CertificateFiles {
        CertificateFiles {
            cert: self.tls_cert_file.clone(),
            key: self.tls_private_key_file.clone(),
        }
    }

    /// Returns the database of the objects.
    #[must_use]
    pub fn store_database(&self) -> Database {
        let Some(directory) = &self.database_dir else {
            return match &self.move_database_dir {
                Some(directory) => Database::Movable(MoveOptions::new(&self.database, directory)),
                None => Database::Sqlite(self.database.clone()),
            };
        };
        let identity = self.cluster_identity.clone().unwrap_or_default();
        let mut options = PostgresOptions::new(directory, identity);
        options.cluster_name.clone_from(&self.cluster_name);
        options.cluster_uid.clone_from(&self.cluster_uid);
        options.max_connections = self.database_max_connections;
        match &self.move_database_dir {
            Some(directory) => Database::Movable(MoveOptions {
                file: self.move_database_file.clone(),
                ..MoveOptions::between(options, directory)
            }),
            None => Database::Postgres(options),
        }
    }

    /// Returns the collector of traces, and what it gets.
    #[must_use]
    pub fn traces(&self) -> Option<traces::Settings> {
        let endpoint = self.tracing_endpoint.clone()?;
        Some(traces::Settings {
            endpoint,
            rate_per_million: self.tracing_sampling_rate_per_million,
            ca: self.tracing_ca_file.clone(),
        })
    }

    /// Returns the bounds of concurrent work.
    #[must_use]
    pub fn limits(&self) -> LimitConfig {
        LimitConfig {
            reading: self.max_requests_inflight,
            writing: self.max_mutating_requests_inflight,
            ..LimitConfig::default()
        }
    }
}

/// Returns a number of connections with which the store can work.
fn max_connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n >= MIN_CONNECTIONS => Ok(n),
        _ => Err(format!("give a number of at least {MIN_CONNECTIONS}")),
    }
}

/// Returns a duration such as `90s`, `10m` or `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration = text
        .parse()
        .map_err(|error| format!("{error}; give a duration such as 30s, 10m or 1h30m"))?;
    Duration::try_from(signed).map_err(|_| "must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use rstest::rstest;

    use super::*;

    const FILES: [&str; 5] = [
        "reports-server",
        "--tls-cert-file",
        "/c",
        "--tls-private-key-file",
        "/k",
    ];

    fn parse(more: &[&str]) -> Result<Config, clap::Error> {
        Config::try_parse_from(FILES.iter().chain(more))
    }

    #[test]
    fn is_consistent() {
        Config::command().debug_assert();
    }

    #[test]
    fn has_defaults_for_production() {
        let config = parse(&["--config-map", "ns/name"]).unwrap();
        assert_eq!(config.bind_address, "0.0.0.0:8443".parse().unwrap());
        assert_eq!(config.shutdown_delay, Duration::from_secs(10));
        assert_eq!(config.history, Duration::from_mins(10));
        assert_eq!(config.log_format, LogFormat::Json);
        assert_eq!(config.connection_max_age, Duration::from_mins(5));
        assert!(config.traces().is_none());
        assert_eq!(config.config_map.unwrap().name, "name");
    }

    #[test]
    fn a_collector_gets_what_its_senders_record_unless_a_rate_is_given() {
        let traces = |more: &[&str]| {
            let endpoint = ["--groups=g.io", "--tracing-endpoint=http://collector:4318"];
            let arguments: Vec<&str> = endpoint.iter().chain(more).copied().collect();
            parse(&arguments).unwrap().traces().unwrap()
        };
        let plain = traces(&[]);
        assert_eq!(plain.endpoint.url(), "http://collector:4318/v1/traces");
        assert_eq!((plain.rate_per_million, plain.ca), (0, None));
        let given = traces(&[
            "--tracing-sampling-rate-per-million=1000000",
            "--tracing-ca-file=/ca.crt",
        ]);
        assert_eq!(given.rate_per_million, 1_000_000);
        assert_eq!(given.ca, Some(PathBuf::from("/ca.crt")));
    }

    #[rstest]
    #[case(&["--database=/f"], "Sqlite(\"/f\")")]
    #[case(&["--database=/f", "--move-database-dir=/m"], "from: File(\"/f\")")]
    #[case(&["--database-dir=/d", "--cluster-identity=c"], "Postgres(PostgresOptions")]
    #[case(
        &["--database-dir=/d", "--cluster-identity=c", "--move-database-dir=/m"],
        "from: Postgres(PostgresOptions"
    )]
    #[case(
        &["--database-dir=/d", "--cluster-identity=c", "--move-database-dir=/m",
          "--move-database-file=/f"],
        "file: Some(\"/f\")"
    )]
    fn any_database_can_be_moved(#[case] more: &[&str], #[case] expected: &str) {
        let arguments: Vec<&str> = ["--groups=g.io"].iter().chain(more).copied().collect();
        let database = format!("{:?}", parse(&arguments).unwrap().store_database());
        assert!(database.contains(expected), "{database}");
    }

    #[rstest]
    #[case(&[], "--config-map")]
    #[case(&["--config-map", "a/b", "--groups", "g.io"], "cannot be used with")]
    #[case(&["--config-map", "a"], "NAMESPACE/NAME")]
    #[case(&["--groups", "g.io", "--history", "soon"], "such as 30s")]
    #[case(&["--groups", "g.io", "--history=-1s"], "negative")]
    #[case(&["--groups", "g.io", "--database-dir", "/d"], "--cluster-identity")]
    #[case(
        &["--groups=g.io", "--database-dir=/d", "--database=f", "--cluster-identity=c"],
        "cannot be used with"
    )]
    #[case(
        &["--groups=g.io", "--database-dir=/d", "--cluster-identity=c", "--move-database-file=/f"],
        "--move-database-dir"
    )]
    #[case(&["--groups", "g.io", "--database-max-connections", "2"], "at least 5")]
    #[case(&["--groups", "g.io", "--log-format", "xml"], "possible values: json, text")]
    #[case(&["--groups", "g.io", "--tracing-endpoint", "collector:4317"], "http://")]
    #[case(&["--groups", "g.io", "--tracing-ca-file", "/ca.crt"], "--tracing-endpoint")]
    #[case(
        &["--groups=g.io", "--tracing-endpoint=http://c", "--tracing-sampling-rate-per-million=1000001"],
        "1000001 is not in 0..=1000000"
    )]
    fn names_what_is_wrong(#[case] more: &[&str], #[case] expected: &str) {
        let error = parse(more).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
