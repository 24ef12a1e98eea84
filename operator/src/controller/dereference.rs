//! Step 1 of a reconciliation: read what the other steps decide on.

use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};

use super::ownership::is_child;
use super::upgrade;
use super::validate::{NamespaceState, Validated};
use crate::apiservice::{Holder, ServiceRef, holder};
use crate::certs::Material;
use crate::database::files::{Values, secret_values};
use crate::database::managed::{Known, Managed, PASSWORD_KEY, backup};
use crate::names::{ACCEPTED_KEY, KUBE_SYSTEM, Names, SERVICE_PORT};
use crate::said::said;

/// What could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target namespace.
    #[error("cannot read namespace {name}: {}", said(.source))]
    Namespace {
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// A Secret with certificates.
    #[error("cannot read secret {namespace}/{name}: {}", said(.source))]
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// A volume.
    #[error("cannot read persistentvolumeclaim {namespace}/{name}: {}", said(.source))]
    Claim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// The Job that restores a backup.
    #[error("cannot read job {namespace}/{name}: {}", said(.source))]
    Job {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// What was carried out last.
    #[error("cannot read configmap {namespace}/{name}: {}", said(.source))]
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// The database.
    #[error("cannot read statefulset {namespace}/{name}: {}", said(.source))]
    StatefulSet {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// The server.
    #[error("cannot read deployment {namespace}/{name}: {}", said(.source))]
    Deployment {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// The cluster has no namespace `kube-system`.
    #[error(
        "there is no namespace kube-system to tell this cluster from others by: set \
         spec.clusterIdentity.id"
    )]
    NoIdentity,
}

impl Error {
    /// Returns whether the kube-apiserver said that the operator may not.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let (Self::Namespace { source, .. }
        | Self::Secret { source, .. }
        | Self::Claim { source, .. }
        | Self::Job { source, .. }
        | Self::ConfigMap { source, .. }
        | Self::StatefulSet { source, .. }
        | Self::Deployment { source, .. }) = self
        else {
            return false;
        };
        matches!(source, kube::Error::Api(status) if status.code == 403)
    }
}

/// State of the target namespace.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn namespace(client: &Client, name: &str) -> Result<NamespaceState, Error> {
    let api = Api::<Namespace>::all(client.clone());
    let found = api
        .get_metadata_opt(name)
        .await
        .map_err(|source| Error::Namespace {
            name: name.to_owned(),
            source,
        })?;
    Ok(namespace_state(found.as_ref()))
}

/// uid of the namespace `kube-system`, which lives as long as the cluster.
///
/// # Errors
/// If it cannot be read.
pub async fn cluster_uid(client: &Client) -> Result<String, Error> {
    let api = Api::<Namespace>::all(client.clone());
    let found = api.get_metadata_opt(KUBE_SYSTEM).await;
    let found = found.map_err(|source| Error::Namespace {
        name: KUBE_SYSTEM.to_owned(),
        source,
    })?;
    found
        .and_then(|namespace| namespace.uid())
        .ok_or(Error::NoIdentity)
}

/// Returns the server as it is; one of somebody else by that name is none.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn deployment(client: &Client, spec: &Validated) -> Result<Option<Deployment>, Error> {
    let api = Api::<Deployment>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.server();
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| Error::Deployment {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    Ok(found.filter(|found| is_child(&found.metadata, &spec.uid, spec.names.instance())))
}

/// Returns the specification that was carried out last, where there is one that can still be read.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn accepted(
    client: &Client,
    object: &ReportsServer,
) -> Result<Option<ReportsServerSpec>, Error> {
    let namespace = &object.spec.target_namespace;
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let name = Names::new(object.name_any()).accepted();
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| Error::ConfigMap {
        namespace: namespace.clone(),
        name,
        source,
    })?;
    let own = |map: &ConfigMap| {
        let owners = map.owner_references();
        owners
            .iter()
            .any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
    };
    let text = found.filter(own).and_then(|map| map.data);
    let text = text.and_then(|mut data| data.remove(ACCEPTED_KEY));
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns a PostgreSQL that the operator runs, as it is.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn stateful_set(client: &Client, spec: &Validated) -> Result<Option<StatefulSet>, Error> {
    let api = Api::<StatefulSet>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.postgres();
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| Error::StatefulSet {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    Ok(found.filter(|found| is_child(&found.metadata, &spec.uid, spec.names.instance())))
}

/// Returns whether the volume of an embedded database is there.
///
/// # Errors
/// If it cannot be read.
pub async fn has_data_claim(client: &Client, spec: &Validated) -> Result<bool, Error> {
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.data();
    let found = api.get_metadata_opt(&name).await;
    let found = found.map_err(|source| Error::Claim {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    Ok(found.is_some())
}

/// Returns what an embedded server is told about where to move its reports.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn move_secret(client: &Client, spec: &Validated) -> Result<Option<Values>, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.database_move();
    let found = api.get_opt(&name).await.map_err(|source| Error::Secret {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    Ok(found.as_ref().map(secret_values))
}

fn namespace_state(found: Option<&PartialObjectMeta<Namespace>>) -> NamespaceState {
    match found {
        None => NamespaceState::Missing,
        Some(found) if found.metadata.deletion_timestamp.is_some() => NamespaceState::Terminating,
        Some(_) => NamespaceState::Active,
    }
}

/// Returns the certificates as they lie in the Secrets.
///
/// # Errors
/// If a Secret cannot be read; that it is missing is an answer.
pub async fn material(client: &Client, spec: &Validated) -> Result<Material, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &spec.namespace);
    let read = async |name: String| {
        let found = api.get_opt(&name).await;
        found.map_err(|source| Error::Secret {
            namespace: spec.namespace.clone(),
            name,
            source,
        })
    };
    let (ca, serving) = futures::try_join!(read(spec.names.ca()), read(spec.names.serving_cert()))?;
    let material = Material::from_secrets(ca.as_ref(), serving.as_ref());
    if spec.certs.database.is_none() {
        return Ok(material);
    }
    let (server, client) = futures::try_join!(
        read(spec.names.postgres_tls()),
        read(spec.names.database_client())
    )?;
    Ok(material.with_database(server.as_ref(), client.as_ref()))
}

/// Returns what the namespace holds of a managed database already. A password is made where there
/// is none.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn known(client: &Client, spec: &Validated) -> Result<Known, super::Error> {
    let (namespace, names) = (&spec.namespace, &spec.names);
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(&names.postgres()).await;
    let secret = secret.map_err(|source| Error::Secret {
        namespace: namespace.clone(),
        name: names.postgres(),
        source,
    })?;
    let password = secret
        .and_then(|secret| secret.data)
        .and_then(|mut data| data.remove(PASSWORD_KEY))
        .and_then(|value| String::from_utf8(value.0).ok())
        .filter(|password| !password.is_empty());
    Ok(Known {
        restored: restored(client, spec).await?,
        password: password.unwrap_or_else(|| hex::encode(rand::random::<[u8; 24]>())),
        volumes: upgrade::volumes(client, namespace).await?,
        seen: upgrade::seen(client, names, namespace).await?,
    })
}

/// Returns whether the Job that restores the wanted backup has succeeded.
async fn restored(client: &Client, spec: &Validated) -> Result<bool, Error> {
    let Some(recovery) = spec.managed().and_then(Managed::recovery) else {
        return Ok(false);
    };
    let name = backup::recovery_name(recovery, &spec.names);
    let api = Api::<Job>::namespaced(client.clone(), &spec.namespace);
    let found = api.get_opt(&name).await.map_err(|source| Error::Job {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    let succeeded = found
        .and_then(|job| job.status)
        .and_then(|status| status.succeeded);
    Ok(succeeded.unwrap_or(0) > 0)
}

/// Returns the Service of the server.
#[must_use]
pub fn service_ref(namespace: &str, name: String) -> ServiceRef {
    let port = u16::try_from(SERVICE_PORT).unwrap_or(443);
    ServiceRef {
        namespace: namespace.to_owned(),
        name,
        port,
    }
}

/// An APIService that points to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its API group.
    pub group: String,
    /// The CA bundle in it.
    pub ca_bundle: Vec<u8>,
}

/// Returns the APIServices that point to `service`.
#[must_use]
pub fn registered<'a>(
    api_services: impl IntoIterator<Item = &'a APIService>,
    service: &ServiceRef,
) -> Vec<Registered> {
    let ours = |object: &&APIService| holder(Some(object), service) == Holder::Ours;
    let registered = |object: &APIService| {
        let spec = object.spec.as_ref()?;
        let ca_bundle = spec.ca_bundle.as_ref().map(|bundle| bundle.0.clone());
        Some(Registered {
            group: spec
                .group
                .clone()
                .unwrap_or_else(|| group_of(&object.name_any())),
            ca_bundle: ca_bundle.unwrap_or_default(),
        })
    };
    api_services
        .into_iter()
        .filter(ours)
        .filter_map(registered)
        .collect()
}

/// Returns the group in the name of an APIService, `<version>.<group>`.
fn group_of(name: &str) -> String {
    name.split_once('.')
        .map_or_else(String::new, |(_, group)| group.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_api_services_of_the_own_service_count() {
        let of = |group: &str, service: serde_json::Value| -> APIService {
            serde_json::from_value(json!({
                "metadata": {"name": format!("v1.{group}")},
                "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1,
                    "versionPriority": 1, "service": service, "caBundle": "YQ=="},
            }))
            .unwrap()
        };
        let all = [
            of(
                "ours.example",
                json!({"namespace": "ns", "name": "a-server", "port": 443}),
            ),
            of(
                "other.example",
                json!({"namespace": "ns", "name": "b-server"}),
            ),
            of("local.example", json!(null)),
        ];
        let found = registered(&all, &service_ref("ns", "a-server".into()));
        assert_eq!(
            found,
            [Registered {
                group: "ours.example".into(),
                ca_bundle: b"a".to_vec()
            }]
        );
    }

    #[test]
    fn a_namespace_with_a_deletion_timestamp_is_terminating() {
        let of = |value| serde_json::from_value::<PartialObjectMeta<Namespace>>(value).unwrap();
        assert_eq!(namespace_state(None), NamespaceState::Missing);
        assert_eq!(
            namespace_state(Some(&of(json!({"metadata": {}})))),
            NamespaceState::Active
        );
        let going = of(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert_eq!(namespace_state(Some(&going)), NamespaceState::Terminating);
    }
}
