//! Carries a valid specification out.

use std::{sync::PoisonError, time::Duration};

use crds::v1alpha1::{
    ReportsServer,
    spec::{ApiOwner, ApiSpec},
};
use jiff::Timestamp;
use kube::{Client, Resource};
use tracing::info;

use super::{
    Context, Error, RESYNC, apply,
    build::{self, Kept},
    dereference, finalizer,
    moving::{self, Attended},
    owner, postgres, registered, report,
    status::State,
    upgrade,
    validate::{Refusal, Validated},
    workload,
};
use crate::{
    certs,
    database::managed::Managed,
    events,
    migration::{self, GroupTarget, Phase},
};

/// How often pods are looked at while they start, or bring a database to another major version.
const STARTING_RESYNC: Duration = Duration::from_secs(5);

/// Builds and applies the children, hands the groups to the migration, writes the status. Returns
/// when to look again at the latest.
pub async fn carry_out(
    object: &ReportsServer,
    spec: &Validated,
    ctx: &Context,
) -> Result<Duration, Error> {
    let now = Timestamp::now();
    // dereference what lies in the target namespace (client required)
    let material = match dereference::material(&ctx.client, spec).await {
        Err(error) if error.is_forbidden() => {
            apply::gain_access(&ctx.client, spec, &ctx.operator).await?;
            dereference::material(&ctx.client, spec).await?
        }
        read => read?,
    };
    let met = meet(spec, &ctx.client).await?;
    let spec = match &met {
        Ok(spec) => spec,
        Err(refusal) => {
            report(object, ctx, &State::Refused(refusal)).await?;
            return Ok(RESYNC);
        }
    };
    upgrade::clear(&ctx.client, spec).await?;
    // Before the new volume takes its first write.
    upgrade::retire(&ctx.client, spec).await?;
    ctx.watches.ensure(&spec.names, &spec.namespace);
    let mut spec = spec.clone();
    let database = postgres::attend(object, &mut spec, ctx).await?;
    let attended = moving::attend(&ctx.client, object, &mut spec, database.as_ref()).await?;
    let busy = match attended {
        Attended::GoOn { busy } => busy,
        Attended::Refused(refusal) => {
            report(object, ctx, &State::Refused(&refusal)).await?;
            return Ok(RESYNC);
        }
    };
    let spec = &spec;
    // build (no client required)
    let registered = registered(object, ctx);
    let published: Vec<Vec<u8>> = registered.iter().map(|r| r.ca_bundle.clone()).collect();
    let name = spec.names.instance();
    let certs = certs::reconcile(name, now, material, &published, &spec.certs)?;
    let children = build::build(spec, &certs.material, &ctx.operator);
    let kept = children.kept();
    // apply (client required)
    let applied = Box::pin(apply::apply(&ctx.client, children)).await?;
    sweep(object, spec, &kept, ctx).await?;
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs.moves)).await;
    // The finalizer comes before the first group is touched, and goes after the last is back.
    let server = Serving {
        ready: workload::is_serving(&applied.deployment),
        control_available: crate::apiservice::is_available(&applied.control_api),
        ca_bundle: certs.material.bundle().into_bytes(),
    };
    let targets = targets(spec, &server, false);
    let held = targets
        .iter()
        .any(|target| target.owner == migration::ApiOwner::Server)
        || registered
            .iter()
            .any(|registered| registered.group != crds::control::GROUP)
        || ctx
            .supervisor
            .status(name)
            .iter()
            .any(|group| group.phase == Phase::RollingBack);
    finalizer::set(&ctx.client, object, held).await?;
    ctx.supervisor.ensure(&owner(object), targets);
    // status (client required)
    report(
        object,
        ctx,
        &State::Applied {
            spec,
            applied: &applied,
            certs: &certs,
            database: database.as_ref(),
        },
    )
    .await?;
    let due = certs.next.duration_since(now);
    let due = Duration::try_from(due).unwrap_or_default();
    let database = applied.managed.as_ref();
    let database = database.is_none_or(|m| workload::is_database_ready(&m.stateful_set));
    let upgrading = spec.managed().is_some_and(Managed::is_upgrading);
    let resync = if busy {
        moving::RESYNC
    } else if database && !upgrading && workload::is_ready(&applied.deployment) {
        RESYNC
    } else {
        STARTING_RESYNC
    };
    Ok(due.clamp(Duration::from_secs(1), resync))
}

/// What is wanted, with what the namespace holds of a managed database.
pub async fn meet(spec: &Validated, client: &Client) -> Result<Result<Validated, Refusal>, Error> {
    if !spec.is_managed() {
        return Ok(Ok(spec.clone()));
    }
    let known = dereference::known(client, spec).await?;
    let met = spec.clone().meet(known);
    if let Ok(copied) = &met
        && upgrade::commit(client, copied).await?
    {
        let known = dereference::known(client, spec).await?;
        return Ok(spec.clone().meet(known));
    }
    Ok(met)
}

/// Removes leftovers once a generation.
async fn sweep(
    object: &ReportsServer,
    spec: &Validated,
    kept: &Kept,
    ctx: &Context,
) -> Result<(), Error> {
    let generation = object.meta().generation;
    let swept = |ctx: &Context| {
        let swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.get(&spec.uid) == Some(&generation)
    };
    if swept(ctx) {
        return Ok(());
    }
    let gone = apply::remove_orphans(&ctx.client, spec, kept).await?;
    if !gone.is_empty() {
        info!(
            name = spec.names.instance(),
            ?gone,
            "removed what is no longer needed"
        );
    }
    let mut swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
    swept.insert(spec.uid.clone(), generation);
    Ok(())
}

/// The server as the migrations find it.
pub struct Serving {
    /// Whether its Deployment serves.
    pub ready: bool,
    /// Whether its control API is Available.
    pub control_available: bool,
    /// What its certificate is verified with (PEM).
    pub ca_bundle: Vec<u8>,
}

/// What each group of the specification should reach.
#[must_use]
pub fn targets(spec: &Validated, server: &Serving, suspended: bool) -> Vec<GroupTarget> {
    let target = |api: &ApiSpec| GroupTarget {
        group: api.group.clone(),
        owner: match api.owner {
            ApiOwner::Server => migration::ApiOwner::Server,
            ApiOwner::Crd => migration::ApiOwner::Crd,
        },
        predecessor: predecessor(api),
        database: predecessor_database(spec, api),
        service: dereference::service_ref(&spec.namespace, spec.names.server()),
        ca_bundle: server.ca_bundle.clone(),
        server_ready: server.ready,
        control_available: server.control_available,
        persistent: spec.home().is_persistent(),
        suspended,
        settings: spec.migration.clone(),
    };
    spec.apis.iter().map(target).collect()
}

/// The server that a group is taken over from.
fn predecessor(api: &ApiSpec) -> Option<migration::Predecessor> {
    let server = api.from.as_ref()?.server.as_ref()?;
    Some(migration::Predecessor {
        namespace: server.namespace.clone(),
        name: server.name.clone(),
        user: server.user(),
    })
}

/// The database of a server that is gone, which reports of a group are imported from.
fn predecessor_database(spec: &Validated, api: &ApiSpec) -> Option<migration::PredecessorDatabase> {
    let database = api.from.as_ref()?.database.as_ref()?;
    let cluster_id = database.cluster_id.as_ref().unwrap_or(&spec.cluster_uid);
    let secret = &database.connection_secret_ref.name;
    Some(migration::PredecessorDatabase::new(
        &spec.namespace,
        secret,
        cluster_id,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures;

    fn database(from: &Value) -> Option<migration::PredecessorDatabase> {
        let api = json!({"group": "wgpolicyk8s.io", "owner": "Server", "from": from});
        let spec = fixtures::validated(json!({"apis": [api]}));
        assert!(predecessor(&spec.apis[0]).is_none());
        predecessor_database(&spec, &spec.apis[0])
    }

    #[test]
    fn reports_of_this_cluster_are_imported_unless_another_one_is_named() {
        let secret = json!({"name": "s"});
        let own = database(&json!({"database": {"connectionSecretRef": secret}})).unwrap();
        let uid = fixtures::facts().cluster_uid;
        assert_eq!(own, migration::PredecessorDatabase::new("target", "s", uid));
        let other = "99999999-9999-9999-9999-999999999999";
        let from = json!({"database": {"connectionSecretRef": secret, "clusterID": other}});
        assert_eq!(database(&from).unwrap().cluster_id, other);
    }
}
