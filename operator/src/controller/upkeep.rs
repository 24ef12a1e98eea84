//! The work that goes on where the specification is not carried out, because it is refused or
//! suspended, a step fails, or a deletion waits. Clients depend on the server all the same: its
//! certificates are renewed, what leads to it is put right, and the status tells how it is.

use std::time::Duration;

use crds::v1alpha1::status::MigrationPhase;
use crds::v1alpha1::{ReportsServer, reasons};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use tracing::warn;

use super::apply::Applied;
use super::build::control_api_name;
use super::context::{RESYNC, owner};
use super::forward::{self, Outcome};
use super::found::{Dereferenced, Found, Part};
use super::report::report;
use super::status::State;
use super::targets::{self, Serving};
use super::validate::{self, Refusal, Refused, Validated};
use super::{Context, Error, apply, build, cleanup, dereference, lost};
use crate::migration::{GroupStatus, GroupTarget};
use crate::{certs, events};

/// Time between two looks at a suspended switch until it has come to its end.
const FINISHING: Duration = Duration::from_secs(5);

/// Time between two looks whether what stands in the cluster against a specification has gone.
const STANDING: Duration = Duration::from_secs(15);

/// The specification that is kept for clients, and how its children were found.
pub struct Kept {
    spec: Validated,
    found: Found,
}

impl Kept {
    /// Returns both.
    #[must_use]
    pub fn parts(&self) -> (&Validated, &Found) {
        (&self.spec, &self.found)
    }

    /// Returns what the migrations are asked for where switches that are under way come to their end,
    /// and none begins.
    #[must_use]
    pub fn resting(&self) -> Vec<GroupTarget> {
        targets::targets(&self.spec, &serving(&self.found), true)
    }

    /// Returns the authorities with which the server's certificate is verified (PEM).
    #[must_use]
    pub fn ca_bundle(&self) -> Vec<u8> {
        self.found.certs.material.bundle().into_bytes()
    }
}

/// Leaves everything as it is but for what clients depend on. A switch under way is brought to its
/// end first, also where another operator began it: between two of its steps requests are held.
pub async fn suspend(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    ctx: &Context,
) -> Result<Action, Error> {
    let found = Box::pin(keep(object, read, spec, true, ctx)).await?;
    let groups = ctx.supervisor.status(&object.name_any());
    let finishing = groups.iter().any(|group| is_under_way(object, group));
    let state = State::Suspended {
        finishing,
        spec,
        found: found.as_ref(),
    };
    report(object, ctx, &state).await?;
    let resync = if finishing { FINISHING } else { RESYNC };
    Ok(Action::requeue(due(found.as_ref(), resync)))
}

/// Tells that the specification is refused, and carries the last one out that was not.
pub async fn refuse(
    object: &ReportsServer,
    read: &Dereferenced,
    refused: &Refused,
    ctx: &Context,
) -> Result<Action, Error> {
    let Refused { refusal, spec } = refused;
    let again = if spec.is_some() { STANDING } else { RESYNC };
    Box::pin(lost::restore(object, read, ctx)).await;
    let last = Box::pin(last_in_force(object, read, refusal, ctx)).await?;
    let valid = last
        .as_ref()
        .map(|(last, read)| validate::validate(last, read));
    if let (Some((last, read)), Some(Ok(spec))) = (&last, &valid)
        && last.spec.suspend != Some(true)
    {
        let done = Box::pin(forward::carry_out(last, read, spec, Some(refusal), ctx)).await?;
        if let Outcome::Done(resync) = done {
            return Ok(Action::requeue(resync.min(again)));
        }
    }
    // Neither can be carried out: what clients depend on is kept by the last one that is valid.
    let kept = match (&last, &valid) {
        (Some((last, read)), Some(Ok(spec))) => Some((last, read, spec)),
        (Some((last, read)), Some(Err(refused))) => {
            refused.spec.as_deref().map(|spec| (last, read, spec))
        }
        _ => spec.as_deref().map(|spec| (object, read, spec)),
    };
    let found = match kept {
        Some((object, read, spec)) => {
            let suspended = object.spec.suspend == Some(true);
            Box::pin(keep(object, read, spec, suspended, ctx)).await?
        }
        None => None,
    };
    let state = State::Refused {
        refusal,
        found: kept.map(|(_, _, spec)| spec).zip(found.as_ref()),
    };
    report(object, ctx, &state).await?;
    Ok(Action::requeue(due(found.as_ref(), again)))
}

/// Returns the object with the specification that was carried out last, where that is another one, or
/// is the same and was in force until its namespace was closed.
fn last_accepted(
    object: &ReportsServer,
    read: &Dereferenced,
    refusal: &Refusal,
) -> Option<ReportsServer> {
    let mut spec = read.accepted.clone()?;
    spec.suspend = object.spec.suspend;
    let closed = refusal.reason == reasons::TARGET_NAMESPACE_CLOSED;
    (closed || spec != object.spec).then(|| ReportsServer {
        spec,
        ..object.clone()
    })
}

/// Reads what is needed to carry the specification out that was carried out last, where that is
/// another one, or is the same and was in force until its namespace was closed.
///
/// # Errors
/// If something cannot be read.
pub async fn last_in_force(
    object: &ReportsServer,
    read: &Dereferenced,
    refusal: &Refusal,
    ctx: &Context,
) -> Result<Option<(ReportsServer, Dereferenced)>, Error> {
    let Some(last) = last_accepted(object, read, refusal) else {
        return Ok(None);
    };
    let read = dereference::dereference(&last, ctx).await?;
    let last = read.in_force(&last).into_owned();
    Ok(Some((last, Dereferenced { kept: true, ..read })))
}

/// Keeps what clients depend on, and looks how the server is; nothing where there is none yet.
async fn keep(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    suspended: bool,
    ctx: &Context,
) -> Result<Option<Found>, Error> {
    ctx.follow(spec);
    let found = if read.inside.deployment.is_none() && read.registered.is_empty() {
        None
    } else {
        Some(Box::pin(renew(object, read, spec, ctx)).await?)
    };
    let server = found.as_ref().map(serving).unwrap_or_default();
    let targets = targets::targets(spec, &server, suspended);
    ctx.supervisor.ensure(&owner(object), targets);
    Ok(found)
}

/// Keeps what clients depend on after a step has failed, by the specification that it belonged to, and
/// looks how the server is; nothing where there is none, or it cannot be looked at.
pub async fn rescue(object: &ReportsServer, ctx: &Context) -> Option<Kept> {
    let kept = Box::pin(try_rescue(object, ctx)).await;
    kept.unwrap_or_else(|error| {
        warn!(name = object.name_any(), %error, "cannot keep what clients depend on");
        None
    })
}

async fn try_rescue(object: &ReportsServer, ctx: &Context) -> Result<Option<Kept>, Error> {
    let read = dereference::least(object, ctx).await?;
    // What failed is the present specification, unless that is refused.
    let refused = validate::validate(object, &read).is_err();
    let (object, read) = match read.accepted.clone() {
        Some(spec) if refused && spec != object.spec => {
            let last = ReportsServer {
                spec,
                ..object.clone()
            };
            let read = dereference::least(&last, ctx).await?;
            (last, Dereferenced { kept: true, ..read })
        }
        _ => (object.clone(), read),
    };
    let spec = match validate::validate(&object, &read) {
        Ok(spec) => Some(Box::new(spec)),
        Err(refused) => refused.spec,
    };
    let there = read.inside.deployment.is_some() || !read.registered.is_empty();
    let Some(mut spec) = spec.filter(|_| there) else {
        return Ok(None);
    };
    if cleanup::orphans(&object) {
        // They stay when it goes, however that comes about.
        spec.owner = None;
    }
    // What could not be read is watched and examined as before.
    if !read.inside.is_way_unread && !read.between.is_way_unread {
        ctx.follow(&spec);
    }
    let found = Box::pin(renew(&object, &read, &spec, ctx)).await?;
    Ok(Some(Kept { spec: *spec, found }))
}

/// Applies the children of an object whose deletion waits, by the last specification that can be
/// carried out; nothing where none can, or nothing is there.
///
/// # Errors
/// If a child cannot be applied, or no specification says how to start a database that an upgrade has
/// stopped.
pub async fn stay(object: &ReportsServer, ctx: &Context) -> Result<Option<Kept>, Error> {
    let read = dereference::dereference(object, ctx).await?;
    let refused = match Box::pin(settle(object, &read, ctx)).await? {
        Ok(kept) => return Ok(Some(kept)),
        Err(refused) => refused,
    };
    let last = Box::pin(last_in_force(object, &read, &refused.refusal, ctx)).await?;
    let (read, refused) = match last {
        Some((last, read)) => match Box::pin(settle(&last, &read, ctx)).await? {
            Ok(kept) => return Ok(Some(kept)),
            Err(refused) => (read, refused),
        },
        None => (read, refused),
    };
    // The reports are read from the database on their way back.
    if read.inside.has_stopped_database() {
        return Err(Error::GiveBack(refused.refusal.message));
    }
    let there = read.inside.deployment.is_some() || !read.registered.is_empty();
    let Some(spec) = refused.spec.filter(|_| there) else {
        return Ok(None);
    };
    ctx.follow(&spec);
    let found = Box::pin(renew(object, &read, &spec, ctx)).await?;
    Ok(Some(Kept { spec: *spec, found }))
}

/// Applies all children, or what clients depend on where it is suspended, and renews the certificates,
/// unless the specification or a child is refused.
async fn settle(
    object: &ReportsServer,
    read: &Dereferenced,
    ctx: &Context,
) -> Result<Result<Kept, Refused>, Error> {
    let spec = match validate::validate(object, read) {
        Ok(spec) => spec,
        Err(refused) => return Ok(Err(refused)),
    };
    // The way back needs the server, and whoever has deleted it does not make it again.
    let whole = read.inside.deployment.is_some()
        && (spec.managed().is_none() || read.inside.stateful_set.is_some());
    if object.spec.suspend == Some(true) && whole && !read.inside.has_stopped_database() {
        ctx.follow(&spec);
        let found = Box::pin(renew(object, read, &spec, ctx)).await?;
        return Ok(Ok(Kept { spec, found }));
    }
    let certs = forward::certify(read, &spec)?;
    let children = Box::new(build::build(&spec, &certs.material, &ctx.operator));
    let in_force = read.in_force(object);
    let applied = Box::pin(forward::apply_all(&in_force, read, &spec, children, ctx)).await;
    let applied = match applied {
        Ok(applied) => applied,
        Err(error) => {
            let refusal = error.refused().ok_or(error)?;
            let spec = Some(Box::new(spec));
            return Ok(Err(Refused { refusal, spec }));
        }
    };
    // Only now: examining one database and then another for each attempt would not end.
    ctx.follow(&spec);
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs)).await;
    let found = as_found(*applied, certs);
    Ok(Ok(Kept { spec, found }))
}

fn as_found(applied: Applied, certs: certs::Outcome) -> Found {
    Found {
        backup_jobs: applied.backup_jobs().to_vec(),
        deployment: Some(applied.deployment),
        pods: applied.pods,
        stateful_set: applied.managed.map(|managed| managed.stateful_set),
        control_api: applied.control_api,
        certs,
        unkept: Vec::new(),
    }
}

async fn renew(
    object: &ReportsServer,
    read: &Dereferenced,
    spec: &Validated,
    ctx: &Context,
) -> Result<Found, Error> {
    let certs = forward::certify(read, spec)?;
    let spec = &with_account_of(spec, read.inside.deployment.as_ref());
    let children = Box::new(build::build(spec, &certs.material, &ctx.operator));
    let stored = Box::new(build::build(spec, &read.inside.material, &ctx.operator));
    let standing = Box::pin(apply::keep(&ctx.client, spec, &children, &stored)).await;
    for unkept in &standing.unkept {
        warn!(
            name = object.name_any(),
            error = unkept.message,
            "cannot keep what clients depend on"
        );
    }
    let certs = if standing.is_certified() {
        certs
    } else {
        certs.unstored(read.inside.material.clone())
    };
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(&certs)).await;
    let deployment = read.inside.deployment.clone();
    let pods = match &deployment {
        Some(deployment) => apply::pods_in_trouble(&ctx.client, deployment).await,
        None => Ok(Vec::new()),
    };
    let pods = pods.unwrap_or_else(|error| {
        warn!(name = object.name_any(), %error, "cannot look at the server's pods");
        Vec::new()
    });
    let backup_jobs = apply::backup_jobs(&ctx.client, &children).await;
    let backup_jobs = backup_jobs.unwrap_or_else(|error| {
        warn!(name = object.name_any(), %error, "cannot look at the backups");
        Vec::new()
    });
    let present = || {
        ctx.api_services
            .find(|api| api.name_any() == control_api_name())
    };
    let mut unkept = standing.unkept.iter();
    let foreign = unkept.any(|unkept| unkept.foreign && unkept.part == Part::Server);
    let present = || present().filter(|_| !foreign).map(|api| (*api).clone());
    let control_api = standing.control_api.or_else(present);
    Ok(Found {
        deployment,
        pods,
        stateful_set: read.inside.stateful_set.clone(),
        backup_jobs,
        control_api: control_api.unwrap_or_default(),
        certs,
        unkept: standing.unkept,
    })
}

/// Returns the same with the account of the pods that run: rights are theirs, whatever account a
/// specification names that is not carried out.
fn with_account_of(spec: &Validated, deployment: Option<&Deployment>) -> Validated {
    let mut spec = spec.clone();
    let pod = deployment
        .and_then(|deployment| deployment.spec.as_ref())
        .and_then(|deployment| deployment.template.spec.as_ref());
    if let Some(account) = pod.and_then(|pod| pod.service_account_name.clone()) {
        let own = spec.names.server();
        spec.pod.service_account = Some(account).filter(|account| *account != own);
    }
    spec
}

fn serving(found: &Found) -> Serving {
    let (deployment, control_api) = (found.deployment.as_ref(), &found.control_api);
    Serving::of(deployment, control_api, &found.certs.material)
}

/// Returns when to look again at the latest.
fn due(found: Option<&Found>, resync: Duration) -> Duration {
    let unkept = found.is_some_and(|found| !found.unkept.is_empty());
    let resync = if unkept { resync.min(STANDING) } else { resync };
    let next = found.map(|found| found.certs.next.duration_since(Timestamp::now()));
    let next = next.map(|next| Duration::try_from(next).unwrap_or_default());
    next.map_or(resync, |next| next.clamp(Duration::from_secs(1), resync))
}

/// Returns whether a group is between two steps of a switch; of one that this process has not
/// looked at yet the status tells.
pub fn is_under_way(object: &ReportsServer, group: &GroupStatus) -> bool {
    let told = || {
        let migration = object.status.as_ref()?.migration.as_ref()?;
        let told = migration.groups.iter().find(|g| g.group == group.group)?;
        Some(told.phase)
    };
    match group.phase {
        MigrationPhase::Switching | MigrationPhase::RollingBack => true,
        MigrationPhase::Pending => matches!(
            told(),
            Some(MigrationPhase::Switching | MigrationPhase::RollingBack)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::fixtures;
    use crate::testing::pair;

    /// A right to read the kube-apiserver's addresses, a CRD or pods is none that certificates need.
    #[tokio::test]
    async fn certificates_are_kept_without_what_is_read_on_the_side() {
        let object = fixtures::object(json!({"networkPolicy": {"enabled": true},
            "tls": {"mode": "CertManager", "certManager": {"issuerRef": {"name": "i"}}},
            "database": {"mode": "CloudNativePG", "cloudNativePG": {"create": {}}}}));
        let spec = fixtures::validated_object(&object);
        let none = certs::Material::default();
        let issued = certs::reconcile("simple", Timestamp::now(), none, &[], &spec.certs).unwrap();
        let children = build::build(&spec, &issued.material, &fixtures::operator());
        let present = vec![
            ("/secrets/simple-ca", json!(children.ca)),
            ("/secrets/simple-serving-cert", json!(children.serving_cert)),
            ("/deployments/simple-server", json!(children.deployment)),
        ];
        let forbidden = &["/customresourcedefinitions/", "/endpointslices", "/pods"];
        let (client, server) = pair();
        let taken = fixtures::played(server, present, forbidden);
        let ctx = fixtures::context(&client);
        assert!(dereference::dereference(&object, &ctx).await.is_err());
        let kept = rescue(&object, &ctx).await.unwrap();
        let (spec, found) = kept.parts();
        assert_eq!(spec.postgres, None, "nothing is said about the database");
        assert!(found.deployment.is_some());
        assert!(found.unkept.is_empty(), "{:?}", found.unkept);
        let taken = taken.lock().unwrap();
        for wanted in [
            "/secrets/simple-ca",
            "/secrets/simple-serving-cert",
            "/services/simple-server",
        ] {
            let mut paths = taken.iter().map(|(path, _)| path);
            assert!(paths.any(|path| path.ends_with(wanted)), "{wanted}");
        }
    }

    #[test]
    fn rights_are_those_of_the_pods_that_run() {
        let theirs = json!({"server": {"serviceAccount": {"name": "theirs"}}});
        let deployed = |account: &str| -> Deployment {
            let pod = json!({"serviceAccountName": account, "containers": []});
            let spec = json!({"selector": {}, "template": {"spec": pod}});
            serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()
        };
        for (spec, deployment, expected) in [
            (json!({}), Some(deployed("theirs")), Some("theirs")),
            (theirs.clone(), Some(deployed("simple-server")), None),
            (theirs, None, Some("theirs")),
        ] {
            let spec = fixtures::validated(spec);
            let kept = with_account_of(&spec, deployment.as_ref());
            assert_eq!(kept.pod.service_account.as_deref(), expected);
        }
    }

    #[test]
    fn the_same_specification_stays_in_force_when_its_namespace_is_closed() {
        let object = fixtures::object(json!({}));
        let read = Dereferenced {
            accepted: Some(object.spec.clone()),
            ..fixtures::read()
        };
        let last = |reason| {
            let message = String::new();
            last_accepted(&object, &read, &Refusal { reason, message }).map(|last| last.spec)
        };
        assert_eq!(
            last(reasons::TARGET_NAMESPACE_CLOSED),
            Some(object.spec.clone())
        );
        assert_eq!(last(reasons::INVALID_SPEC), None);
    }
}
