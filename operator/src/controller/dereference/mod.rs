//! Step 1 of a reconciliation: reads everything that the other steps decide on.

mod api_servers;
mod between;
mod error;
mod inside;
mod reading;
mod registered;

use std::borrow::Cow;

use crds::names::{LABEL_POD_SECURITY, LABEL_TARGET};
use crds::v1alpha1::ReportsServer;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource, ResourceExt};

use super::found::{
    Claim, Dereferenced, Inside, Level, NamespacePolicy, NamespaceState, Registered,
};
use super::validate::{Validated, specification};
use super::{Context, accepted, apply, targets};
use crate::database::between::Found;
use crate::names::{KUBE_SYSTEM, Names};

use self::reading::Reading;

pub use error::Error;
pub use registered::service_ref;

/// Reads everything that the reconciliation of `object` decides on. Nothing is read in a namespace
/// that the specification must not use.
///
/// # Errors
/// If something cannot be read; that it is missing is an answer.
pub fn dereference<'a>(
    object: &'a ReportsServer,
    ctx: &'a Context,
) -> BoxFuture<'a, Result<Dereferenced, Error>> {
    Box::pin(read(object, Reading::Whole, ctx))
}

/// Reads the least by which what clients depend on is kept. What else cannot be read counts as absent,
/// which is no reason to let certificates run out.
///
/// # Errors
/// If the least cannot be read; that something is missing is an answer.
pub fn least<'a>(
    object: &'a ReportsServer,
    ctx: &'a Context,
) -> BoxFuture<'a, Result<Dereferenced, Error>> {
    Box::pin(read(object, Reading::Least, ctx))
}

async fn read(
    object: &ReportsServer,
    reading: Reading,
    ctx: &Context,
) -> Result<Dereferenced, Error> {
    let outside = outside(object, reading, ctx).await?;
    let Ok(spec) = specification(object, &outside) else {
        return Ok(outside);
    };
    match Box::pin(within(object, &spec, &outside, reading, ctx)).await {
        Err(error) if error.is_forbidden() => {
            apply::gain_access(&ctx.client, &spec, &ctx.operator).await?;
            // The specification that was carried out last could not be read either.
            let outside = self::outside(object, reading, ctx).await?;
            Box::pin(within(object, &spec, &outside, reading, ctx)).await
        }
        read => read,
    }
}

/// Reads the target namespace, for the specification that is to be carried out.
async fn within(
    object: &ReportsServer,
    spec: &Validated,
    outside: &Dereferenced,
    reading: Reading,
    ctx: &Context,
) -> Result<Dereferenced, Error> {
    let mut read = outside.clone();
    read.between = Box::pin(between::read(object, outside, spec, reading, ctx)).await?;
    let object = match read.in_force(object) {
        Cow::Borrowed(object) => {
            read.inside = Box::pin(inside::read(object, spec, reading, ctx)).await?;
            return Ok(read);
        }
        Cow::Owned(object) => object,
    };
    let groups = ctx.supervisor.status(&object.name_any());
    read.dropped = targets::dropped(&object, &read.registered, &groups);
    if let Ok(spec) = specification(&object, &read) {
        read.inside = Box::pin(inside::read(&object, &spec, reading, ctx)).await?;
    }
    Ok(read)
}

/// Reads what does not lie in the target namespace, and the specification that was carried out last.
async fn outside(
    object: &ReportsServer,
    reading: Reading,
    ctx: &Context,
) -> Result<Dereferenced, Error> {
    let client = &ctx.client;
    let cluster_uid = ctx.cluster_uid.get_or_try_init(|| cluster_uid(client));
    let registered = registered(object, ctx);
    let groups = ctx.supervisor.status(&object.name_any());
    let leaves = object.meta().deletion_timestamp.is_some();
    let namespace = namespace(client, &object.spec.target_namespace).await?;
    let accepted = reading.side(accepted::read(object, ctx).await)?.flatten();
    let specifications: Vec<_> = accepted.iter().chain([&object.spec]).collect();
    let api_server_ports = api_servers::ports(client, &specifications).await;
    let api_server_ports = reading.side(api_server_ports)?.unwrap_or_default();
    Ok(Dereferenced {
        now: Timestamp::now(),
        namespace: namespace_state(namespace.as_ref()),
        policy: namespace_policy(namespace.as_ref()),
        operator_namespace: ctx.operator.namespace.clone(),
        kept: false,
        // Whoever leaves claims nothing any more.
        claims: if leaves {
            Vec::new()
        } else {
            claims(&ctx.objects)
        },
        default_image: ctx.server_image.clone(),
        default_postgres_image: ctx.postgres_image.clone(),
        cluster_uid: cluster_uid.await?.clone(),
        dropped: targets::dropped(object, &registered, &groups),
        registered,
        accepted,
        between: Found::default(),
        api_server_ports,
        inside: Inside::default(),
    })
}

/// Returns the target namespace; nothing where it is missing.
///
/// # Errors
/// If it cannot be read.
async fn namespace(
    client: &Client,
    name: &str,
) -> Result<Option<PartialObjectMeta<Namespace>>, Error> {
    let api = Api::<Namespace>::all(client.clone());
    let found = api.get_metadata_opt(name).await;
    found.map_err(|source| Error::Namespace {
        name: name.to_owned(),
        source,
    })
}

/// Returns the state of a namespace.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn state_of_namespace(client: &Client, name: &str) -> Result<NamespaceState, Error> {
    Ok(namespace_state(namespace(client, name).await?.as_ref()))
}

fn namespace_state(found: Option<&PartialObjectMeta<Namespace>>) -> NamespaceState {
    match found {
        None => NamespaceState::Missing,
        Some(found) if found.metadata.deletion_timestamp.is_some() => NamespaceState::Terminating,
        Some(_) => NamespaceState::Active,
    }
}

/// Returns what the labels of the target namespace allow.
fn namespace_policy(found: Option<&PartialObjectMeta<Namespace>>) -> NamespacePolicy {
    let labels = found.and_then(|found| found.metadata.labels.as_ref());
    let label = |key: &str| labels.and_then(|labels| labels.get(key).map(String::as_str));
    NamespacePolicy {
        is_target: label(LABEL_TARGET) == Some("true"),
        level: Level::of(label(LABEL_POD_SECURITY)),
    }
}

/// uid of the namespace `kube-system`, which lives as long as the cluster.
///
/// # Errors
/// If it cannot be read.
async fn cluster_uid(client: &Client) -> Result<String, Error> {
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

/// Returns the APIServices that lead to the server of a `ReportsServer`.
pub fn registered(object: &ReportsServer, ctx: &Context) -> Vec<Registered> {
    let server = Names::new(object.name_any()).server();
    let service = service_ref(&object.spec.target_namespace, server);
    let all = ctx.api_services.state();
    registered::of_service(all.iter().map(AsRef::as_ref), &service)
}

/// Returns what each `ReportsServer` claims.
fn claims(objects: &Store<DeserializeGuard<ReportsServer>>) -> Vec<Claim> {
    objects
        .state()
        .iter()
        .filter_map(|object| object.0.as_ref().ok().map(Claim::of))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    #[test]
    fn what_a_namespace_allows_is_said_by_its_labels() {
        let of = |labels: serde_json::Value| {
            let found = json!({"metadata": {"labels": labels}});
            namespace_policy(Some(&serde_json::from_value(found).unwrap()))
        };
        assert_eq!(namespace_policy(None), NamespacePolicy::default());
        assert_eq!(of(json!({})), NamespacePolicy::default());
        for value in ["false", "True", "yes", ""] {
            assert!(!of(json!({LABEL_TARGET: value})).is_target, "{value}");
        }
        assert!(of(json!({LABEL_TARGET: "true"})).is_target);
        for (value, level) in [
            ("restricted", Level::Restricted),
            ("baseline", Level::Baseline),
            ("privileged", Level::Privileged),
            ("something", Level::Restricted),
        ] {
            assert_eq!(of(json!({LABEL_POD_SECURITY: value})).level, level);
        }
    }
}
