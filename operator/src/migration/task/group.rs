//! The task of one API group: observe, decide, carry out, report.

use std::sync::Arc;
use std::time::Duration;

use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::ApiOwner;
use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::live::Live;
use super::publish::publish;
use super::refused::Refused;
use crate::migration::cluster::rights::{self, Right};
use crate::migration::cluster::wire::WireError;
use crate::migration::cluster::{door, endpoints, operations, revisions};
use crate::migration::context::Cx;
use crate::migration::context::deps::Deps;
use crate::migration::observe::state::Observed;
use crate::migration::observe::{self, notes};
use crate::migration::plan;
use crate::migration::plan::action::{Action, Decision};
use crate::migration::plan::estimate::Plan;
use crate::migration::plan::target::{GroupTarget, Owner};
use crate::migration::report::publisher::StatusPublisher;
use crate::migration::report::status::{GroupStatus, Problem};
use crate::migration::report::{MigrationReport, journal};
use crate::migration::steps::{self, restart};

/// Pause before the next look at something that others have to do first.
const WAIT: Duration = Duration::from_secs(1);
/// Pause before the next look where a person has to act.
const STALLED: Duration = Duration::from_secs(15);
/// The time between two looks at a group without anything to do: somebody may have changed it, and
/// the versions of a served one have to keep up with etcd's revision.
const IDLE: Duration = Duration::from_secs(10);
/// The time that clients get to come back to a server that was not ready.
const COME_BACK: Duration = Duration::from_secs(15);
/// The time for a look at the cluster: a kube-apiserver that hangs is not waited for.
const LOOK: Duration = Duration::from_mins(1);
/// The time for what helps to tell of a failure.
const ASIDE: Duration = Duration::from_secs(5);
/// First and last pause after an error.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Runs until it is aborted or the supervisor drops the target's sender.
pub(in crate::migration) async fn run(
    deps: Deps,
    owner: Owner,
    mut target: watch::Receiver<GroupTarget>,
    report: StatusPublisher,
    wake: Arc<Notify>,
) {
    let first = target.borrow_and_update().clone();
    let client = match endpoints::client(deps.config.clone(), &deps.term) {
        Ok(client) => client,
        Err(error) => {
            // The configuration is that of the process; nothing but a restart changes it.
            let message = error.to_string();
            let problem = Problem {
                reason: reasons::PROGRESSING,
                message,
                stalled: true,
            };
            report.update(|status| status.problem = Some(problem));
            while target.changed().await.is_ok() {}
            return;
        }
    };
    let mut cx = Cx::new(deps, client, owner, first, report);
    let mut live = Live::default();
    let mut backoff = BACKOFF.0;
    loop {
        let wanted = target.borrow_and_update().clone();
        cx.set_target(wanted);
        let (pause, wakes_itself) = match turn(&cx, &mut live, &target, &wake).await {
            Ok(pause) => {
                backoff = BACKOFF.0;
                (pause, false)
            }
            Err(problem) => {
                let GroupStatus { step, action, .. } = cx.report.status();
                let (problem, retry) = live.refused.judge(action, problem, Instant::now());
                let pause = if problem.stalled { STALLED } else { backoff };
                let mut pause = retry.unwrap_or(pause);
                if action == Some(Action::Retake) {
                    // Each moment both sides take writes.
                    pause = pause.min(WAIT);
                }
                backoff = (backoff * 2).min(BACKOFF.1);
                cx.journal.retry(step, &problem.message);
                cx.report.update(|status| status.fail(problem));
                (pause, action.is_some_and(Action::moves_api_services))
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = wake.notified(), if !wakes_itself => {}
            changed = target.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Makes one turn; returns the time for which nothing has to be done.
async fn turn(
    cx: &Cx,
    live: &mut Live,
    wanted: &watch::Receiver<GroupTarget>,
    wake: &Notify,
) -> Result<Duration, Problem> {
    if !cx.target.server_ready {
        live.server_away = Some(Instant::now());
    }
    journal::load(cx).await;
    let o = look(cx, live).await?;
    if cx.target.owner == ApiOwner::Crd || o.reverted.is_some() || cx.target.suspended {
        live.stop(o.all_ours());
    }
    publish(cx, &o);
    let report = async {
        restart::run(cx, &o).await;
        journal::save(cx).await;
    };
    tokio::select! {
        () = report => {}
        () = wake.notified() => return Ok(Duration::ZERO),
    }
    match plan::plan(&o, &cx.target) {
        Decision::Run(action) => {
            live.refused.ended(None);
            cx.report.update(|status| status.attempt(action));
            let result = if steps::is_interruptible(action) {
                tokio::select! {
                    result = steps::act(cx, &o, live, action) => result.map(|()| true),
                    () = changed(wanted.clone(), &cx.target) => Ok(false),
                    () = wake.notified() => Ok(false),
                }
            } else if action == Action::Settle {
                tokio::select! {
                    result = steps::act(cx, &o, live, action) => result.map(|()| true),
                    () = operations::taken_away(cx, &o) => Ok(false),
                }
            } else {
                steps::act(cx, &o, live, action).await.map(|()| true)
            };
            match result {
                Ok(done) => {
                    if done {
                        live.refused.ended(Some(action));
                        live.closed_doors = 0;
                    }
                    cx.report.update(GroupStatus::succeed);
                    Ok(Duration::ZERO)
                }
                Err(error) => Err(failed(cx, &o, live, action, &error).await),
            }
        }
        Decision::Wait {
            step,
            phase,
            problem,
        } => {
            cx.show(step, phase);
            let (problem, retry) = judge(live, &o, problem);
            let pause = if problem.stalled { STALLED } else { WAIT };
            cx.report.update(|status| status.wait(problem));
            Ok(retry.unwrap_or(pause))
        }
        Decision::Idle {
            phase,
            message,
            wake: due,
        } => {
            live.refused = Refused::default();
            tokio::select! {
                () = idle(cx, &o, phase, message) => {}
                () = wake.notified() => return Ok(Duration::ZERO),
            }
            let due = due.map(|at| at.duration_since(Timestamp::now()));
            let due = due.map_or(IDLE, |d| Duration::try_from(d).unwrap_or_default());
            Ok(due.min(IDLE).max(Duration::from_millis(100)))
        }
    }
}

/// Returns what is waited for as it is told. A right that is said to be missing may be a refusal that
/// passes; what the looks for admission were refused is judged there.
fn judge(live: &mut Live, o: &Observed, problem: Problem) -> (Problem, Option<Duration>) {
    if o.missing_rights.is_empty() {
        live.refused.ended(None);
        return (problem, None);
    }
    live.refused.judge(None, problem, Instant::now())
}

/// Observes, and adds the facts that only this process knows.
async fn look(cx: &Cx, live: &mut Live) -> Result<Observed, Problem> {
    let observed = observe::observe(&cx.client, &cx.control, &cx.notes, &cx.target);
    let observed = tokio::time::timeout(LOOK, observed).await.map_err(late)?;
    let mut o = observed.map_err(|e| e.problem())?;
    live.forget_others(&o);
    o.mirrors = live.stage(&o);
    o.verified = live.is_verified(&o, cx.target.settings.verification);
    o.next_look = live.reported.next(o.notes.switched_at);
    o.plan = plan_of(cx, live, &o);
    o.bypass = live.bypass.look(cx, &o).await;
    o.server_just_started = live.server_away.is_some_and(|at| at.elapsed() < COME_BACK);
    // What was taken away is taken back with the rights that there are.
    let moves = !o.all_ours() && !o.is_ahead_of_etcd();
    let asks = cx.target.owner == ApiOwner::Server && moves && !o.resources.is_empty();
    let required = if asks { required(cx, &o) } else { Vec::new() };
    if asks && required != live.held {
        let missing = rights::missing(&cx.client, required.clone());
        let missing = tokio::time::timeout(LOOK, missing).await.map_err(late)?;
        let missing = missing.map_err(|e| Problem {
            reason: reasons::PROGRESSING,
            message: format!("cannot check the operator's own rights: {e}"),
            stalled: false,
        })?;
        if missing.is_empty() {
            live.held = required;
        }
        o.missing_rights = missing.iter().map(ToString::to_string).collect();
        o.missing_rules = rights::rules(&missing);
    }
    Ok(o)
}

fn late(_: tokio::time::error::Elapsed) -> Problem {
    Problem {
        reason: reasons::PROGRESSING,
        message: format!(
            "the kube-apiserver does not answer within {} s; the operator tries again",
            LOOK.as_secs()
        ),
        stalled: false,
    }
}

/// Returns every right that moving the group needs.
fn required(cx: &Cx, o: &Observed) -> Vec<Right> {
    let sources = o.sources().into_iter();
    let plurals: Vec<String> = sources.map(|(r, _)| r.plural().to_owned()).collect();
    let mut required = rights::required(&cx.target.group, &plurals, &cx.deps.namespace);
    required.extend(rights::of_settings(&cx.target.settings));
    required
}

/// Returns the plan of a switch, once the copy is verified.
fn plan_of(cx: &Cx, live: &Live, o: &Observed) -> Option<Plan> {
    if !o.verified || !o.has_crds() || o.any_ours() {
        return None;
    }
    let GroupTarget {
        settings,
        persistent,
        ..
    } = &cx.target;
    let copy = cx.journal.read(MigrationReport::copy_took);
    let hash = o.plan_hash(&cx.target);
    Some(Plan::new(hash, live.size(), settings, *persistent, copy))
}

/// The reason why watches are lost after a way back whose first attempts ended with cut watches.
const CUT: &str = "watches on the server were cut during the way back, and clients that had not \
                   resumed them by the next attempt got 410";
/// The number of times that a door may be found closed until a person has to act.
const CLOSED_DOORS: u32 = 3;

async fn failed(
    cx: &Cx,
    o: &Observed,
    live: &mut Live,
    action: Action,
    error: &steps::ActError,
) -> Problem {
    tracing::warn!(group = cx.target.group, ?action, %error, "the action failed; trying again");
    // It may come of a right that was taken away since.
    live.held.clear();
    if error.is_of_the_server() {
        live.server_away = Some(Instant::now());
    }
    if action == Action::ImportDatabase {
        // A group that is served may wait for the database for long.
        if o.all_ours()
            && let Ok(Err(error)) = tokio::time::timeout(ASIDE, keep_up(cx, o)).await
        {
            tracing::warn!(group = cx.target.group, %error, "cannot raise the versions to etcd's");
        }
    }
    if error.cuts_watches() {
        restart::lost(cx, restart::Side::Crd, CUT).await;
    }
    if !error.is_of_the_door() {
        return error.problem();
    }
    let meddlers = tokio::time::timeout(ASIDE, door::meddlers(cx, o)).await;
    let meddlers = meddlers.ok().and_then(Result::ok).unwrap_or_default();
    let Some((crd, manager)) = meddlers.into_iter().next() else {
        return error.problem();
    };
    live.closed_doors += 1;
    Problem {
        reason: reasons::CRD_REAPPLIED,
        message: format!(
            "CRD {crd} is written by {manager:?}, which removes the version {} through which \
             etcd is reached; let it ignore /spec/versions of this CRD until the group is switched \
             (spec.ignoreDifferences of Argo CD, spec.ignore of Flux: report-crds.yaml in \
             manifests/gitops has the lines), or stop it",
            door::objects::VERSION
        ),
        stalled: live.closed_doors >= CLOSED_DOORS,
    }
}

/// Waits until another owner or other settings are wanted. A server that is not ready for a moment
/// is no reason to give up what runs.
async fn changed(mut wanted: watch::Receiver<GroupTarget>, current: &GroupTarget) {
    let other = |new: &GroupTarget| {
        new.owner != current.owner
            || new.settings != current.settings
            || new.database != current.database
    };
    if wanted.wait_for(other).await.is_err() {
        // The supervisor is gone, and with it soon this task.
        std::future::pending::<()>().await;
    }
}

/// Keeps the counter of a group near etcd's revision while nothing else is done, and no group goes
/// back.
async fn keep_up(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    if cx.deps.hold_lock.is_returning() {
        return Ok(());
    }
    operations::keep_up(cx, o, revisions::known_to(&cx.wire).await?).await
}

async fn idle(cx: &Cx, o: &Observed, phase: MigrationPhase, message: String) {
    if let Err(error) = keep_up(cx, o).await {
        tracing::warn!(group = cx.target.group, %error, "cannot raise the versions to etcd's");
    }
    let problem = o
        .reverted
        .as_ref()
        .filter(|_| cx.target.owner == ApiOwner::Server)
        .map(|_| Problem {
            reason: reasons::SOAK_FAILED,
            message: message.clone(),
            stalled: true,
        });
    if phase == MigrationPhase::RolledBack
        && cx.target.owner == ApiOwner::Crd
        && o.reverted.is_some()
    {
        // The user has taken note: from now on the server may be tried again.
        let key = notes::reverted(&cx.target.group);
        if let Err(error) = cx.notes.set(&key, None).await {
            tracing::warn!(group = cx.target.group, %error, "cannot remove the note");
        }
    }
    if cx.report.status().phase != phase {
        // The report tells the phase, and this one may stay for long.
        cx.journal.note(|_| ());
        if phase == MigrationPhase::DryRun {
            let note = format!("{}: {message}", cx.target.group);
            cx.event(EventType::Normal, reasons::DRY_RUN, &note);
        }
    }
    cx.report.update(|status| {
        status.phase = phase;
        status.step = None;
        status.succeed();
        status.message = message;
        status.problem = problem;
    });
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::migration::context::fixtures::context;
    use crate::testing::pair;

    #[tokio::test]
    async fn the_counter_is_left_alone_while_a_group_goes_back() {
        let (client, mut server) = pair();
        let cx = context(&client);
        let o = Observed::default();
        let back = cx.deps.hold_lock.begin_return();
        assert!(keep_up(&cx, &o).now_or_never().is_some());
        drop(back);
        tokio::select! {
            _ = keep_up(&cx, &o) => panic!("nobody was asked for etcd's revision"),
            asked = server.next() => drop(asked),
        }
    }
}
