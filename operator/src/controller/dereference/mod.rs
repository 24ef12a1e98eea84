//! Step 1 of a reconciliation: reads everything that the other steps decide on.

mod api_servers;
mod error;
mod inside;
mod registered;

use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource, ResourceExt};

use super::found::{Claim, Dereferenced, Inside, NamespaceState, Registered};
use super::validate::specification;
use super::{Context, apply, targets};
use crate::names::{ACCEPTED_KEY, KUBE_SYSTEM, Names};

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
    Box::pin(read(object, ctx))
}

async fn read(object: &ReportsServer, ctx: &Context) -> Result<Dereferenced, Error> {
    let outside = outside(object, ctx).await?;
    let Ok(spec) = specification(object, &outside) else {
        return Ok(outside);
    };
    let inside = match Box::pin(inside::read(object, &spec, ctx)).await {
        Err(error) if error.is_forbidden() => {
            apply::gain_access(&ctx.client, &spec, &ctx.operator).await?;
            Box::pin(inside::read(object, &spec, ctx)).await?
        }
        read => read?,
    };
    Ok(Dereferenced { inside, ..outside })
}

/// Reads what does not lie in the target namespace, and the specification that was carried out last.
async fn outside(object: &ReportsServer, ctx: &Context) -> Result<Dereferenced, Error> {
    let client = &ctx.client;
    let cluster_uid = ctx.cluster_uid.get_or_try_init(|| cluster_uid(client));
    let registered = registered(object, ctx);
    let groups = ctx.supervisor.status(&object.name_any());
    let leaves = object.meta().deletion_timestamp.is_some();
    let accepted = match accepted(client, object).await {
        // Nothing was ever carried out in that namespace.
        Err(error) if error.is_forbidden() => None,
        read => read?,
    };
    let specifications: Vec<_> = accepted.iter().chain([&object.spec]).collect();
    let api_server_ports = api_servers::ports(client, &specifications).await?;
    Ok(Dereferenced {
        now: Timestamp::now(),
        namespace: namespace(client, &object.spec.target_namespace).await?,
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
        api_server_ports,
        inside: Inside::default(),
    })
}

/// State of the target namespace.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
async fn namespace(client: &Client, name: &str) -> Result<NamespaceState, Error> {
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

fn namespace_state(found: Option<&PartialObjectMeta<Namespace>>) -> NamespaceState {
    match found {
        None => NamespaceState::Missing,
        Some(found) if found.metadata.deletion_timestamp.is_some() => NamespaceState::Terminating,
        Some(_) => NamespaceState::Active,
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

/// Returns the specification that was carried out last, where there is one that can still be read.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
async fn accepted(
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
}
