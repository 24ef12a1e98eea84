use std::path::Path;
use std::time::{Duration, Instant};

use pgtest::Params;
use tokio_postgres::{Client, Config, NoTls};

/// Waits until `condition` holds.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn config(params: &Params) -> Config {
    let mut config = Config::new();
    let get = |key| params.get(key).unwrap();
    config
        .host(get("host"))
        .port(get("port").parse().unwrap())
        .user(get("username"))
        .password(get("password"))
        .dbname(get("dbname"));
    config
}

pub async fn connect(params: &Params) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config(params).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub async fn number(client: &Client, sql: &str) -> Result<i64, tokio_postgres::Error> {
    Ok(client.query_typed(sql, &[]).await?[0].get(0))
}

/// libpq's view of the server, whose TLS is the reference.
pub async fn psql(params: &Params, directory: &Path) -> Result<String, String> {
    params.write(directory).unwrap();
    let mut command = tokio::process::Command::new("psql");
    command.args([
        "-XAtc",
        "SELECT ssl::text || ' ' || current_user FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    ]);
    for (variable, key) in [
        ("PGHOST", "host"),
        ("PGPORT", "port"),
        ("PGDATABASE", "dbname"),
        ("PGUSER", "username"),
        ("PGPASSWORD", "password"),
        ("PGSSLMODE", "sslmode"),
    ] {
        if let Some(value) = params.get(key) {
            command.env(variable, value);
        }
    }
    for (variable, key) in [
        ("PGSSLROOTCERT", "ca.crt"),
        ("PGSSLCERT", "tls.crt"),
        ("PGSSLKEY", "tls.key"),
    ] {
        if params.get(key).is_some() {
            let path = directory.join(key);
            command.env(variable, path.canonicalize().unwrap());
        }
    }
    if params.get("tls.key").is_some() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(directory.join("tls.key"), mode).unwrap();
    }
    let output = command.output().await.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}
