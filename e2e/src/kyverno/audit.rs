//! The kube-apiserver's audit log of the report groups: the makers of reports and the times, and
//! the watches that are open.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{CONTROLLERS, KyvernoError, NAMESPACE};
use crate::takeover::GROUPS;

/// Kinds that Kyverno's counters watch.
pub const EPHEMERAL: [&str; 2] = ["ephemeralreports", "clusterephemeralreports"];
/// Part of the label selector of a counter's watch.
const COUNTED: &str = "audit.kyverno.io%2Fsource";

/// Returns the log's file, and the flags of a kube-apiserver that writes it.
pub fn prepare(folder: &Path) -> Result<(PathBuf, Vec<String>), KyvernoError> {
    let log = folder.join("audit.log");
    let policy = folder.join("audit-policy.json");
    let resources = GROUPS.map(|group| json!({"group": group}));
    let content = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "resources": resources}, {"level": "None"}],
    });
    std::fs::write(&policy, content.to_string()).map_err(KyvernoError::file(&policy))?;
    let flags = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        "--audit-log-maxsize=4000".to_owned(),
    ];
    Ok((log, flags))
}

/// The parts of an audit event that are read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    #[serde(rename = "auditID")]
    id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Clone, Debug, Deserialize)]
struct ObjectRef {
    resource: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl Event {
    /// Returns the controller of Kyverno that sent the request.
    fn controller(&self) -> Option<&'static str> {
        let prefix = format!("system:serviceaccount:{NAMESPACE}:");
        let account = self.user.username.strip_prefix(&prefix)?;
        CONTROLLERS.into_iter().find(|name| *name == account)
    }

    fn ephemeral(&self) -> Option<&'static str> {
        let resource = self.object_ref.as_ref()?.resource.as_deref()?;
        EPHEMERAL.into_iter().find(|name| *name == resource)
    }

    fn code(&self) -> u16 {
        let status = self.response_status.as_ref();
        status.and_then(|status| status.code).unwrap_or_default()
    }
}

/// A POST of an ephemeral report.
#[derive(Clone, Debug)]
pub struct Post {
    /// The controller that sent it.
    pub controller: &'static str,
    /// The time at which it was received.
    pub at: Timestamp,
    /// The time at which it was answered.
    pub answered: Timestamp,
    /// The answer.
    pub code: u16,
}

impl Post {
    /// Returns whether the report was made.
    pub fn made(&self) -> bool {
        self.code == 201
    }
}

/// A watch of a counter, from its begin to its end where it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The time at which the answer began.
    pub begin: Timestamp,
    /// The time at which it ended.
    pub end: Option<Timestamp>,
    /// The answer.
    pub code: u16,
}

/// The content of the log about Kyverno.
#[derive(Debug, Default)]
pub struct Audit {
    /// The POSTs, in the order of their time.
    pub posts: Vec<Post>,
    /// The watches, by controller and kind, in the order of their time.
    pub counters: BTreeMap<(&'static str, &'static str), Vec<Session>>,
}

impl Audit {
    /// Reads the log; lines that are no events (the last may be half written) are left out.
    pub fn read(log: &Path) -> Result<Self, KyvernoError> {
        let file = std::fs::File::open(log).map_err(KyvernoError::file(log))?;
        let mut events = Vec::new();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(KyvernoError::file(log))?;
            events.extend(serde_json::from_str::<Event>(&line));
        }
        Ok(Self::of(events))
    }

    fn of(events: Vec<Event>) -> Self {
        let mut audit = Self::default();
        let mut watches = HashMap::new();
        for event in events {
            let (Some(controller), Some(kind)) = (event.controller(), event.ephemeral()) else {
                continue;
            };
            if event.verb == "create" && event.stage == "ResponseComplete" {
                audit.posts.push(Post {
                    controller,
                    at: event.request_received_timestamp,
                    answered: event.stage_timestamp,
                    code: event.code(),
                });
            } else if event.verb == "watch" && event.uri.contains(COUNTED) {
                let code = event.code();
                let session = watches.entry(event.id).or_insert((
                    (controller, kind),
                    Session {
                        begin: event.stage_timestamp,
                        end: None,
                        code,
                    },
                ));
                if event.stage != "ResponseStarted" {
                    session.1.end = Some(event.stage_timestamp);
                }
            }
        }
        for (key, session) in watches.into_values() {
            audit.counters.entry(key).or_default().push(session);
        }
        for sessions in audit.counters.values_mut() {
            sessions.sort_by_key(|session| session.begin);
        }
        audit.posts.sort_by_key(|post| post.at);
        audit
    }

    /// Returns the times at which this controller made reports.
    pub fn made_by(&self, controller: &str) -> impl Iterator<Item = Timestamp> {
        let of = self
            .posts
            .iter()
            .filter(move |p| p.controller == controller);
        of.filter(|post| post.made()).map(|post| post.at)
    }

    /// Returns the longest time in milliseconds without a report of the controller, between these
    /// moments.
    pub fn longest_gap(&self, controller: &str, from: Timestamp, to: Timestamp) -> i64 {
        let within = self
            .made_by(controller)
            .filter(|at| (from..to).contains(at));
        let mut last = from;
        let mut longest = 0;
        for at in within.chain([to]) {
            longest = longest.max(at.as_millisecond() - last.as_millisecond());
            last = at;
        }
        longest
    }

    /// Returns the longest time in milliseconds between the end of a watch and the next one's
    /// begin.
    pub fn longest_closed(sessions: &[Session], from: Timestamp) -> i64 {
        let pairs = sessions.windows(2).filter_map(|pair| {
            let end = pair[0].end.filter(|end| *end >= from)?;
            Some(pair[1].begin.as_millisecond() - end.as_millisecond())
        });
        pairs.max().unwrap_or_default().max(0)
    }

    /// Returns whether a counter still watched at this moment: its last watch that was answered is
    /// open.
    pub fn alive(sessions: &[Session], at: Timestamp) -> bool {
        let open =
            |session: &Session| session.begin <= at && session.end.is_none_or(|end| end > at);
        sessions
            .iter()
            .any(|session| session.code == 200 && open(session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, stage: &str, verb: &str, second: u32, code: u16) -> Event {
        let at = format!("2026-01-01T00:00:{second:02}.000000Z");
        serde_json::from_value(json!({
            "auditID": id, "stage": stage, "verb": verb,
            "requestURI": "/x?labelSelector=audit.kyverno.io%2Fsource%3D%3Dadmission",
            "user": {"username": "system:serviceaccount:kyverno:kyverno-admission-controller"},
            "objectRef": {"resource": "ephemeralreports"},
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": at, "stageTimestamp": at,
        }))
        .unwrap()
    }

    fn at(second: u32) -> Timestamp {
        format!("2026-01-01T00:00:{second:02}Z").parse().unwrap()
    }

    #[test]
    fn a_gap_ends_with_the_window() {
        let events = [2, 3, 7].map(|s| event(&s.to_string(), "ResponseComplete", "create", s, 201));
        let refused = event("x", "ResponseComplete", "create", 5, 500);
        let audit = Audit::of(events.into_iter().chain([refused]).collect());
        assert_eq!(audit.posts.len(), 4);
        assert_eq!(audit.longest_gap(CONTROLLERS[0], at(2), at(8)), 4000);
        assert_eq!(audit.longest_gap(CONTROLLERS[0], at(2), at(20)), 13000);
        assert_eq!(audit.longest_gap(CONTROLLERS[1], at(2), at(8)), 6000);
    }

    #[test]
    fn a_watch_that_ended_last_is_dead() {
        let started = |id, second| event(id, "ResponseStarted", "watch", second, 200);
        let ended = |id, second| event(id, "ResponseComplete", "watch", second, 200);
        let audit = Audit::of(vec![
            started("a", 1),
            ended("a", 5),
            started("b", 7),
            ended("b", 9),
        ]);
        let sessions = &audit.counters[&(CONTROLLERS[0], EPHEMERAL[0])];
        assert!(Audit::alive(sessions, at(3)) && Audit::alive(sessions, at(8)));
        assert!(!Audit::alive(sessions, at(6)) && !Audit::alive(sessions, at(20)));
        assert_eq!(Audit::longest_closed(sessions, at(1)), 2000);
        assert_eq!(Audit::longest_closed(sessions, at(6)), 0);
    }
}
