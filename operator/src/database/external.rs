//! A PostgreSQL that somebody else runs, with the Secrets that are read for it.

use std::collections::BTreeMap;

use crds::v1alpha1::spec::{ExternalKeys, ExternalSpec, SslMode};
use database::parameters::key;

use super::place::{Connection, Source};

/// Returns the connection to the database. It depends on the specification alone, so that nothing
/// that is written into the Secrets changes the pods.
#[must_use]
pub fn connection(spec: &ExternalSpec) -> Connection {
    let ExternalSpec {
        connection_secret_ref,
        keys,
        ssl_mode,
        ca_secret_ref,
        client_cert_secret_ref,
    } = spec;
    let mode = ssl_mode.map(|mode| (key::SSLMODE, as_written(mode).to_owned()));
    let mut rest = vec![key::TARGET_SESSION_ATTRS];
    if mode.is_none() {
        rest.push(key::SSLMODE);
    }
    if ca_secret_ref.is_none() {
        rest.push(key::CA);
    }
    if client_cert_secret_ref.is_none() {
        rest.extend([key::CERTIFICATE, key::CERTIFICATE_KEY]);
    }
    let name = &connection_secret_ref.name;
    let mut sources = named(name, keys.as_ref(), &rest);
    let others = [
        (ca_secret_ref, vec![key::CA]),
        (
            client_cert_secret_ref,
            vec![key::CERTIFICATE, key::CERTIFICATE_KEY],
        ),
    ];
    for (reference, keys) in others {
        sources.extend(reference.as_ref().map(|reference| Source::Secret {
            name: reference.name.clone(),
            items: keys.into_iter().map(|key| (key.to_owned(), key)).collect(),
            optional: false,
        }));
    }
    Connection {
        parameters: mode.into_iter().collect::<BTreeMap<_, _>>(),
        sources,
    }
}

/// Returns the keys of the connection's Secret. Those that the specification names have to be
/// there; of the usual ones, those that are there are taken.
fn named(secret: &str, keys: Option<&ExternalKeys>, rest: &[&'static str]) -> Vec<Source> {
    let keys = keys.cloned().unwrap_or_default();
    let single = [
        (key::HOST, keys.host),
        (key::PORT, keys.port),
        (key::DBNAME, keys.dbname),
        (key::USERNAME, keys.username),
        (key::PASSWORD, keys.password),
    ];
    let any_single = single.iter().any(|(_, given)| given.is_some());
    let mut required = Vec::new();
    let mut usual: Vec<&'static str> = rest.to_vec();
    match keys.uri {
        Some(uri) => required.push((uri, key::URI)),
        None if any_single => {}
        None => usual.push(key::URI),
    }
    if required.is_empty() {
        for (file, given) in single {
            match given {
                Some(given) => required.push((given, file)),
                None => usual.push(file),
            }
        }
    }
    let usual = usual.into_iter().map(|key| (key.to_owned(), key)).collect();
    let source = |items: Vec<_>, optional| Source::Secret {
        name: secret.to_owned(),
        items,
        optional,
    };
    [source(required, false), source(usual, true)]
        .into_iter()
        .filter(|source| !source.items().is_empty())
        .collect()
}

fn as_written(mode: SslMode) -> &'static str {
    match mode {
        SslMode::Disable => "disable",
        SslMode::Require => "require",
        SslMode::VerifyCa => "verify-ca",
        SslMode::VerifyFull => "verify-full",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(mut spec: Value) -> Value {
        spec["connectionSecretRef"] = json!({"name": "pg"});
        let spec = serde_json::from_value(spec).unwrap();
        let volume = connection(&spec).volume("database", "ours");
        let volume = serde_json::to_value(volume).unwrap();
        let mut sources = volume["projected"]["sources"].clone();
        // Keys and files as pairs, for shorter expectations.
        for source in sources.as_array_mut().unwrap() {
            for kind in ["secret", "configMap"] {
                if let Some(items) = source.get_mut(kind) {
                    let pairs = items["items"].as_array().unwrap().iter();
                    let pairs = pairs.map(|i| {
                        let of = |field: &str| i[field].as_str().unwrap().to_owned();
                        format!("{}>{}", of("key"), of("path"))
                    });
                    items["items"] = pairs.collect();
                }
            }
        }
        sources
    }

    #[test]
    fn without_keys_whatever_usual_key_is_there_is_taken() {
        assert_eq!(
            volume(json!({})),
            json!([{"secret": {"name": "pg", "optional": true, "items": [
                "target_session_attrs>target_session_attrs", "sslmode>sslmode", "ca.crt>ca.crt",
                "tls.crt>tls.crt", "tls.key>tls.key", "uri>uri", "host>host", "port>port",
                "dbname>dbname", "username>username", "password>password"]}}])
        );
    }

    #[test]
    fn named_keys_have_to_be_there_and_the_others_keep_their_names() {
        let sources = volume(json!({"keys": {"username": "user", "password": "pw"}}));
        assert_eq!(
            sources[0]["secret"],
            json!({"name": "pg", "items": ["user>username", "pw>password"]})
        );
        let usual = sources[1]["secret"]["items"].to_string();
        assert!(
            usual.contains("host>host") && !usual.contains("uri"),
            "{usual}"
        );
        assert!(!usual.contains("password"), "{usual}");
    }

    #[test]
    fn a_named_uri_leaves_the_single_keys_out() {
        let sources = volume(json!({"keys": {"uri": "dsn"}}));
        assert_eq!(sources[0]["secret"]["items"], json!(["dsn>uri"]));
        let usual = sources[1]["secret"]["items"].to_string();
        assert!(!usual.contains("host"), "{usual}");
    }

    #[test]
    fn what_the_specification_says_is_not_taken_from_the_secret() {
        let sources = volume(
            json!({"sslMode": "verify-ca", "caSecretRef": {"name": "ca"},
            "clientCertSecretRef": {"name": "client"}, "keys": {"uri": "uri"}}),
        );
        assert_eq!(
            sources,
            json!([
                {"configMap": {"name": "ours", "items": ["sslmode>sslmode"]}},
                {"secret": {"name": "pg", "items": ["uri>uri"]}},
                {"secret": {"name": "pg", "optional": true,
                    "items": ["target_session_attrs>target_session_attrs"]}},
                {"secret": {"name": "ca", "items": ["ca.crt>ca.crt"]}},
                {"secret": {"name": "client", "items": ["tls.crt>tls.crt", "tls.key>tls.key"]}},
            ])
        );
    }
}
