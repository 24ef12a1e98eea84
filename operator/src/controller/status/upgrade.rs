//! The findings about a major upgrade of a managed database.

use crds::v1alpha1::reasons;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::Finding;
use crate::controller::apply::Applied;
use crate::controller::validate::Validated;
use crate::controller::workload;
use crate::database::managed::Managed;
use crate::database::managed::upgrade::{Stage, Upgrade};

/// Returns whether the database has the wanted major version; none where it was never brought to
/// another.
#[must_use]
pub fn finding(spec: &Validated, applied: &Applied, before: Option<&Condition>) -> Option<Finding> {
    let managed = spec.managed()?;
    match &managed.upgrade {
        Some(upgrade) => Some(under_way(managed, upgrade, applied)),
        None => done(managed, applied, before),
    }
}

/// Returns why the database is stopped, where it is for an upgrade.
#[must_use]
pub fn why_stopped(managed: &Managed, applied: &Applied) -> Option<Finding> {
    if !managed.present.stopped {
        return None;
    }
    let message = match &managed.upgrade {
        Some(upgrade) => under_way(managed, upgrade, applied).message,
        None => format!(
            "the upgrade is abandoned: PostgreSQL {} serves again when its Jobs and pods are gone",
            managed.version()
        ),
    };
    Some(Finding::no(reasons::DATABASE_UPGRADING, message))
}

fn under_way(managed: &Managed, upgrade: &Upgrade, applied: &Applied) -> Finding {
    let (from, to) = (managed.version(), upgrade.target.version());
    let run = applied
        .managed
        .as_ref()
        .and_then(|managed| managed.upgrade.as_ref());
    let why = run.and_then(|run| workload::why_job_fails(&run.pods));
    let why_running = why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    let failed = |job: &str| {
        let why = why.as_deref().unwrap_or("its pods are gone");
        Finding::no(
            reasons::UPGRADE_FAILED,
            format!(
                "PostgreSQL {from} could not be upgraded to {to}, and serves as before: Job {job}: \
                 {why}; correct the cause and delete the Job to try again, or set \
                 spec.database.managed.version back to {from}"
            ),
        )
    };
    let checking = |message: String| Finding::no(reasons::UPGRADE_CHECKING, message);
    let upgrading = |message: String| {
        let meanwhile = "writes are answered with 503 and Retry-After meanwhile";
        Finding::no(
            reasons::DATABASE_UPGRADING,
            format!("{message}; {meanwhile}"),
        )
    };
    match upgrade.stage {
        Stage::Clearing { .. } => {
            checking("the leftovers of another upgrade are removed first".to_owned())
        }
        Stage::Waiting => checking(format!(
            "waiting for PostgreSQL {from} to answer before it is upgraded to {to}"
        )),
        Stage::Checking => checking(format!(
            "Job {} checks whether PostgreSQL {from} can be upgraded to {to}{why_running}",
            upgrade.check
        )),
        Stage::Refused => failed(&upgrade.check),
        Stage::Failed => failed(&upgrade.copy),
        Stage::Stopping => upgrading(format!("PostgreSQL {from} is being stopped")),
        Stage::Copying => upgrading(format!(
            "Job {} copies PostgreSQL {from} to {to} and compares both{why_running}",
            upgrade.copy
        )),
        Stage::Copied => upgrading(format!(
            "PostgreSQL {to} has all data, and is being started"
        )),
    }
}

fn done(managed: &Managed, applied: &Applied, before: Option<&Condition>) -> Option<Finding> {
    let volumes = &managed.present.volumes;
    let from = volumes.present.as_ref()?.upgrade.as_ref()?;
    let to = managed.version();
    let starting = before.is_some_and(|before| before.status != "True");
    let set = applied
        .managed
        .as_ref()
        .map(|managed| &managed.stateful_set);
    if starting && !set.is_some_and(workload::is_database_ready) {
        return Some(Finding::no(
            reasons::DATABASE_UPGRADING,
            format!("PostgreSQL {to} has all data, and is starting"),
        ));
    }
    let earlier: Vec<_> = volumes
        .earlier
        .iter()
        .map(|volume| volume.name.as_str())
        .collect();
    let kept = if earlier.is_empty() {
        String::new()
    } else {
        let earlier = earlier.join(", ");
        format!("; the earlier volume is kept until you delete it: {earlier}")
    };
    Some(Finding::yes(
        reasons::UPGRADED,
        format!("PostgreSQL was upgraded from {from} to {to}{kept}"),
    ))
}
