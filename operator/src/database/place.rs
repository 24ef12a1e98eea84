//! The place of a database: the one thing that the server's pods need to know of it, whoever runs
//! it.
//!
//! The server reads its connection's parameters from a directory, a file each
//! ([`database::parameters::key`] names them), and reads them again for every new connection. That
//! directory is a projected volume: the kubelet follows the Secrets it is made of, so a changed
//! password or certificate needs neither a copy of ours nor a restart.

use std::collections::BTreeMap;

use crds::control::HISTORY_FILE;
use crds::v1alpha1::spec::DatabaseMode;
use database::parameters::key;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, KeyToPath, ProjectedVolumeSource, SecretProjection, Volume,
    VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::managed::{self, Managed};
use crate::certs::{CA_CRT, TLS_CRT, TLS_KEY};
use crate::names::{HISTORY_KEY, Names};

/// The directory in which the server finds the parameters.
pub const DIRECTORY: &str = "/etc/reports-server/database";

/// The database in which the reports are stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Database {
    /// SQLite in the server's own pod.
    Embedded(Storage),
    /// PostgreSQL, which several servers share.
    Postgres(Box<Postgres>),
}

/// The place of the embedded database.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage {
    /// On a `PersistentVolumeClaim`.
    Claim {
        /// Size of the volume.
        size: Quantity,
        /// `StorageClass`; the cluster's default where absent.
        class: Option<String>,
    },
    /// On the node's disk, gone with the pod.
    EmptyDir {
        /// Largest size that it may take.
        size: Quantity,
    },
}

/// A PostgreSQL database, as the servers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Postgres {
    /// The mode, which says who runs it.
    pub mode: DatabaseMode,
    /// Key of this cluster's reports in it.
    pub cluster_identity: String,
    /// The cluster's name for people.
    pub cluster_name: Option<String>,
    /// Most connections of one server pod.
    pub max_connections: u32,
    /// The connection to it.
    pub connection: Connection,
    /// The database that the operator runs itself, where it does.
    pub managed: Option<Managed>,
}

/// The connection to a database: files of [`DIRECTORY`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Parameters that are not secret and in no object of somebody else: file name to content. They
    /// become a `ConfigMap` of ours, which comes before [`Self::sources`].
    pub parameters: BTreeMap<&'static str, String>,
    /// Secrets and `ConfigMap`s with the other parameters.
    pub sources: Vec<Source>,
}

/// Keys of one object, and the files that they become. An object or key that is missing keeps the
/// pod from starting, and the kubelet's event names it, unless it is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Keys of a Secret in the target namespace.
    Secret {
        /// Name of the Secret.
        name: String,
        /// Key and file name.
        items: Vec<(String, &'static str)>,
        /// True when any of the keys may be missing: for keys of which some take the place of
        /// others.
        optional: bool,
    },
    /// Keys of a `ConfigMap` in the target namespace.
    ConfigMap {
        /// Name of the `ConfigMap`.
        name: String,
        /// Key and file name.
        items: Vec<(String, &'static str)>,
    },
}

impl Source {
    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Secret { name, .. } | Self::ConfigMap { name, .. } => name,
        }
    }

    /// Returns the pairs of key and file name.
    #[must_use]
    pub fn items(&self) -> &[(String, &'static str)] {
        match self {
            Self::Secret { items, .. } | Self::ConfigMap { items, .. } => items,
        }
    }
}

impl Database {
    /// Returns the PostgreSQL database, where it is one.
    #[must_use]
    pub fn postgres(&self) -> Option<&Postgres> {
        match self {
            Self::Embedded(_) => None,
            Self::Postgres(postgres) => Some(postgres),
        }
    }
}

impl Connection {
    /// Returns the connection to the database that the operator runs in `namespace`. Servers are
    /// let in by a certificate.
    #[must_use]
    pub fn managed(names: &Names, namespace: &str) -> Self {
        let parameters = [
            (key::HOST, names.postgres_host(namespace)),
            (key::PORT, managed::PORT.to_string()),
            (key::DBNAME, managed::DATABASE.to_owned()),
            (key::USERNAME, managed::ROLE.to_owned()),
            (key::SSLMODE, "verify-full".to_owned()),
        ];
        let items = [
            (CA_CRT, key::CA),
            (TLS_CRT, key::CERTIFICATE),
            (TLS_KEY, key::CERTIFICATE_KEY),
        ];
        Self {
            parameters: parameters.into(),
            sources: vec![Source::Secret {
                name: names.database_client(),
                items: items.map(|(key, file)| (key.to_owned(), file)).to_vec(),
                optional: false,
            }],
        }
    }

    /// Returns the volume for the mount at [`DIRECTORY`]. `own` is the `ConfigMap` with
    /// [`Self::parameters`].
    #[must_use]
    pub fn volume(&self, name: &str, own: &str) -> Volume {
        let first = (!self.parameters.is_empty()).then(|| {
            let files = self.parameters.keys().map(|key| ((*key).to_owned(), *key));
            config_map(own, &files.collect::<Vec<_>>())
        });
        let rest = self.sources.iter().map(|source| match source {
            Source::Secret {
                name,
                items,
                optional,
            } => secret(name, items, *optional),
            Source::ConfigMap { name, items } => config_map(name, items),
        });
        Volume {
            name: name.to_owned(),
            projected: Some(ProjectedVolumeSource {
                default_mode: Some(0o440),
                sources: Some(first.into_iter().chain(rest).collect()),
            }),
            ..Volume::default()
        }
    }
}

/// Returns the file with the history that the database has to have, from the server's `ConfigMap`.
#[must_use]
pub fn history(config: &str) -> VolumeProjection {
    VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: config.to_owned(),
            items: Some(paths(&[(HISTORY_KEY.to_owned(), HISTORY_FILE)])),
            // Before the first use there is none.
            optional: Some(true),
        }),
        ..VolumeProjection::default()
    }
}

fn secret(name: &str, items: &[(String, &'static str)], optional: bool) -> VolumeProjection {
    VolumeProjection {
        secret: Some(SecretProjection {
            name: name.to_owned(),
            items: Some(paths(items)),
            optional: optional.then_some(true),
        }),
        ..VolumeProjection::default()
    }
}

fn config_map(name: &str, items: &[(String, &'static str)]) -> VolumeProjection {
    VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: name.to_owned(),
            items: Some(paths(items)),
            ..ConfigMapProjection::default()
        }),
        ..VolumeProjection::default()
    }
}

fn paths(items: &[(String, &'static str)]) -> Vec<KeyToPath> {
    let path = |(key, file): &(String, &'static str)| KeyToPath {
        key: key.clone(),
        path: (*file).to_owned(),
        ..KeyToPath::default()
    };
    items.iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_of_ours_and_keys_of_others_become_one_directory() {
        let connection = Connection {
            parameters: [("host", "h".to_owned())].into(),
            sources: vec![
                Source::Secret {
                    name: "theirs".into(),
                    items: vec![("user".into(), "username")],
                    optional: false,
                },
                Source::ConfigMap {
                    name: "ca".into(),
                    items: vec![("bundle".into(), "ca.crt")],
                },
            ],
        };
        let volume = serde_json::to_value(connection.volume("database", "ours")).unwrap();
        assert_eq!(
            volume["projected"]["sources"],
            json!([
                {"configMap": {"name": "ours", "items": [{"key": "host", "path": "host"}]}},
                {"secret": {"name": "theirs", "items": [{"key": "user", "path": "username"}]}},
                {"configMap": {"name": "ca", "items": [{"key": "bundle", "path": "ca.crt"}]}},
            ])
        );
    }
}
