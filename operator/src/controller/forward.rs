//! Carries a valid specification out: build, apply, status.

use std::sync::PoisonError;
use std::time::Duration;

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::spec::ApiOwner;
use crds::v1alpha1::status::MigrationPhase;
use kube::Resource;
use tracing::info;

use super::apply::{self, Applied};
use super::build::{self, Children};
use super::context::{RESYNC, owner};
use super::found::Dereferenced;
use super::report::report;
use super::status::State;
use super::targets::{self, Serving};
use super::validate::{MoveProgress, Reached, Refusal, Validated};
use super::{Context, Error, accepted, finalizer, workload};
use crate::database::managed::Managed;
use crate::{certs, events, spans};

/// The pause between two looks at pods that start, or bring a database to another major version.
const STARTING_RESYNC: Duration = Duration::from_secs(5);
/// The pause between two looks at a move of the reports.
const MOVING_RESYNC: Duration = Duration::from_secs(2);

/// The extent to which a specification was carried out.
pub enum Outcome {
    /// Wholly; when to look again at the latest.
    Done(Duration),
    /// The cluster stands against it.
    Refused(Refusal),
}

/// Builds and applies the children, hands the groups to the migration, writes the status. `refusal`
/// tells that it is done in place of a later specification, and why.
pub async fn carry_out(
    object: &ReportsServer,
    found: &Dereferenced,
    spec: &Validated,
    refusal: Option<&Refusal>,
    ctx: &Context,
) -> Result<Outcome, Error> {
    ctx.follow(spec);
    // build (no client required)
    let built = spans::pure_part("build", || {
        let certs = certify(found, spec)?;
        let children = build::build(spec, &certs.material, &ctx.operator);
        Ok::<_, certs::Error>((certs, Box::new(children)))
    });
    let (certs, children) = built?;
    // apply (client required)
    if take_volume(spec, ctx).await? {
        return Ok(Outcome::Done(Duration::ZERO));
    }
    let applying = Box::pin(apply_all(object, found, spec, children, ctx));
    let applied = match spans::part("apply", applying).await {
        Ok(applied) => applied,
        Err(error) => return error.refused().map(Outcome::Refused).ok_or(error),
    };
    // The database that a refused specification names is known for as long as it is asked for: it would
    // be looked for anew, and the specification be refused again, without an end.
    if refusal.is_none() {
        ctx.forget_destination(spec);
    }
    Box::pin(hand_over(object, found, spec, &certs, &applied, ctx)).await?;
    // status (client required)
    let state = State::Applied {
        spec,
        refusal,
        applied: &applied,
        certs: &certs,
        database: spec.postgres.as_ref().map(Reached::known),
    };
    report(object, ctx, &state).await?;
    Ok(Outcome::Done(resync(found, spec, &certs, &applied)))
}

/// Returns the certificates, new ones where it is time.
///
/// # Errors
/// If one cannot be issued.
pub fn certify(found: &Dereferenced, spec: &Validated) -> Result<certs::Outcome, certs::Error> {
    let published = found.registered.iter().map(|r| r.ca_bundle.clone());
    certs::reconcile(
        spec.names.instance(),
        found.now,
        found.inside.material.clone(),
        &published.collect::<Vec<_>>(),
        &spec.certs,
    )
}

/// Takes the volume of an upgraded database into use, where it is filled. Then another one counts
/// than was read, and everything has to be read again.
async fn take_volume(spec: &Validated, ctx: &Context) -> Result<bool, Error> {
    let Some(note) = build::commit(spec) else {
        return Ok(false);
    };
    apply::note(&ctx.client, &spec.namespace, &note).await?;
    info!(
        name = spec.names.instance(),
        claim = note.claim,
        "the upgraded database is now in use"
    );
    Ok(true)
}

/// Applies the children, and removes what is none any more. Those of a specification that was not
/// carried out yet are tried before, so that all of them are applied or none.
///
/// # Errors
/// At the first child that is refused.
pub async fn apply_all(
    object: &ReportsServer,
    found: &Dereferenced,
    spec: &Validated,
    children: Box<Children>,
    ctx: &Context,
) -> Result<Box<Applied>, Error> {
    let client = &ctx.client;
    if found.accepted.as_ref() != Some(&object.spec) {
        Box::pin(apply::probe(client, &children)).await?;
    }
    apply::prepare(client, spec).await?;
    let kept = children.kept();
    let applied = Box::pin(apply::apply(client, children)).await?;
    accepted::note(spec, ctx).await;
    // Of two databases one is not asked for, or not any more, until the reports have moved.
    if spec.between.is_none() && !is_swept(object, spec, ctx) {
        let gone = Box::pin(apply::remove_orphans(client, spec, &kept)).await?;
        if !gone.is_empty() {
            info!(
                name = spec.names.instance(),
                ?gone,
                "removed what is no longer needed"
            );
        }
        let mut swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let carried_out = (object.meta().generation, object.spec.clone());
        swept.insert(spec.uid.clone(), carried_out);
    }
    Ok(applied)
}

/// Returns whether leftovers of what is carried out were removed in this generation, in which an
/// earlier specification may have been carried out before the one that is asked for.
fn is_swept(object: &ReportsServer, spec: &Validated, ctx: &Context) -> bool {
    let swept = ctx.swept.lock().unwrap_or_else(PoisonError::into_inner);
    let found = swept.get(&spec.uid);
    found.is_some_and(|(generation, carried_out)| {
        *generation == object.meta().generation && *carried_out == object.spec
    })
}

/// Hands the groups to the migration. The finalizer comes before the first group is touched, and
/// goes after the last is back.
async fn hand_over(
    object: &ReportsServer,
    found: &Dereferenced,
    spec: &Validated,
    certs: &certs::Outcome,
    applied: &Applied,
    ctx: &Context,
) -> Result<(), Error> {
    let about = object.object_ref(&());
    events::publish(&ctx.publisher, &about, events::certificates(certs)).await;
    let (deployment, control_api) = (Some(&applied.deployment), &applied.control_api);
    let server = Serving::of(deployment, control_api, &certs.material);
    let groups = ctx.supervisor.status(spec.names.instance());
    let targets = targets::targets(spec, &server, false);
    let wanted = targets
        .iter()
        .any(|target| target.owner == ApiOwner::Server);
    let pointed = found
        .registered
        .iter()
        .any(|registered| registered.group != crds::control::GROUP);
    let goes_back = groups
        .iter()
        .any(|group| group.phase == MigrationPhase::RollingBack);
    finalizer::set(&ctx.client, object, wanted || pointed || goes_back).await?;
    ctx.supervisor.ensure(&owner(object), targets);
    Ok(())
}

/// Returns when to look again at the latest.
fn resync(
    found: &Dereferenced,
    spec: &Validated,
    certs: &certs::Outcome,
    applied: &Applied,
) -> Duration {
    let database = applied.managed.as_ref();
    let database = database.is_none_or(|m| workload::is_database_ready(&m.stateful_set));
    // The server has not told yet which database it has opened.
    let known = spec.moving.is_some() || spec.postgres.is_none() || spec.history.is_some();
    let upgrading = spec.managed().is_some_and(Managed::is_upgrading);
    // Where one is over, what waited for its end follows.
    let resync = if spec.move_progress != MoveProgress::None {
        MOVING_RESYNC
    } else if database && !upgrading && known && workload::is_ready(&applied.deployment) {
        RESYNC
    } else {
        STARTING_RESYNC
    };
    let due = certs.next.duration_since(found.now);
    let due = Duration::try_from(due).unwrap_or_default();
    due.clamp(Duration::from_secs(1), resync)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crds::v1alpha1::reasons;
    use database::Parameters;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::controller::fixtures;
    use crate::database::check::Target;
    use crate::testing::pair;

    fn target() -> Target {
        let pairs = [
            ("host", "db.example"),
            ("dbname", "d"),
            ("username", "u"),
            ("sslmode", "disable"),
        ];
        Target {
            parameters: Arc::new(Parameters::from_map(pairs).unwrap()),
            primary: None,
            identity: "ours".to_owned(),
            cluster_uid: "uid".to_owned(),
            history: None,
        }
    }

    /// The reports in the destination may be the reason of the refusal.
    #[rstest]
    #[case::specification_refused(true, None, true)]
    #[case::child_refused(false, Some("/deployments/simple-server"), true)]
    #[case::carried_out(false, None, false)]
    #[tokio::test]
    async fn the_database_of_a_refused_specification_stays_examined(
        #[case] refused: bool,
        #[case] foreign: Option<&'static str>,
        #[case] examined: bool,
    ) {
        let (client, server) = pair();
        let theirs = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "simple-server", "namespace": "target"}});
        let present = foreign.into_iter().map(|path| (path, theirs.clone()));
        let _writes = fixtures::played(server, present.collect(), &[]);
        let ctx = fixtures::context(&client);
        let object = fixtures::object(json!({}));
        let (found, spec) = (fixtures::read(), fixtures::validated_object(&object));
        // No leftovers are looked for.
        let swept = (object.metadata.generation, object.spec.clone());
        ctx.swept.lock().unwrap().insert(spec.uid.clone(), swept);
        ctx.checks.ensure_destination("simple", Some(&target()));
        let refusal = refused.then(|| Refusal {
            reason: reasons::NOT_SUPPORTED,
            message: "no".to_owned(),
        });
        let done = Box::pin(carry_out(&object, &found, &spec, refusal.as_ref(), &ctx));
        let outcome = done.await.unwrap();
        let carried_out = matches!(outcome, Outcome::Done(_));
        assert_eq!(carried_out, foreign.is_none());
        assert_eq!(ctx.checks.has_destination("simple"), examined);
    }
}
