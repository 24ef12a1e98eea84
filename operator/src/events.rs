//! Events about a `ReportsServer`: each tells a change once, in the words of the conditions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crds::v1alpha1::conditions::{
    ADMISSION_BYPASSED, CERTIFICATES_READY, DATABASE_MOVED, DATABASE_READY, DATABASE_UPGRADED,
    LAST_BACKUP_SUCCEEDED, READY, STALLED,
};
use crds::v1alpha1::reasons;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tracing::warn;

use crate::certs::given::Move;
use crate::certs::{DatabaseLeaf, Outcome, Rotation};
use crate::database::metrics::PROBLEMS;

/// Most characters in a note (`events.k8s.io/v1`).
const MAX_NOTE: usize = 1024;
/// Series that are remembered at once.
const MAX_SERIES: usize = 512;
/// Action of an event that follows from a reconciliation.
const RECONCILE: &str = "Reconcile";

/// Returns the events for the difference between two states of the conditions: those that users
/// should hear of, when their status or reason changes.
#[must_use]
pub fn transitions(before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let find = |of: &[Condition], type_: &str| of.iter().find(|c| c.type_ == type_).cloned();
    let changed = |type_: &str| {
        let now = find(after, type_)?;
        let then = find(before, type_);
        let same =
            then.is_some_and(|then| (&then.status, &then.reason) == (&now.status, &now.reason));
        (!same).then_some(now)
    };
    let bypassed = changed(ADMISSION_BYPASSED).filter(|now| now.status == "True");
    let bypassed = bypassed.map(|now| step(&now, "ReadAdmission", &[reasons::ADMISSION_BYPASSED]));
    // A stall is told once; Ready says the same.
    if let Some(stalled) = changed(STALLED) {
        let stalled = event(EventType::Warning, &stalled.reason, &stalled.message);
        return bypassed.into_iter().chain([stalled]).collect();
    }
    let ready = changed(READY).filter(|ready| ready.status != "Unknown");
    let ready = ready.filter(|_| find(after, STALLED).is_none());
    // A database that cannot be used keeps Ready from being true, with the same words.
    let database = changed(DATABASE_READY).filter(|database| database.status != "Unknown");
    let used = find(before, DATABASE_READY);
    let database = database.and_then(|now| self::database(used.as_ref(), &now));
    let ready = ready.map(|ready| event(EventType::Normal, &ready.reason, &ready.message));
    let certificate = changed(CERTIFICATES_READY).and_then(|now| certificate(&now));
    let moved = changed(DATABASE_MOVED).map(|now| moved(&now));
    let upgraded = changed(DATABASE_UPGRADED).map(|now| upgraded(&now));
    let backup = changed(LAST_BACKUP_SUCCEEDED).and_then(|now| backup(&now));
    let told = database.into_iter().chain(moved).chain(upgraded);
    let told = told.chain(certificate).chain(ready);
    told.chain(backup).chain(bypassed).collect()
}

/// Reasons of a database that has not started yet, and of one that has gone.
const STARTING: [&str; 2] = [reasons::DATABASE_UNAVAILABLE, reasons::CLUSTER_NOT_READY];

/// Returns the event of a database that can no longer be used, or can be again. One that is starting is
/// waited for, and the conditions say so.
fn database(before: Option<&Condition>, now: &Condition) -> Option<Event> {
    let own = [reasons::VOLUME_CANNOT_GROW, reasons::RESTORE_FAILED];
    let is_problem = |reason: &str| PROBLEMS.contains(&reason) || own.contains(&reason);
    let (type_, action) = if now.status == "True" {
        (EventType::Normal, "UseDatabase")
    } else {
        (EventType::Warning, "ExamineDatabase")
    };
    let was_used = before.is_some_and(|before| before.status == "True");
    let starts = now.status == "False" && STARTING.contains(&now.reason.as_str()) && !was_used;
    let told = is_problem(&now.reason) || before.is_some_and(|before| is_problem(&before.reason));
    (told && !starts).then(|| Event {
        action: action.to_owned(),
        ..event(type_, &now.reason, &now.message)
    })
}

/// Returns the event of a certificate that the operator cannot replace itself and that needs
/// somebody's attention.
fn certificate(now: &Condition) -> Option<Event> {
    let trouble = [
        reasons::CERTIFICATE_EXPIRING,
        reasons::CERTIFICATE_NOT_READY,
    ];
    // One that has never been issued is waited for.
    let told = now.status == "True" && trouble.contains(&now.reason.as_str());
    told.then(|| step(now, "WatchCertificate", &trouble))
}

/// Returns the event of a move that has begun, waits, or is done.
fn moved(now: &Condition) -> Event {
    let trouble = [reasons::MOVE_REFUSED, reasons::MOVE_WAITING];
    step(now, "MoveDatabase", &trouble)
}

/// Returns the event of a step of a major upgrade of the database.
fn upgraded(now: &Condition) -> Event {
    step(now, "UpgradeDatabase", &[reasons::UPGRADE_FAILED])
}

fn step(now: &Condition, action: &str, trouble: &[&str]) -> Event {
    let type_ = if trouble.contains(&now.reason.as_str()) {
        EventType::Warning
    } else {
        EventType::Normal
    };
    Event {
        action: action.to_owned(),
        ..event(type_, &now.reason, &now.message)
    }
}

/// Returns the event of a backup that ended.
fn backup(now: &Condition) -> Option<Event> {
    let type_ = match now.status.as_str() {
        "True" => EventType::Normal,
        "False" => EventType::Warning,
        _ => return None,
    };
    Some(Event {
        action: "Backup".to_owned(),
        ..event(type_, &now.reason, &now.message)
    })
}

/// Returns the events for the moves of the certificates. Each kind has an action of its own: a
/// recorder takes two events with the same reason and action for one that happened twice.
#[must_use]
pub fn certificates(outcome: &Outcome) -> Vec<Event> {
    let mut events = issued(&outcome.moves);
    events.extend(outcome.given.iter().map(|step| given(*step)));
    events
}

/// Returns the event of a move of a certificate that somebody else issued.
fn given(step: Move) -> Event {
    let (action, note) = match step {
        Move::Trust => (
            "TrustCertificateAuthority",
            "the authorities of the certificate that spec.tls names are trusted, too",
        ),
        Move::Use => (
            "UseServingCertificate",
            "the server was given the certificate that spec.tls names",
        ),
        Move::Retire => (
            "RetireCertificateAuthority",
            "the authorities of the previous certificate are no longer trusted",
        ),
    };
    Event {
        action: action.to_owned(),
        ..event(EventType::Normal, reasons::ROTATING, note)
    }
}

/// Returns the events of what the operator issued itself.
fn issued(moves: &[Rotation]) -> Vec<Event> {
    let told = |rotation: &Rotation| match rotation {
        Rotation::IssueCa(why) => Some((
            "IssueCertificateAuthority",
            format!("issued a certificate authority: {}", why.as_str()),
        )),
        Rotation::IssueLeaf(why) => Some((
            "IssueServingCertificate",
            format!("issued a serving certificate: {}", why.as_str()),
        )),
        Rotation::IssueDatabase(DatabaseLeaf::Server, why) => Some((
            "IssueDatabaseCertificate",
            format!("issued a certificate for the database: {}", why.as_str()),
        )),
        Rotation::IssueDatabase(DatabaseLeaf::Client, why) => Some((
            "IssueDatabaseClientCertificate",
            format!(
                "issued a client certificate for connections to the database: {}",
                why.as_str()
            ),
        )),
        Rotation::DropPrevious => Some((
            "RetireCertificateAuthority",
            "the previous certificate authority is no longer trusted".to_owned(),
        )),
        Rotation::Wait(_) => None,
    };
    let issue = |(action, note): (&str, String)| Event {
        action: action.to_owned(),
        ..event(EventType::Normal, reasons::CERTIFICATES_ISSUED, &note)
    };
    moves.iter().filter_map(told).map(issue).collect()
}

/// Returns an event of a reconciliation.
#[must_use]
pub fn event(type_: EventType, reason: &str, note: &str) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note.chars().take(MAX_NOTE).collect()),
        action: RECONCILE.to_owned(),
        secondary: None,
    }
}

/// A publisher of events. A recorder of kube makes a series of events that differ in nothing but
/// the note, and keeps the words of the first. So only events with the same words go to the same
/// recorder.
#[derive(Clone)]
pub struct Publisher {
    client: Client,
    reporter: Reporter,
    said: Arc<Mutex<HashMap<Series, Said>>>,
}

/// The key of a series: uid of the object, action, reason, and name of the second object.
type Series = (Option<String>, String, String, Option<String>);
/// The note of the newest event of a series, and the recorder that published it.
type Said = (Option<String>, Recorder);

impl Publisher {
    /// Returns a publisher in the name of `reporter`.
    #[must_use]
    pub fn new(client: Client, reporter: Reporter) -> Self {
        Self {
            client,
            reporter,
            said: Arc::default(),
        }
    }

    /// Publishes one event about an object.
    ///
    /// # Errors
    /// If the kube-apiserver refuses it.
    pub async fn publish(&self, event: &Event, about: &ObjectReference) -> kube::Result<()> {
        self.recorder(event, about).publish(event, about).await
    }

    /// Returns the recorder that published the same words the last time, or a new one.
    fn recorder(&self, event: &Event, about: &ObjectReference) -> Recorder {
        let secondary = event.secondary.as_ref();
        let series = (
            about.uid.clone(),
            event.action.clone(),
            event.reason.clone(),
            secondary.and_then(|secondary| secondary.name.clone()),
        );
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((note, recorder)) = said.get(&series)
            && *note == event.note
        {
            return recorder.clone();
        }
        if said.len() >= MAX_SERIES {
            // What is forgotten begins a new series, and nothing else.
            said.clear();
        }
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        said.insert(series, (event.note.clone(), recorder.clone()));
        recorder
    }
}

/// Publishes events. An event that cannot be written is only logged: its words are in the
/// conditions too.
pub async fn publish(publisher: &Publisher, about: &ObjectReference, events: Vec<Event>) {
    for event in events {
        if let Err(error) = publisher.publish(&event, about).await {
            warn!(%error, reason = event.reason, "an event could not be published");
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_series_is_only_what_says_the_same() {
        let (client, mut server) = testing::pair();
        let publisher = Publisher::new(client, Reporter::from("operator"));
        let about = ObjectReference {
            uid: Some("u".to_owned()),
            name: Some("prod".to_owned()),
            ..ObjectReference::default()
        };
        let told = tokio::spawn(async move {
            for note in ["a: Mirroring", "a: Mirroring", "b: Preflight"] {
                let event = event(EventType::Normal, "Progressing", note);
                publisher.publish(&event, &about).await.unwrap();
            }
        });
        let mut seen = Vec::new();
        for _ in 0..3 {
            let request = server.next().await;
            let note = request.body["note"].as_str().unwrap_or_default().to_owned();
            seen.push((request.method.clone(), note));
            let body = request.body.clone();
            request.answer(200, &body);
        }
        told.await.unwrap();
        let expected = [
            ("POST", "a: Mirroring"),
            ("PATCH", "a: Mirroring"),
            ("POST", "b: Preflight"),
        ];
        assert_eq!(seen, expected.map(|(m, n)| (m.to_owned(), n.to_owned())));
    }

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: "m".into(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }

    /// The event about a database that goes from one state to another: `None` is its beginning.
    #[rstest]
    #[case::starts(None, ("False", "DatabaseUnavailable"), None)]
    #[case::is_created(Some(("Unknown", "Unknown")), ("False", "ClusterNotReady"), None)]
    #[case::starts_still(Some(("False", "VolumePending")), ("False", "DatabaseUnavailable"), None)]
    #[case::has_started(Some(("False", "DatabaseUnavailable")), ("True", "DatabaseAvailable"),
        Some(EventType::Normal))]
    #[case::goes(Some(("True", "DatabaseAvailable")), ("False", "DatabaseUnavailable"),
        Some(EventType::Warning))]
    #[case::cluster_goes(Some(("True", "DatabaseAvailable")), ("False", "ClusterNotReady"),
        Some(EventType::Warning))]
    #[case::never_worked(None, ("False", "WrongPassword"), Some(EventType::Warning))]
    #[case::is_not_there(None, ("False", "ClusterMissing"), Some(EventType::Warning))]
    #[case::cannot_grow(Some(("True", "DatabaseAvailable")), ("True", "VolumeCannotGrow"),
        Some(EventType::Normal))]
    fn a_database_that_starts_is_no_warning(
        #[case] before: Option<(&str, &str)>,
        #[case] after: (&str, &str),
        #[case] expected: Option<EventType>,
    ) {
        let of = |(status, reason)| condition(DATABASE_READY, status, reason);
        let before: Vec<Condition> = before.map(of).into_iter().collect();
        let events = transitions(&before, &[of(after)]);
        let types: Vec<EventType> = events.iter().map(|event| event.type_).collect();
        assert_eq!(types, Vec::from_iter(expected));
    }

    #[test]
    fn a_backup_that_fails_is_told_once() {
        let before = [condition(LAST_BACKUP_SUCCEEDED, "True", "BackupSucceeded")];
        let after = [condition(LAST_BACKUP_SUCCEEDED, "False", "BackupFailed")];
        let events = transitions(&before, &after);
        assert_eq!((events.len(), events[0].type_), (1, EventType::Warning));
        assert!(transitions(&after, &after).is_empty());
    }

    #[test]
    fn what_has_no_effect_is_told_when_it_first_appears_also_with_a_stall() {
        let bypassed = condition(ADMISSION_BYPASSED, "True", "AdmissionBypassed");
        let serving = condition(READY, "True", "Serving");
        let before = [serving.clone()];
        let after = [serving, bypassed.clone()];
        let events = transitions(&before, &after);
        assert_eq!((events.len(), events[0].type_), (1, EventType::Warning));
        assert_eq!(events[0].reason, "AdmissionBypassed");
        assert!(transitions(&after, &after).is_empty());
        assert!(transitions(&after, &before).is_empty());
        let unknown = [condition(ADMISSION_BYPASSED, "Unknown", "Forbidden")];
        assert!(transitions(&[], &unknown).is_empty());
        let stalled = [bypassed, condition(STALLED, "True", "InvalidSpec")];
        let reasons: Vec<String> = transitions(&before, &stalled)
            .into_iter()
            .map(|event| event.reason)
            .collect();
        assert_eq!(reasons, ["AdmissionBypassed", "InvalidSpec"]);
    }

    #[test]
    fn only_changes_make_events_and_a_stall_makes_one() {
        let progressing = [condition(READY, "False", "Progressing")];
        let serving = [condition(READY, "True", "Serving")];
        assert!(transitions(&progressing, &progressing).is_empty());
        let events = transitions(&progressing, &serving);
        assert_eq!((events.len(), events[0].reason.as_str()), (1, "Serving"));
        let stalled = [
            condition(READY, "False", "InvalidSpec"),
            condition(STALLED, "True", "InvalidSpec"),
        ];
        let events = transitions(&serving, &stalled);
        assert_eq!((events.len(), events[0].type_), (1, EventType::Warning));
        assert!(transitions(&stalled, &stalled).is_empty());
    }
}
