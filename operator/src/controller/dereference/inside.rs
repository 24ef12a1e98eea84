//! The content of the target namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::control::{self, DATABASE_NAME, DATABASES};
use crds::v1alpha1::ReportsServer;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::debug;

use super::Error;
use super::reading::Reading;
use crate::cert_manager;
use crate::certs::Material;
use crate::controller::found::{Inside, ServingFound};
use crate::controller::ownership::is_child;
use crate::controller::validate::{self, Route, Validated};
use crate::controller::{Context, upgrade, workload};
use crate::database::check::Verdict;
use crate::database::embedded::{self, Embedded};
use crate::database::files::{self, Objects, Values, secret_values};
use crate::database::managed::{
    self, Managed, PASSWORD_KEY, RECOVERY_ANNOTATION, Recovery, backup,
};
use crate::database::{cloudnativepg, moving};

/// The longest time that the server may take to say how far a move is.
const ANSWER: Duration = Duration::from_secs(5);

/// Reads the namespace of `spec`.
///
/// # Errors
/// If something cannot be read; that it is missing is an answer.
pub async fn read(
    object: &ReportsServer,
    spec: &Validated,
    reading: Reading,
    ctx: &Context,
) -> Result<Inside, Error> {
    let client = &ctx.client;
    let material = material(client, spec).await?;
    let account = reading.side(account(client, spec).await)?.flatten();
    let serving = serving(client, spec, reading).await?;
    let deployment = deployment(client, spec).await?;
    let (stateful_set, managed) = if spec.is_managed() {
        let set = stateful_set(client, spec).await?;
        let known = known(client, spec, set.as_ref()).await;
        (set, reading.side(known)?)
    } else {
        (None, None)
    };
    let embedded = match spec.embedded.as_ref().and_then(Embedded::recovery) {
        Some(recovery) => reading.side(embedded_known(client, spec, recovery).await)?,
        None => None,
    };
    let way = reading.side(way(object, spec, ctx).await)?;
    let is_way_unread = way.is_none();
    let way = way.unwrap_or_default();
    let moving = move_of(object, spec, deployment.as_ref(), client).await;
    let moving = reading.side(moving)?.unwrap_or_default();
    let history = history(spec, deployment.as_ref(), client).await;
    Ok(Inside {
        material,
        account,
        serving,
        deployment,
        stateful_set,
        managed,
        embedded,
        cloud_native_pg: way.cloud_native_pg,
        connection: way.connection,
        verdict: way.verdict,
        is_way_unread,
        history,
        moving,
    })
}

/// The way to a PostgreSQL, with what the last examination has found at its end.
#[derive(Default)]
struct Way {
    cloud_native_pg: Option<cloudnativepg::Found>,
    connection: Objects,
    verdict: Option<Verdict>,
}

/// Reads the way to PostgreSQL, where it is the database.
///
/// # Errors
/// If something cannot be read; that it is missing is an answer.
async fn way(object: &ReportsServer, spec: &Validated, ctx: &Context) -> Result<Way, Error> {
    let (client, namespace) = (&ctx.client, &spec.namespace);
    let cloud_native_pg = match validate::cluster(object, &spec.names) {
        Some(plan) => Some(cloudnativepg::find(client, namespace, &plan.name).await?),
        None => None,
    };
    let route = Route::of(object, spec, cloud_native_pg.as_ref());
    let connection = match &route {
        Some(route) => files::objects(client, namespace, &route.connection).await?,
        None => Objects::default(),
    };
    let target = route.and_then(|route| route.target(namespace, &connection).ok());
    let name = spec.names.instance();
    let verdict = target.and_then(|target| ctx.checks.verdict(name, &target));
    Ok(Way {
        cloud_native_pg,
        connection,
        verdict,
    })
}

/// Returns the certificates as they lie in the Secrets; those of somebody else are none.
///
/// # Errors
/// If a Secret cannot be read; that it is missing is an answer.
async fn material(client: &Client, spec: &Validated) -> Result<Material, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &spec.namespace);
    let read = async |name: String| {
        let found = api.get_opt(&name).await;
        let found = found.map_err(|source| Error::Secret {
            namespace: spec.namespace.clone(),
            name,
            source,
        })?;
        let is_ours = |found: &Secret| is_child(&found.metadata, &spec.uid, spec.names.instance());
        Ok::<_, Error>(found.filter(is_ours))
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

/// Returns what the server's certificate is made of, where the operator does not issue it.
///
/// # Errors
/// If a Secret cannot be read; that it is missing is an answer.
async fn serving(
    client: &Client,
    spec: &Validated,
    reading: Reading,
) -> Result<ServingFound, Error> {
    let Some(secrets) = spec.origin.secrets() else {
        return Ok(ServingFound::default());
    };
    let ca = match &secrets.ca {
        Some(name) => values(client, spec, name).await?,
        None => None,
    };
    let cert_manager = match spec.origin.plan() {
        Some(plan) => {
            let found = cert_manager::find(client, &spec.namespace, &plan.name).await;
            // Of one that cannot be read, the Secret tells.
            Some(reading.side(found)?.unwrap_or(cert_manager::Found {
                crd: true,
                certificate: None,
            }))
        }
        None => None,
    };
    Ok(ServingFound {
        certificate: values(client, spec, &secrets.certificate).await?,
        ca,
        cert_manager,
    })
}

/// Returns the content of a Secret.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
async fn values(client: &Client, spec: &Validated, name: &str) -> Result<Option<Values>, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &spec.namespace);
    let found = api.get_opt(name).await.map_err(|source| Error::Secret {
        namespace: spec.namespace.clone(),
        name: name.to_owned(),
        source,
    })?;
    Ok(found.as_ref().map(secret_values))
}

/// Returns the annotations of the account that the specification names.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
async fn account(
    client: &Client,
    spec: &Validated,
) -> Result<Option<BTreeMap<String, String>>, Error> {
    let Some(name) = spec.pod.service_account.clone() else {
        return Ok(None);
    };
    let api = Api::<ServiceAccount>::namespaced(client.clone(), &spec.namespace);
    let found = api.get_metadata_opt(&name).await;
    let found = found.map_err(|source| Error::Account {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    Ok(found.map(|found| found.metadata.annotations.unwrap_or_default()))
}

/// Returns the server as it is; one of somebody else by that name is none.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub(super) async fn deployment(
    client: &Client,
    spec: &Validated,
) -> Result<Option<Deployment>, Error> {
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

/// Returns a PostgreSQL that the operator runs, as it is.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
async fn stateful_set(client: &Client, spec: &Validated) -> Result<Option<StatefulSet>, Error> {
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

/// Returns whether the Job of this name, which restores the wanted backup, has succeeded.
async fn restored(client: &Client, spec: &Validated, name: Option<String>) -> Result<bool, Error> {
    let Some(name) = name else {
        return Ok(false);
    };
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

/// Returns the metadata of the volume of an embedded database.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
async fn data_claim(client: &Client, spec: &Validated) -> Result<Option<ObjectMeta>, Error> {
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.data();
    let found = api.get_metadata_opt(&name).await;
    let found = found.map_err(|source| Error::Claim {
        namespace: spec.namespace.clone(),
        name,
        source,
    })?;
    Ok(found.map(|found| found.metadata))
}

/// Reads what the namespace holds of an embedded database that starts with a backup.
async fn embedded_known(
    client: &Client,
    spec: &Validated,
    recovery: &Recovery,
) -> Result<embedded::Known, Error> {
    let claim = data_claim(client, spec).await?;
    let annotations = claim.as_ref().and_then(|claim| claim.annotations.as_ref());
    let note = annotations.and_then(|annotations| annotations.get(RECOVERY_ANNOTATION));
    let note = note.cloned();
    let claim = claim.and_then(|claim| claim.uid);
    let name = |claim: &String| embedded::job_name(recovery, claim, &spec.names);
    let job = claim.as_ref().map(name);
    Ok(embedded::Known {
        claim,
        note,
        restored: restored(client, spec, job).await?,
    })
}

/// Returns what the server is told about where to move the reports.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub(super) async fn move_secret(
    client: &Client,
    spec: &Validated,
) -> Result<Option<Values>, Error> {
    values(client, spec, &spec.names.database_move()).await
}

/// Reads what the namespace holds of a managed database already. A password is made where there is
/// none.
async fn known(
    client: &Client,
    spec: &Validated,
    set: Option<&StatefulSet>,
) -> Result<managed::Known, Error> {
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
    let recovery = spec.managed().and_then(Managed::recovery);
    let job = recovery.map(|recovery| backup::recovery_name(recovery, names));
    Ok(managed::Known {
        restored: restored(client, spec, job).await?,
        password: password.unwrap_or_else(|| hex::encode(rand::random::<[u8; 24]>())),
        volumes: upgrade::volumes(client, namespace).await?,
        seen: upgrade::seen(client, names, namespace, set).await?,
    })
}

/// Reads how far the move of an embedded database is.
async fn move_of(
    object: &ReportsServer,
    spec: &Validated,
    deployment: Option<&Deployment>,
    client: &Client,
) -> Result<moving::Seen, Error> {
    let secret = move_secret(client, spec).await?;
    let embedded = deployment.map(workload::is_embedded);
    let asked = embedded == Some(true) && (secret.is_some() || spec.database.postgres().is_some());
    let status = object.status.as_ref();
    let recorded = deployment.is_none() && status.is_some_and(moving::is_on_claim);
    Ok(moving::Seen {
        embedded,
        left: recorded && data_claim(client, spec).await?.is_some(),
        rolled_out: deployment.is_some_and(workload::is_rolled_out),
        secret,
        server: if asked { database(client).await } else { None },
    })
}

/// Returns the history that a server on PostgreSQL tells, while it is not known which one is in use.
async fn history(
    spec: &Validated,
    deployment: Option<&Deployment>,
    client: &Client,
) -> Option<String> {
    let deployment = deployment.filter(|_| spec.history.is_none())?;
    if workload::is_embedded(deployment) || !workload::is_serving(deployment) {
        return None;
    }
    database(client).await?.history
}

/// Asks the server for its database; returns nothing where it does not answer.
pub(super) async fn database(client: &Client) -> Option<control::DatabaseStatus> {
    let path = format!("/apis/{}/{DATABASES}/{DATABASE_NAME}", control::API_VERSION);
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    let answer = timeout(ANSWER, client.request::<control::Database>(request)).await;
    match answer {
        Ok(Ok(database)) => Some(database.status),
        Ok(Err(error)) => {
            debug!(%error, "the server does not report its progress");
            None
        }
        Err(_) => None,
    }
}
