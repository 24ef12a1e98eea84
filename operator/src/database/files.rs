//! The files that the kubelet makes of a [`Connection`], made by the operator itself, so that it
//! connects with exactly what the servers connect with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::v1alpha1::reasons;
use database::{Parameters, ParametersError};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};

use super::place::{Connection, Source};

use crate::said::said;

/// The reason why a database cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// The error and its remedy.
    pub message: String,
}

impl Problem {
    /// Returns a problem with this reason and message.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}

/// An object of a connection could not be read. A missing object is not an error.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {kind} {namespace}/{name}: {}", said(.source))]
pub struct Error {
    kind: &'static str,
    namespace: String,
    name: String,
    /// The error of the kube-apiserver.
    pub source: kube::Error,
}

/// Keys and values of the objects of a connection, by name; `None` for those that are missing.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Secrets.
    pub secrets: BTreeMap<String, Option<Values>>,
    /// `ConfigMap`s.
    pub config_maps: BTreeMap<String, Option<Values>>,
}

/// Keys and values of an object.
pub type Values = BTreeMap<String, Vec<u8>>;

/// Reads the objects of a connection.
///
/// # Errors
/// If something cannot be read.
pub async fn objects(
    client: &Client,
    namespace: &str,
    connection: &Connection,
) -> Result<Objects, Error> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let failed = |kind, name: &str| {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        move |source| Error {
            kind,
            namespace,
            name,
            source,
        }
    };
    let mut objects = Objects::default();
    for source in &connection.sources {
        match source {
            Source::Secret { name, .. } if !objects.secrets.contains_key(name) => {
                let found = secrets.get_opt(name).await;
                let found = found.map_err(failed("secret", name))?;
                let values = found.map(|found| secret_values(&found));
                objects.secrets.insert(name.clone(), values);
            }
            Source::ConfigMap { name, .. } if !objects.config_maps.contains_key(name) => {
                let found = config_maps.get_opt(name).await;
                let found = found.map_err(failed("configmap", name))?;
                let values = found.map(|found| config_values(&found));
                objects.config_maps.insert(name.clone(), values);
            }
            Source::Secret { .. } | Source::ConfigMap { .. } => {}
        }
    }
    Ok(objects)
}

/// Returns the keys and values of a Secret.
#[must_use]
pub fn secret_values(secret: &Secret) -> Values {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), value.0.clone()))
        .collect()
}

fn config_values(map: &ConfigMap) -> Values {
    let text = map.data.iter().flatten();
    let text = text.map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let binary = map.binary_data.iter().flatten();
    let binary = binary.map(|(key, value)| (key.clone(), value.0.clone()));
    text.chain(binary).collect()
}

/// Returns the parameters that the servers will read.
///
/// # Errors
/// [`Problem`] names what is missing or wrong, and where.
pub fn parameters(
    namespace: &str,
    connection: &Connection,
    objects: &Objects,
) -> Result<Arc<Parameters>, Problem> {
    let files = files(namespace, connection, objects)?;
    match Parameters::from_map(files) {
        Ok(parameters) => Ok(Arc::new(parameters)),
        Err(error) => {
            let reason = match &error {
                ParametersError::Missing { .. } => reasons::SECRET_KEY_MISSING,
                _ => reasons::CONNECTION_INVALID,
            };
            let names: Vec<&str> = connection.sources.iter().map(Source::name).collect();
            let place = names.first().copied().unwrap_or_default();
            let message = format!("secret {namespace}/{place}: {error}");
            Err(Problem::new(reason, message))
        }
    }
}

/// Returns the files that the servers will read.
///
/// # Errors
/// [`Problem`] names what is missing, and where.
pub fn files(
    namespace: &str,
    connection: &Connection,
    objects: &Objects,
) -> Result<Values, Problem> {
    let own = connection.parameters.iter();
    let mut files: Values = own
        .map(|(key, value)| ((*key).to_owned(), value.clone().into_bytes()))
        .collect();
    for source in &connection.sources {
        let (kind, known, optional) = match source {
            Source::Secret { optional, .. } => ("secret", &objects.secrets, *optional),
            Source::ConfigMap { .. } => ("configmap", &objects.config_maps, false),
        };
        let name = source.name();
        let Some(values) = known.get(name).and_then(Option::as_ref) else {
            let message = format!("{kind} {namespace}/{name} is missing: create it");
            return Err(Problem::new(reasons::SECRET_MISSING, message));
        };
        for (key, file) in source.items() {
            match values.get(key) {
                Some(value) => {
                    files.insert((*file).to_owned(), value.clone());
                }
                None if optional => {}
                None => {
                    let message = format!("{kind} {namespace}/{name} has no key {key:?}");
                    return Err(Problem::new(reasons::SECRET_KEY_MISSING, message));
                }
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::database::external;

    fn connection(spec: serde_json::Value) -> Connection {
        let mut spec = spec;
        spec["connectionSecretRef"] = json!({"name": "pg"});
        external::connection(&serde_json::from_value(spec).unwrap())
    }

    fn objects(secrets: &[(&str, &[(&str, &str)])]) -> Objects {
        let values = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
                .collect()
        };
        Objects {
            secrets: secrets
                .iter()
                .map(|(name, pairs)| ((*name).to_owned(), Some(values(pairs))))
                .collect(),
            config_maps: BTreeMap::new(),
        }
    }

    fn problem(spec: serde_json::Value, secrets: &[(&str, &[(&str, &str)])]) -> Problem {
        parameters("ns", &connection(spec), &objects(secrets)).unwrap_err()
    }

    const PG: &[(&str, &str)] = &[
        ("host", "db.example"),
        ("dbname", "reports"),
        ("username", "writer"),
        ("pw", "secret"),
    ];

    #[test]
    fn the_operator_connects_with_what_the_servers_will_read() {
        let connection = connection(json!({"sslMode": "disable", "keys": {"password": "pw"}}));
        let read = parameters("ns", &connection, &objects(&[("pg", PG)])).unwrap();
        assert_eq!(read.address(), "db.example:5432");
        assert_eq!(read.password.as_ref().unwrap().expose(), b"secret");
    }

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        let missing = problem(json!({}), &[]);
        assert_eq!(missing.reason, reasons::SECRET_MISSING);
        assert_eq!(missing.message, "secret ns/pg is missing: create it");

        let key = problem(json!({"keys": {"password": "geheim"}}), &[("pg", PG)]);
        assert_eq!(key.reason, reasons::SECRET_KEY_MISSING);
        assert_eq!(key.message, "secret ns/pg has no key \"geheim\"");

        let ca = problem(
            json!({"caSecretRef": {"name": "ca"}}),
            &[("pg", PG), ("ca", &[])],
        );
        assert_eq!(ca.reason, reasons::SECRET_KEY_MISSING);
        assert_eq!(ca.message, "secret ns/ca has no key \"ca.crt\"");

        let empty = problem(
            json!({"sslMode": "disable"}),
            &[("pg", &[("password", "x")])],
        );
        assert_eq!(empty.reason, reasons::SECRET_KEY_MISSING);
        assert!(
            empty
                .message
                .starts_with("secret ns/pg: `host`, `dbname`, `username` are missing"),
            "{}",
            empty.message
        );
    }

    #[test]
    fn what_cannot_be_used_is_told_apart_from_what_is_missing() {
        let broken = problem(json!({}), &[("pg", &[("uri", "http://x")])]);
        assert_eq!(broken.reason, reasons::CONNECTION_INVALID);
        assert!(
            broken
                .message
                .contains("`uri` does not begin with postgres://")
        );
    }
}
