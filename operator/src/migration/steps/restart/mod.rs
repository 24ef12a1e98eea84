//! Watches that a switch or a way back could not keep, and the workloads that are restarted for it.
//!
//! Lost watches are written to the operator's notes before clients are served again, with the time.
//! Once the group rests where it is wanted, each workload of `migration.restart` is restarted: its
//! pod template gets the annotation by which `kubectl rollout restart` does it. The value is
//! written to the notes first, so an operator that comes after a death writes the same one, which
//! changes nothing; a workload that was restarted since by somebody else is left alone. The note is
//! removed when all of it is done.

mod workload;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crds::control::GateState;
use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::ApiOwner;
use crds::v1alpha1::status::RestartResult;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::events::EventType;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use self::workload::Outcome;
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;
use crate::migration::plan::target::Workload;
use crate::migration::report::status::Restart;
use crate::migration::report::{self, journal};

/// The time for which a note is tried to be written while requests are held.
const NOTE_PATIENCE: Duration = Duration::from_secs(1);
/// The longest time for one round of restarts.
const ROUND: Duration = Duration::from_secs(30);
/// Pause before what has failed is tried again.
const PAUSE: Duration = Duration::from_secs(15);
/// The time for which it is tried. By then a person has looked after a client that has not begun
/// anew.
const EXPIRES: SignedDuration = SignedDuration::from_hours(24);

/// The side to which clients are led when watches are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// To our server: a switch.
    Server,
    /// To the CRDs: a way back.
    Crd,
}

/// Watches that could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lost {
    /// The time of the loss.
    at: Timestamp,
    /// See [`Side`].
    side: Side,
    /// The reason.
    why: String,
    /// The mark of the restarted workloads, once their restart has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restart_at: Option<Timestamp>,
}

impl Lost {
    /// Returns this loss, joined with one that was known before it.
    fn after(self, before: Option<Self>) -> Self {
        match before {
            Some(before) if before.why != self.why && before.side == self.side => Self {
                why: format!("{}; {}", before.why, self.why),
                ..self
            },
            _ => self,
        }
    }
}

/// The part of a group's notes that this process knows.
#[derive(Default)]
pub struct Restarts(Mutex<State>);

#[derive(Default)]
struct State {
    /// True when the notes of an earlier process have been read.
    loaded: bool,
    lost: Option<Lost>,
    /// True when the notes have it.
    noted: bool,
    /// The time of the next try.
    next: Option<Instant>,
}

impl Restarts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the note.
fn key(group: &str) -> String {
    format!("watches-lost.{group}")
}

/// Notes that watches could not be kept, with the reason, so that it is acted on once the group
/// rests. Call it before clients are served again: when it returns, the note is durable, unless the
/// notes cannot be written at once; then it is tried again.
pub async fn lost(cx: &Cx, side: Side, why: &str) {
    tracing::warn!(group = cx.target.group, ?side, why, "watches are lost");
    let lost = Lost {
        at: Timestamp::now(),
        side,
        why: why.to_owned(),
        restart_at: None,
    };
    put(cx, Some(lost)).await;
}

/// Takes a state over and writes it down.
async fn put(cx: &Cx, lost: Option<Lost>) {
    {
        let mut state = cx.restarts.lock();
        let before = state.lost.take();
        state.lost = lost.map(|lost| match lost.restart_at {
            None => lost.after(before),
            Some(_) => lost,
        });
        state.noted = false;
        state.next = None;
    }
    write(cx).await;
}

/// Writes down what is not written yet; returns whether everything is.
async fn write(cx: &Cx) -> bool {
    let (lost, noted) = {
        let state = cx.restarts.lock();
        (state.lost.clone(), state.noted)
    };
    if noted {
        return true;
    }
    let value = lost.as_ref().map(serde_json::to_string).transpose();
    let value = value.unwrap_or_default();
    let key = key(&cx.target.group);
    let written = cx.notes.set(&key, value.as_deref());
    let error = match tokio::time::timeout(NOTE_PATIENCE, written).await {
        Ok(Ok(())) => {
            let mut state = cx.restarts.lock();
            state.noted = state.lost == lost;
            return state.noted;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::warn!(group = cx.target.group, error, "cannot note lost watches");
    false
}

/// Reads the notes of an earlier process, once; returns whether they are known.
async fn load(cx: &Cx) -> bool {
    if cx.restarts.lock().loaded {
        return true;
    }
    let found = match cx.notes.get(&key(&cx.target.group)).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(group = cx.target.group, %error, "cannot read lost watches");
            return false;
        }
    };
    let earlier = found.and_then(|text| serde_json::from_str::<Lost>(&text).ok());
    let mut state = cx.restarts.lock();
    state.loaded = true;
    if state.lost.is_none() {
        state.noted = true;
        state.lost = earlier;
    }
    true
}

/// The decision about lost watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Clients are not where they should be yet.
    Wait,
    /// Nothing was lost after all.
    Forget,
    /// Tell, and restart.
    Act,
}

/// Returns the side where clients are, if the group rests there.
fn rests_at(o: &Observed) -> Option<Side> {
    if !o.control_available || o.resources.is_empty() || o.versions.is_empty() {
        return None;
    }
    if o.all_ours() && o.gates_are(GateState::Open) {
        return Some(Side::Server);
    }
    (!o.any_ours() && o.gates_are(GateState::Closed)).then_some(Side::Crd)
}

fn decide(lost: &Lost, rests_at: Option<Side>, owner: ApiOwner) -> Decision {
    match (lost.side, rests_at) {
        // The server still has all that clients watch: those that were cut go on there. Unless
        // the way back is tried again.
        (Side::Crd, Some(Side::Server)) if owner == ApiOwner::Server => Decision::Forget,
        (_, None) | (Side::Crd, Some(Side::Server)) => Decision::Wait,
        _ => Decision::Act,
    }
}

/// Acts on lost watches, if there are any and the group rests. A failure is told and tried again;
/// it stops nothing else.
pub async fn run(cx: &Cx, o: &Observed) {
    if !load(cx).await || !write(cx).await {
        return;
    }
    let (lost, next) = {
        let state = cx.restarts.lock();
        (state.lost.clone(), state.next)
    };
    let Some(lost) = lost else { return };
    if next.is_some_and(|next| Instant::now() < next) {
        return;
    }
    match decide(&lost, rests_at(o), cx.target.owner) {
        Decision::Wait => {}
        Decision::Forget => put(cx, None).await,
        Decision::Act if cx.target.settings.restart.is_empty() => {
            tell(cx, &lost);
            put(cx, None).await;
        }
        Decision::Act => act(cx, lost).await,
    }
}

/// Tells people to look, because no workload is named for a restart.
fn tell(cx: &Cx, lost: &Lost) {
    let note = format!(
        "{}: {}, so watches may have ended with 410. Clients then list again; restart those that \
         do not, such as Kyverno's controllers (docs/kyverno.md, \"When a 410 was met after \
         all\"), or name them in spec.migration.restart",
        cx.target.group, lost.why
    );
    cx.event(EventType::Warning, reasons::WATCHES_LOST, &note);
}

async fn act(cx: &Cx, mut lost: Lost) {
    let now = Timestamp::now();
    if lost.restart_at.is_none() {
        lost.restart_at = Some(now);
        put(cx, Some(lost.clone())).await;
        if !write(cx).await {
            return;
        }
    }
    let all = &cx.target.settings.restart;
    let mark = workload::Mark {
        at: lost.restart_at.unwrap_or(now),
        lost_at: lost.at,
    };
    let mut outcomes = BTreeMap::new();
    let round = async {
        for one in all {
            let outcome = workload::restart(&cx.wire, one, &mark).await;
            outcomes.insert(one.clone(), outcome);
        }
    };
    let whole = tokio::time::timeout(ROUND, round).await.is_ok();
    let news = note(cx, &lost, &outcomes);
    announce(cx, &lost, &outcomes, &news);
    let failed = outcomes.values().any(|o| matches!(o, Outcome::Failed(_)));
    if whole && !failed || now.duration_since(lost.at) > EXPIRES {
        // First what people look for, then the note by which it would be done again.
        journal::save(cx).await;
        put(cx, None).await;
    } else {
        cx.restarts.lock().next = Some(Instant::now() + PAUSE);
    }
}

/// Takes outcomes into the report; returns the workloads of which there is news.
fn note(cx: &Cx, lost: &Lost, outcomes: &BTreeMap<Workload, Outcome>) -> Vec<Workload> {
    let entries: Vec<Restart> = outcomes
        .iter()
        .map(|(workload, outcome)| entry(workload, outcome, lost))
        .collect();
    let same = |before: &Restart, now: &Restart| {
        (&before.workload, before.result, &before.message)
            == (&now.workload, now.result, &now.message)
            && (now.result != RestartResult::Restarted || before.at == now.at)
    };
    let known = cx.journal.read(|report| report.restarts.clone());
    let news: Vec<Restart> = entries
        .into_iter()
        .filter(|now| !known.iter().any(|before| same(before, now)))
        .collect();
    if !news.is_empty() {
        cx.journal.note(|report| {
            for one in &news {
                report.restart(one.clone());
            }
        });
        let restarts = cx.journal.read(|report| report.restarts.clone());
        cx.report.update(|status| status.restarts = restarts);
    }
    news.into_iter().map(|one| one.workload).collect()
}

fn entry(workload: &Workload, outcome: &Outcome, lost: &Lost) -> Restart {
    let (result, message) = match outcome {
        Outcome::Restarted | Outcome::Before(_) => (RestartResult::Restarted, lost.why.clone()),
        Outcome::NotFound => (
            RestartResult::NotFound,
            format!("there is no such workload; {}", lost.why),
        ),
        Outcome::Failed(error) => (RestartResult::Failed, format!("{error}; {}", lost.why)),
    };
    let at = match outcome {
        Outcome::Before(at) => *at,
        _ => lost.restart_at.unwrap_or(lost.at),
    };
    Restart {
        workload: workload.clone(),
        result,
        at,
        message: report::start(&message),
    }
}

/// Publishes events about the news.
fn announce(cx: &Cx, lost: &Lost, outcomes: &BTreeMap<Workload, Outcome>, news: &[Workload]) {
    let group = &cx.target.group;
    let mut restarted = Vec::new();
    for (workload, outcome) in outcomes.iter().filter(|(one, _)| news.contains(one)) {
        let why = match outcome {
            Outcome::Restarted | Outcome::Before(_) => {
                restarted.push(workload.to_string());
                continue;
            }
            Outcome::NotFound => "there is no such workload; correct spec.migration.restart".into(),
            Outcome::Failed(error) => format!("{error}; the operator tries again"),
        };
        let note = format!(
            "{group}: {workload} is not restarted although {}: {why}",
            lost.why
        );
        cx.event(EventType::Warning, reasons::RESTART_FAILED, &note);
    }
    if !restarted.is_empty() {
        let note = format!("{group}: restarted {}: {}", restarted.join(", "), lost.why);
        cx.event(EventType::Normal, reasons::RESTARTED, &note);
    }
}

#[cfg(test)]
mod tests;
