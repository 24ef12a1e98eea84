//! The execution of one decision.

pub mod back;
mod catch_up;
mod confirm;
pub mod diff;
pub mod drain;
pub mod feed;
pub mod import;
pub mod mirror;
pub mod orphans;
pub mod predecessor;
pub mod prune;
pub mod recover;
pub mod restart;
pub mod sample;
mod sender;
pub mod settle;
pub mod soak;
pub mod switch;
pub mod verify;
pub mod writeback;

use std::collections::BTreeMap;

use crds::control::GateState;
use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::OnFailure;
use futures::FutureExt;
use jiff::Timestamp;
use kube::runtime::events::EventType;

use self::back::BackError;
use self::feed::FeedError;
use self::import::ImportError;
use self::prune::PruneError;
use self::recover::RecoverError;
use self::settle::SettleError;
use self::soak::Breach;
use self::switch::SwitchError;
use self::verify::VerifyError;
use crate::apiservice::SWITCHED_AT;
use crate::migration::cluster::endpoints::{self, EndpointsError};
use crate::migration::cluster::wire::WireError;
use crate::migration::cluster::{door, operations, revisions};
use crate::migration::context::Cx;
use crate::migration::observe::notes;
use crate::migration::observe::state::Observed;
use crate::migration::plan::action::{Action, SwitchFrom};
use crate::migration::plan::due;
use crate::migration::plan::step::StepName;

use crate::migration::report::status::Problem;
use crate::migration::task::live::{Live, LiveError};
use crate::said::{is_forbidden, said};

/// The distance above etcd's revision from which our versions go on when the APIServices are taken
/// back: clients continue with those of etcd until the kube-apiservers have noticed.
const RETAKE_MARGIN: u64 = 10_000;

/// The reason why a step did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// A single request failed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// The operator's notes cannot be read or written.
    #[error("the operator's notes cannot be written: {}", said(.0))]
    Notes(#[source] Box<kube::Error>),
    /// The copy failed.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The comparison failed.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The switch failed.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The search for stragglers failed.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// The import from a predecessor's database failed.
    #[error(
        "reports that only the database of the other server has are not imported yet: {0} (the group \
         is served without them, and the operator tries again)"
    )]
    Import(#[from] ImportError),
    /// The soak found the group unwell.
    #[error(
        "the API is unhealthy: {0}; it stays with the server (onFailure: Hold). Set owner: CRD to give it back"
    )]
    Soak(#[from] Breach),
    /// The prune failed.
    #[error(transparent)]
    Prune(#[from] PruneError),
    /// The way back failed.
    #[error(transparent)]
    Back(#[from] BackError),
}

impl ActError {
    /// Returns whether it results from a server that was away on the way back: watches were cut.
    #[must_use]
    pub fn is_of_the_server(&self) -> bool {
        match self {
            Self::Back(BackError::Feed(_) | BackError::Cut) => true,
            Self::Back(BackError::Wire(e)) => e.is_transient(),
            _ => false,
        }
    }

    /// Returns whether clients' watches on the server were cut in the course of a way back.
    #[must_use]
    pub fn cuts_watches(&self) -> bool {
        matches!(
            self,
            Self::Back(BackError::Cut | BackError::Feed(FeedError::Lost { .. }))
        )
    }

    /// Returns the request that failed, where it was one.
    fn wire(&self) -> Option<&WireError> {
        match self {
            Self::Wire(e)
            | Self::Endpoints(EndpointsError::Wire(e))
            | Self::Verify(VerifyError::Wire(e))
            | Self::Switch(SwitchError::Wire(e) | SwitchError::Recover(RecoverError::Wire(e)))
            | Self::Settle(SettleError::Wire(e))
            | Self::Prune(PruneError::Wire(e))
            | Self::Back(BackError::Wire(e)) => Some(e),
            Self::Switch(
                SwitchError::Origin(e) | SwitchError::Recover(RecoverError::Origin(e)),
            )
            | Self::Settle(SettleError::Origin(e))
            | Self::Prune(PruneError::Origin(e))
            | Self::Back(BackError::Origin(e)) => e.wire(),
            _ => None,
        }
    }

    /// Returns whether it may result from a side door that somebody has closed.
    #[must_use]
    pub fn is_of_the_door(&self) -> bool {
        if matches!(self, Self::Back(BackError::CrdChanged { .. })) {
            return true;
        }
        let path = format!("/{}/", door::objects::VERSION);
        self.wire()
            .is_some_and(|e| e.code() == Some(404) && e.path().contains(&path))
    }

    /// Returns whether the operator lacks a right.
    fn is_forbidden(&self) -> bool {
        match self {
            Self::Notes(error) => is_forbidden(error),
            _ => self.wire().is_some_and(|e| e.code() == Some(403)),
        }
    }

    /// Returns the problem for the status.
    #[must_use]
    pub fn problem(&self) -> Problem {
        if self.is_forbidden() {
            return Problem::forbidden(self);
        }
        let (reason, stalled) = match self {
            Self::Verify(VerifyError::Differs { .. }) => (reasons::VERIFICATION_FAILED, true),
            Self::Live(_) | Self::Verify(_) => (reasons::COPYING, false),
            Self::Settle(_) | Self::Switch(_) => (reasons::SWITCHING, false),
            Self::Import(error) => error.reason(),
            Self::Soak(_) => (reasons::SOAK_FAILED, true),
            Self::Prune(_) => (reasons::PRUNING, false),
            Self::Back(BackError::Refused { .. }) => (reasons::ROLLING_BACK, true),
            Self::Back(_) => (reasons::ROLLING_BACK, false),
            Self::Wire(_) | Self::Endpoints(_) | Self::Notes(_) => (reasons::PROGRESSING, false),
        };
        Problem {
            reason,
            message: self.to_string(),
            stalled,
        }
    }
}

/// Carries `action` out.
///
/// # Errors
/// See [`ActError`]. Every action may be carried out again.
pub async fn act(cx: &Cx, o: &Observed, live: &mut Live, action: Action) -> Result<(), ActError> {
    let step = action.step();
    if takes_fence(action, !live.running.is_empty()) {
        operations::take_fences(cx, o).await?;
    }
    let gates = |state| operations::set_gates(cx, &o.resources, state, None);
    // Boxed, so that the task is not as large as its largest step.
    match action {
        Action::CloseGates => gates(GateState::Closed).boxed().await?,
        Action::Register => cx.step(step, register(cx, o)).boxed().await?,
        Action::Mirror => {
            if live.running.is_empty() {
                // The decision to copy is what the preflight comes to.
                operations::take_fences(cx, o).await?;
                cx.step(StepName::Preflight, async { Ok::<_, ActError>(()) })
                    .await?;
            }
            cx.step(step, live.mirror(cx, o)).boxed().await?;
        }
        Action::Verify => cx.step(step, live.verify(cx)).boxed().await?,
        Action::Switch(from) => switch::run(cx, o, live, from).boxed().await?,
        Action::Reopen => {
            // What a predecessor had was there before the first gate was opened.
            let prepared = o.notes.can_return;
            let were_open = o.resources.iter().filter(|r| prepared || r.is_to_reopen());
            let opened = operations::set_gates(cx, were_open, GateState::Open, None);
            cx.step(step, opened).boxed().await?;
        }
        Action::Retake => cx.step(step, retake(cx, o)).boxed().await?,
        Action::Settle if predecessor::switch::is_followed(o, live) => {
            cx.step(step, predecessor::switch::settle(cx, o, live))
                .boxed()
                .await?;
        }
        Action::Settle if o.next_look.is_some() => {
            settle::again(cx, o, &mut live.reported).boxed().await?;
        }
        Action::Settle => {
            let settled = settle::run(cx, o, &mut live.reported);
            cx.step(step, settled).boxed().await?;
        }
        Action::ImportDatabase => {
            if let Some(database) = &cx.target.database {
                let imported = import::run(cx, o, database);
                cx.step(step, imported).boxed().await?;
            }
        }
        Action::CloseDoor => cx.step(step, door::close(cx, o)).boxed().await?,
        Action::Refresh => cx.step(step, refresh(cx, o)).boxed().await?,
        Action::Soak => soak(cx, o).boxed().await?,
        Action::Prune => prune(cx, o).boxed().await?,
        Action::Undo => cx.step(step, switch::undo_unopened(cx, o)).boxed().await?,
        Action::Back => match back::run(cx, o).boxed().await {
            // The next look is at once: each moment both sides take writes.
            Err(error @ BackError::TakenAway) => begin_anew(cx, &error),
            done => done?,
        },
        Action::Release => {
            let endpoints = endpoints::discover(&cx.deps).await?;
            back::release(cx, o, &endpoints).boxed().await?;
        }
    }
    Ok(())
}

/// Returns whether an action takes a fencing token before it begins: it moves gates or imports, and
/// an operator that did so before has to be refused. Mirrors have taken one when they began. While
/// they are `mirroring`, the switch that follows has it as well, and while late writes to a
/// predecessor are taken over, the look for them and the return of an APIService: with a new one,
/// imports that are on their way would be refused, and what they carry fetched anew while requests
/// are held, or lost.
fn takes_fence(action: Action, mirroring: bool) -> bool {
    match action {
        Action::Switch(SwitchFrom::Hold) | Action::Settle | Action::Retake => !mirroring,
        Action::Mirror | Action::Verify | Action::Soak | Action::Refresh | Action::CloseDoor => {
            false
        }
        _ => true,
    }
}

/// Returns whether an action may be given up half-way because something else is wanted by now.
#[must_use]
pub fn is_interruptible(action: Action) -> bool {
    matches!(
        action,
        Action::Mirror | Action::Verify | Action::ImportDatabase | Action::Soak | Action::Prune
    )
}

/// Notes that somebody has got ahead of a way back, which begins anew.
fn begin_anew(cx: &Cx, error: &BackError) {
    tracing::warn!(group = cx.target.group, %error, "the way back starts over");
    cx.journal
        .retry(cx.report.status().step, &error.to_string());
    let note = format!("{}: {error}", cx.target.group);
    cx.event(EventType::Warning, reasons::ROLLING_BACK, &note);
}

/// Registers a group without CRDs, where nothing has to be copied. The floor keeps clear of
/// versions that clients may hold from CRDs which once were there.
async fn register(cx: &Cx, o: &Observed) -> Result<(), ActError> {
    if o.resources.iter().all(|r| !r.stored.status.opened) {
        // A server that was never asked has nothing of what an earlier one has imported.
        let key = notes::import(&cx.target.group);
        let forgotten = cx.notes.set(&key, None).await;
        forgotten.map_err(|e| ActError::Notes(Box::new(e)))?;
    }
    let endpoints = endpoints::discover(&cx.deps).await?;
    let mut revision = revisions::newest(&endpoints).await?;
    if o.any_ours() && o.resources.iter().all(|r| r.gate() != GateState::Open) {
        // The database that served it is lost.
        revision += recover::LOST_MARGIN;
    }
    if !o.any_ours() {
        // Copied from a CRD that was deleted since, and its reports with it.
        for resource in o.resources.iter().filter(|r| r.is_copy()) {
            mirror::reset(&cx.control, resource.name(), None).await?;
        }
    }
    for resource in &o.resources {
        cx.control
            .raise_floor(resource.name(), revision, switch::PATIENCE)
            .await?;
    }
    operations::set_gates(cx, &o.resources, GateState::Open, Some(true)).await?;
    let now = Timestamp::now().to_string();
    operations::register(cx, o, &BTreeMap::from([(SWITCHED_AT.to_owned(), now)])).await?;
    Ok(())
}

/// Puts the server in charge again. Clients may have been at the CRDs, and hold versions of etcd:
/// ours go on above them.
async fn retake(cx: &Cx, o: &Observed) -> Result<(), ActError> {
    let revision = revisions::known_to(&cx.wire).await?;
    if let Some(resource) = o.resources.first() {
        let floor = revision + RETAKE_MARGIN;
        cx.control
            .raise_floor(resource.name(), floor, switch::PATIENCE)
            .await?;
    }
    operations::set_gates(cx, &o.resources, GateState::Open, Some(false)).await?;
    let now = Timestamp::now().to_string();
    operations::take_over(cx, o, &BTreeMap::from([(SWITCHED_AT.to_owned(), now)])).await?;
    Ok(())
}

/// Brings the APIServices up to date, and corrects the time of the switch where the clock was set
/// back since.
async fn refresh(cx: &Cx, o: &Observed) -> Result<(), WireError> {
    operations::mend(cx, o).await?;
    if o.is_dated_ahead() {
        let now = o.now.to_string();
        tracing::warn!(
            group = cx.target.group,
            now,
            "the clock was set back: the switch counts from now"
        );
        operations::annotate(cx, o, &BTreeMap::from([(SWITCHED_AT.to_owned(), now)])).await?;
    }
    Ok(())
}

async fn soak(cx: &Cx, o: &Observed) -> Result<(), ActError> {
    let since = o.notes.switched_at.unwrap_or(o.now);
    let until = due::soaked(since, &cx.target.settings);
    let Err(breach) = cx.step(StepName::Soak, soak::run(cx, o, until)).await else {
        return Ok(());
    };
    if cx.target.settings.on_failure == OnFailure::Hold {
        return Err(breach.into());
    }
    let why = breach.to_string();
    let note = format!("{}: given back to the CRDs: {why}", cx.target.group);
    cx.journal
        .note(|report| report.given_back = Some(why.clone()));
    cx.event(EventType::Warning, reasons::SOAK_FAILED, &note);
    let key = notes::reverted(&cx.target.group);
    cx.notes
        .set(&key, Some(&why))
        .await
        .map_err(|e| ActError::Notes(Box::new(e)))
}

async fn prune(cx: &Cx, o: &Observed) -> Result<(), ActError> {
    let pruned = cx
        .step(StepName::Prune, Box::pin(prune::run(cx, o)))
        .await?;
    let mut note = format!(
        "{}: {} objects ({} bytes as JSON) deleted from etcd",
        cx.target.group, pruned.objects, pruned.bytes
    );
    if pruned.left > 0 {
        let names = pruned.left_names.join(", ");
        note = format!("{note}; {} left there: {names}", pruned.left);
    }
    let type_ = if pruned.left > 0 {
        EventType::Warning
    } else {
        EventType::Normal
    };
    cx.event(type_, reasons::PRUNED, &note);
    prune::mark(cx, o).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Expired;

    #[test]
    fn a_switch_goes_on_with_the_token_that_its_mirrors_import_with() {
        let hold = Action::Switch(SwitchFrom::Hold);
        assert!(!takes_fence(hold, true));
        assert!(takes_fence(hold, false));
        assert!(takes_fence(Action::Switch(SwitchFrom::Confirm), true));
        for action in [Action::Settle, Action::Retake] {
            assert!(!takes_fence(action, true));
            assert!(takes_fence(action, false));
        }
        assert!(takes_fence(Action::Back, false));
    }

    #[test]
    fn an_attempt_that_ends_with_the_term_stalls_nothing() {
        let expired = || WireError::Expired {
            path: "/apis/g.io/legacy/reports".to_owned(),
            source: Expired,
        };
        assert!(!expired().is_transient(), "it is not tried again");
        let errors = [
            ActError::from(BackError::from(expired())),
            ActError::from(PruneError::from(expired())),
            ActError::from(ImportError::from(expired())),
            ActError::from(expired()),
        ];
        for error in errors {
            let problem = error.problem();
            assert!(!problem.stalled, "{problem:?}");
            let said = problem
                .message
                .contains("has not renewed its Lease in time");
            assert!(said, "{}", problem.message);
            assert!(!error.is_of_the_server() && !error.is_of_the_door());
        }
    }

    #[test]
    fn objects_that_cannot_be_written_back_stall_the_group_and_are_named() {
        let refused = "n/a: admission webhook \"a.example.com\" denied the request";
        let error = ActError::from(BackError::Refused {
            count: 3,
            named: vec![refused.to_owned()],
        });
        let problem = error.problem();
        assert_eq!(
            (problem.reason, problem.stalled),
            (reasons::ROLLING_BACK, true)
        );
        for words in ["3 objects cannot be written back to etcd", refused] {
            assert!(problem.message.contains(words), "{}", problem.message);
        }
    }
}
