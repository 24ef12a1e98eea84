//! The context of every step, and the frame that each step runs in.

pub mod deps;
pub mod fault;
#[cfg(test)]
pub mod fixtures;
pub mod hold_lock;

use std::sync::Arc;
use std::time::Duration;

use crds::v1alpha1::status::MigrationPhase;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use tokio::time::Instant;

use self::deps::Deps;
use self::fault::{Faults, Side};
use self::hold_lock::HoldTurn;
use crate::events::Publisher;
use crate::migration::cluster::control::Control;
use crate::migration::cluster::pages::Pacer;
use crate::migration::cluster::wire::Wire;
use crate::migration::observe::notes::NoteBook;

use crate::migration::plan::step::StepName;
use crate::migration::plan::target::{GroupTarget, Owner};
use crate::migration::report::journal::Journal;
use crate::migration::report::publisher::StatusPublisher;
use crate::migration::steps::restart::Restarts;
use crate::spans;

/// The context of one group's task.
pub struct Cx {
    /// See [`Deps`].
    pub deps: Deps,
    /// The `ReportsServer` on whose behalf the group is moved.
    pub owner: Owner,
    /// The wanted state.
    pub target: GroupTarget,
    /// The publisher of the state.
    pub report: StatusPublisher,
    /// A client that does not try again by itself.
    pub client: kube::Client,
    /// Requests through that client.
    pub wire: Wire,
    /// The control API.
    pub control: Control,
    /// Notes that outlive the process.
    pub notes: NoteBook,
    /// Pace of lists, imports and deletions.
    pub pacer: Arc<Pacer>,
    /// The migration report.
    pub journal: Journal,
    /// Lost watches, and the restarts that they lead to.
    pub restarts: Restarts,
    faults: Faults,
    publisher: Publisher,
}

impl Cx {
    /// Returns a context for `target`.
    /// `client` must not try again by itself.
    #[must_use]
    pub fn new(
        deps: Deps,
        client: kube::Client,
        owner: Owner,
        target: GroupTarget,
        report: StatusPublisher,
    ) -> Self {
        let wire = Wire::new(client.clone());
        Self {
            control: Control::new(wire.clone()),
            notes: NoteBook::new(client.clone(), &deps.namespace),
            pacer: pacer(&deps, &target),
            journal: Journal::default(),
            restarts: Restarts::default(),
            faults: Faults::from_environment(),
            publisher: Publisher::new(deps.client.clone(), deps.reporter.clone()),
            deps,
            owner,
            target,
            report,
            client,
            wire,
        }
    }

    /// Takes over a new target.
    pub fn set_target(&mut self, target: GroupTarget) {
        if target.settings.max_requests_per_second != self.target.settings.max_requests_per_second {
            self.pacer = pacer(&self.deps, &target);
        }
        self.target = target;
    }

    /// Runs a step: status, events, metrics, log and fault points around it.
    ///
    /// # Errors
    /// Those of the step.
    pub async fn step<T, E: std::fmt::Display>(
        &self,
        step: StepName,
        run: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let group = self.target.group.as_str();
        self.show(step, step.phase());
        self.faults.at(Side::Before, step, &self.notes).await;
        tracing::info!(group, %step, "step started");
        self.deps.metrics.step_started(group, step);
        self.journal
            .note(|report| report.begin(step, Timestamp::now()));
        self.event(
            EventType::Normal,
            &format!("{step}Started"),
            &format!("{group}: {}", step.describe()),
        );
        let begun = Instant::now();
        let result = spans::step(group, step, Box::pin(run)).await;
        let took = begun.elapsed();
        match &result {
            Ok(_) => {
                self.journal.end(step, took);
                self.faults.at(Side::After, step, &self.notes).await;
                tracing::info!(group, %step, ?took, "step finished");
                self.deps.metrics.step_finished(group, step, took);
                let note = format!("{group}: {step} finished in {} ms", took.as_millis());
                self.event(EventType::Normal, &format!("{step}Finished"), &note);
            }
            Err(error) => {
                tracing::warn!(group, %step, ?took, %error, "step failed");
                self.deps.metrics.step_failed(group, step);
                self.journal
                    .note(|report| report.fail(step, Timestamp::now()));
                let note = format!("{group}: {error}");
                self.event(EventType::Warning, &format!("{step}Failed"), &note);
            }
        }
        result
    }

    /// Waits until no other group holds requests. Until the returned turn is dropped, other groups
    /// neither hold requests nor list and copy.
    pub async fn hold_turn(&self) -> HoldTurn {
        self.deps.hold_lock.begin(&self.target.group).await
    }

    /// Passes the fault point within a step.
    pub async fn within(&self, step: StepName) {
        self.faults.at(Side::Within, step, &self.notes).await;
    }

    /// Publishes the step that runs.
    pub fn show(&self, step: StepName, phase: MigrationPhase) {
        self.report.update(|status| status.begin(step, phase));
    }

    /// Publishes an event in the background: a step never waits for one.
    pub fn event(&self, type_: EventType, reason: &str, note: &str) {
        let publisher = self.publisher.clone();
        let reason = reason.to_owned();
        let reference = self.owner.reference();
        let note: String = note.chars().take(MAX_NOTE).collect();
        // What happens to one group is not a series with what happens to another.
        let group = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("APIGroup".to_owned()),
            name: Some(self.target.group.clone()),
            ..ObjectReference::default()
        };
        tokio::spawn(async move {
            let event = Event {
                type_,
                reason,
                note: Some(note),
                action: ACTION.to_owned(),
                secondary: Some(group),
            };
            let told = publisher.publish(&event, &reference);
            match tokio::time::timeout(EVENT_TIMEOUT, told).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, reason = event.reason, "event not published");
                }
                Err(_) => tracing::warn!(reason = event.reason, "event not published in time"),
            }
        });
    }
}

fn pacer(deps: &Deps, target: &GroupTarget) -> Arc<Pacer> {
    let per_second = target.settings.max_requests_per_second;
    Arc::new(Pacer::new(
        &target.group,
        deps.hold_lock.clone(),
        per_second,
    ))
}

/// Longest note; the Events API takes 1 kB.
const MAX_NOTE: usize = 1000;
/// `action` of every event.
const ACTION: &str = "Migrate";
/// The time for which an event is tried.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
