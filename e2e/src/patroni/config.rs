//! The configuration of Patroni and its PostgreSQL.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{ADDRESS, DATABASE, OTHER_DATABASE, PROGRAMS, ROLE};

/// One of the two servers.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The name in Patroni.
    pub name: String,
    /// The address where PostgreSQL listens.
    pub postgres: SocketAddr,
    /// The address where Patroni answers.
    pub rest: SocketAddr,
    /// The directory of all its files.
    pub directory: PathBuf,
}

/// Returns the member with this index, with its names and ports, and files below `directory`.
pub(super) fn member(index: u16, directory: &std::path::Path) -> Member {
    let name = format!("pg{index}");
    Member {
        postgres: SocketAddr::new(ADDRESS.into(), 5433 + index),
        rest: SocketAddr::new(ADDRESS.into(), 8433 + index),
        directory: directory.join(&name),
        name,
    }
}

/// Returns `patroni.yml`, as JSON, which is YAML. `shared` is the directory of the files that both
/// members read.
pub(super) fn patroni(member: &Member, shared: &std::path::Path, dcs: SocketAddr) -> Value {
    let (postgres, rest) = (member.postgres.to_string(), member.rest.to_string());
    json!({
        "scope": "pair", "namespace": "/patroni/", "name": member.name,
        "restapi": {"listen": rest, "connect_address": rest},
        "etcd3": {"host": dcs.to_string()},
        "bootstrap": {
            "dcs": dynamic(),
            "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
            "post_init": shared.join("create.sh"),
        },
        "postgresql": {
            "listen": postgres, "connect_address": postgres,
            "bin_dir": PROGRAMS,
            "data_dir": member.directory.join("data"),
            "pgpass": member.directory.join("pgpass"),
            // Without it the copy waits for the next checkpoint, a minute or two.
            "basebackup": [{"checkpoint": "fast"}],
            "use_unix_socket": true, "use_unix_socket_repl": true,
            "authentication": {
                "superuser": {"username": "postgres"},
                "replication": {"username": "replicator"},
                "rewind": {"username": "postgres"},
            },
            "pg_hba": [
                "local all all trust",
                // The other member; nothing else has this address.
                format!("host replication replicator {ADDRESS}/32 trust"),
                format!("host all postgres {ADDRESS}/32 trust"),
                format!("hostssl {DATABASE},{OTHER_DATABASE} {ROLE} all scram-sha-256"),
            ],
            "parameters": {
                "unix_socket_directories": member.directory,
                "ssl": "on",
                "ssl_cert_file": shared.join("tls.crt"),
                "ssl_key_file": shared.join("tls.key"),
            },
        },
    })
}

/// Returns the configuration that Patroni keeps in etcd. Every acknowledged write is at both
/// servers, and a dead primary is followed by the other one in seconds; the usual values are half a
/// minute.
fn dynamic() -> Value {
    json!({
        "ttl": 8, "loop_wait": 1, "retry_timeout": 3,
        "synchronous_mode": true,
        // A crashed primary is not waited for.
        "primary_start_timeout": 0, "master_start_timeout": 0,
        "postgresql": {
            "use_pg_rewind": true,
            "parameters": {"max_connections": 60, "shared_buffers": "64MB", "wal_keep_size": "256MB"},
        },
    })
}

/// Returns the script that makes role and databases at the first start; Patroni calls it with a
/// connection string.
pub(super) fn create_script(password: &str) -> String {
    format!(
        "#!/bin/sh -eu\n\
         psql -Xqd \"$1\" -v ON_ERROR_STOP=1 <<'SQL'\n\
         CREATE ROLE {ROLE} LOGIN PASSWORD '{password}';\n\
         CREATE DATABASE {DATABASE} OWNER {ROLE};\n\
         CREATE DATABASE {OTHER_DATABASE} OWNER {ROLE};\n\
         SQL\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn members_share_nothing_but_what_they_agree_on() {
        let members = [0, 1].map(|index| member(index, Path::new("/d")));
        let [a, b] = members
            .each_ref()
            .map(|of| patroni(of, Path::new("/d"), of.rest));
        for key in ["name", "restapi"] {
            assert_ne!(a[key], b[key], "{key}");
        }
        for key in ["listen", "data_dir", "pgpass"] {
            assert_ne!(a["postgresql"][key], b["postgresql"][key], "{key}");
        }
        for key in ["scope", "namespace", "bootstrap"] {
            assert_eq!(a[key], b[key], "{key}");
        }
    }
}
