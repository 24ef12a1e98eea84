//! Runs of one case on both sides at once.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use reports_server::http::SERVER_HEADER;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::ConformError;
use super::case::{Encoding, Row, Scope};
use super::compare::{Difference, Place, difference, only_form_differs};
use super::normalise::{Normaliser, Shown};
use super::observed::{Document, Observed};
use super::session::{SENTINEL, Session};
use super::step::{Request, Step};
use super::target::Target;
use super::timing::Timing;
use crate::serving::request::{self, Outgoing};

/// Silence after which a watch with a selector has sent everything.
const SILENCE: Duration = Duration::from_millis(150);
/// Further time to listen to the side that sent less.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time that one side waits for the other to answer first, where their times have to be their own.
const ALONE: Duration = Duration::from_secs(1);
/// Most requests for a document until it is the server's: it is one in eight or more.
const DRAWS: usize = 200;

/// Both sides.
#[derive(Clone)]
pub struct Sides {
    /// The client of the CRD's side.
    pub crd: Client,
    /// The client of our side.
    pub ours: Client,
    /// True when one gets its requests after the other, so that none is slowed down by the other.
    pub apart: bool,
}

/// A case in one of the ways in which it is run.
#[derive(Clone, Debug)]
pub struct Variant<'a> {
    /// The case, with the values of a row.
    pub row: &'a Row,
    /// The kind.
    pub target: &'a Target,
    /// The encoding of structured bodies.
    pub encoding: Encoding,
}

/// The outcome of a case.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The differences.
    pub differences: Vec<Difference>,
    /// The places where only the form of an answer differed.
    pub forms: Vec<String>,
    /// The times of requests on the CRD's side, and on ours.
    pub timing: [Timing; 2],
    /// The duration of the case.
    pub took: Duration,
}

/// The observations at one place: on the CRD's side, and on ours.
struct Seen {
    place: Place,
    asked: String,
    only: Vec<String>,
    crd: Vec<Observed>,
    ours: Vec<Observed>,
}

impl Outcome {
    /// Returns the outcome of a case that could not be run.
    #[must_use]
    pub fn broken(case: &str, variant: &str, why: &str) -> Self {
        let difference = Difference {
            case: case.to_owned(),
            variant: variant.to_owned(),
            place: Place::Step(0),
            asked: "it cannot be run".to_owned(),
            crd: String::new(),
            ours: String::new(),
            diff: format!("{why}\n"),
        };
        Self {
            differences: vec![difference],
            ..Self::default()
        }
    }
}

impl Variant<'_> {
    /// Returns the kind and the encoding of the case, in words.
    #[must_use]
    pub fn name(&self) -> String {
        let encoding = match self.encoding {
            Encoding::Json => "json",
            Encoding::Yaml => "yaml",
        };
        format!("{}, {encoding}", self.target.name())
    }

    /// Runs it in a namespace that nobody has used before. An error that prevents the run is a
    /// difference, too.
    pub async fn run(&self, sides: &Sides) -> Outcome {
        let begun = Instant::now();
        let ran = self.try_run(sides).await;
        let mut outcome = ran.unwrap_or_else(|error| {
            Outcome::broken(&self.row.name, &self.name(), &error.to_string())
        });
        outcome.took = begun.elapsed();
        outcome
    }

    async fn try_run(&self, sides: &Sides) -> Result<Outcome, ConformError> {
        let namespace = fresh_namespace();
        let needed =
            self.target.scope == Scope::Namespaced || self.row.text.contains("${namespace}");
        if needed {
            tokio::try_join!(
                make_namespace(&sides.crd, &namespace),
                make_namespace(&sides.ours, &namespace)
            )?;
        }
        let session = |client| {
            let mut session = Session::new(client, self.target, self.encoding, &namespace);
            session.give(&self.row.values);
            session
        };
        let mut pair = Pair {
            crd: session(&sides.crd),
            ours: session(&sides.ours),
            apart: sides.apart,
            watches: BTreeMap::new(),
            seen: Vec::new(),
        };
        let began = Timestamp::now();
        tokio::try_join!(pair.crd.begin(), pair.ours.begin())?;
        for (index, step) in self.row.steps.iter().enumerate() {
            pair.step(index + 1, step)
                .await
                .map_err(|why| ConformError::Case {
                    case: self.row.name.clone(),
                    why: format!("step {}: {why}", index + 1),
                })?;
        }
        pair.finish().await;
        Ok(self.outcome(pair, began))
    }

    fn outcome(&self, pair: Pair, began: Timestamp) -> Outcome {
        let mut outcome = Outcome::default();
        let group = &self.target.group;
        let mut crd = Normaliser::new(began, group, SENTINEL, &pair.crd.prefixes);
        let mut ours = Normaliser::new(began, group, SENTINEL, &pair.ours.prefixes);
        for seen in &pair.seen {
            seen.crd.iter().for_each(|one| crd.learn(one));
            seen.ours.iter().for_each(|one| ours.learn(one));
        }
        for seen in pair.seen {
            let theirs = show(&mut crd, &seen.crd, &seen.only);
            let own = show(&mut ours, &seen.ours, &seen.only);
            if only_form_differs(&theirs, &own) {
                outcome.forms.push(format!(
                    "{} ({}), {}: {}",
                    self.row.name,
                    self.name(),
                    seen.place,
                    seen.asked
                ));
            }
            if let Some((crd, ours, diff)) = difference(&theirs.text, &own.text) {
                outcome.differences.push(Difference {
                    case: self.row.name.clone(),
                    variant: self.name(),
                    place: seen.place,
                    asked: seen.asked,
                    crd,
                    ours,
                    diff,
                });
            }
        }
        outcome.timing = [pair.crd.timing, pair.ours.timing];
        outcome
    }
}

/// Shows observations. Several at one place came at the same time: they are compared as a set.
fn show(normaliser: &mut Normaliser, seen: &[Observed], only: &[String]) -> Shown {
    let mut order: Vec<_> = seen.iter().collect();
    if seen.len() > 1 {
        order.sort_by_cached_key(|one| rough(one));
    }
    let shown: Vec<_> = order.iter().map(|one| normaliser.show(one, only)).collect();
    Shown {
        text: shown.iter().map(|one| one.text.as_str()).collect(),
        form: shown.iter().map(|one| one.form.as_str()).collect(),
    }
}

/// Returns the parts of an answer that do not depend on versions, uids and times.
fn rough(seen: &Observed) -> String {
    match seen {
        Observed::Answer { code, body, .. } => {
            let name = match body {
                Document::Json { values, .. } => {
                    let first = values.first();
                    let name = first.and_then(|value| value.pointer("/metadata/name"));
                    name.map(ToString::to_string).unwrap_or_default()
                }
                _ => String::new(),
            };
            format!("{code} {name}")
        }
        _ => String::new(),
    }
}

/// Both sides of a case.
struct Pair<'a> {
    crd: Session<'a>,
    ours: Session<'a>,
    apart: bool,
    /// Watches by name, with the steps that opened them.
    watches: BTreeMap<String, usize>,
    seen: Vec<Seen>,
}

impl Pair<'_> {
    /// Runs a step on both sides; the next one begins when both have answered.
    async fn step(&mut self, number: usize, step: &Step) -> Result<(), String> {
        let mut only = Vec::new();
        let (asked, crd, ours) = match step {
            Step::Request(request) => {
                only.clone_from(&request.only);
                let crd = self.crd.request(request);
                let ours = ask_ours(&mut self.ours, request);
                let (crd, ours) = beside(self.apart, crd, ours).await;
                let (crd, ours) = (crd?, ours?);
                self.check_saved(request)?;
                let asked = format!("{} {}", request.method, request.uri);
                (asked, vec![crd], vec![ours])
            }
            Step::Both(requests) => {
                if let Some(first) = requests.first() {
                    only.clone_from(&first.only);
                }
                let (crd, ours) =
                    tokio::join!(self.crd.requests(requests), self.ours.requests(requests));
                (format!("{} requests at once", requests.len()), crd?, ours?)
            }
            Step::Watch { name, request } => {
                self.watches.insert(name.clone(), number);
                let crd = self.crd.watch(name, request);
                let ours = self.ours.watch(name, request);
                let (crd, ours) = beside(self.apart, crd, ours).await;
                (
                    format!("watch {name}: {}", request.uri),
                    vec![crd?],
                    vec![ours?],
                )
            }
            Step::Read { name, count } => {
                let (crd, ours) = self.read(name, *count).await;
                (format!("read {name}"), vec![crd], vec![ours])
            }
            Step::End { name } => {
                let (crd, ours) = tokio::join!(self.crd.end(name), self.ours.end(name));
                (format!("end {name}"), vec![crd], vec![ours])
            }
            Step::Wait {
                request,
                until,
                within,
            } => {
                let (crd, ours) = tokio::join!(
                    self.crd.wait(request, until, *within),
                    self.ours.wait(request, until, *within)
                );
                (format!("wait: {}", request.uri), vec![crd?], vec![ours?])
            }
        };
        self.seen.push(Seen {
            place: Place::Step(number),
            asked,
            only,
            crd,
            ours,
        });
        Ok(())
    }

    /// Checks that at least one answer has the values to save: else the case is wrong.
    fn check_saved(&self, request: &Request) -> Result<(), String> {
        for (name, pointer) in &request.save {
            let missing = |side: &Session| side.values.get(name).is_some_and(|v| v == "missing");
            if missing(&self.crd) && missing(&self.ours) {
                return Err(format!(
                    "no answer has {pointer}, which was to be ${{{name}}}"
                ));
            }
        }
        Ok(())
    }

    /// Reads a number of events, or all that the writes so far have made.
    async fn read(&mut self, name: &str, count: Option<usize>) -> (Observed, Observed) {
        if let Some(count) = count {
            return tokio::join!(self.crd.read(name, count), self.ours.read(name, count));
        }
        if !self.crd.is_open(name) || !self.ours.is_open(name) {
            return tokio::join!(self.crd.read(name, 0), self.ours.read(name, 0));
        }
        tokio::join!(self.crd.mark(), self.ours.mark());
        let (mut crd, mut ours) = (Vec::new(), Vec::new());
        tokio::join!(
            self.crd.drain(name, &mut crd, SILENCE),
            self.ours.drain(name, &mut ours, SILENCE)
        );
        // Whoever told less may only be late.
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while crd.len() != ours.len() && tokio::time::Instant::now() < deadline {
            if crd.len() < ours.len() {
                self.crd.drain(name, &mut crd, SILENCE).await;
            } else {
                self.ours.drain(name, &mut ours, SILENCE).await;
            }
        }
        let events = |events| Observed::Events {
            events,
            end: "nothing else",
        };
        (events(crd), events(ours))
    }

    /// Compares the rest: watches that are open, the one beside, and the stored objects.
    async fn finish(&mut self) {
        for (name, step) in std::mem::take(&mut self.watches) {
            if self.crd.is_open(&name) && self.ours.is_open(&name) {
                let (crd, ours) = self.read(&name, None).await;
                self.push(
                    Place::Step(step),
                    format!("what watch {name} tells"),
                    crd,
                    ours,
                );
            }
        }
        let ((crd, left), (ours, own_left)) = tokio::join!(self.crd.list(), self.ours.list());
        self.push(Place::Final, "the list at the end".to_owned(), crd, ours);
        tokio::join!(self.crd.mark(), self.ours.mark());
        let events = |events: &mut Vec<Document>| Observed::Events {
            events: std::mem::take(events),
            end: "the end of the case",
        };
        let (crd, ours) = (events(&mut self.crd.events), events(&mut self.ours.events));
        let asked = "the watch beside the case".to_owned();
        self.push(Place::Events, asked, crd, ours);
        tokio::join!(self.crd.clean(&left), self.ours.clean(&own_left));
    }

    fn push(&mut self, place: Place, asked: String, crd: Observed, ours: Observed) {
        self.seen.push(Seen {
            place,
            asked,
            only: Vec::new(),
            crd: vec![crd],
            ours: vec![ours],
        });
    }
}

/// Asks both sides: at once, or, where their times have to be their own, one after the other.
/// Either may be the first: the side that is asked second finds processors awake that the first one
/// had to wake.
async fn beside<T>(
    apart: bool,
    crd: impl Future<Output = T>,
    ours: impl Future<Output = T>,
) -> (T, T) {
    if !apart {
        return tokio::join!(crd, ours);
    }
    if rand::random() {
        return after(crd, ours).await;
    }
    let (ours, crd) = after(ours, crd).await;
    (crd, ours)
}

/// Asks one side, then the other.
async fn after<T>(first: impl Future<Output = T>, second: impl Future<Output = T>) -> (T, T) {
    let mut first = pin!(first);
    if let Ok(first) = timeout(ALONE, &mut first).await {
        return (first, second.await);
    }
    // A server that waits for something leaves the other one its time.
    tokio::join!(first, second)
}

/// Sends a request to our side. As long as a CRD describes the same group version, its
/// kube-apiserver returns the CRD's `OpenAPI` document or ours by chance (kube-aggregator goes
/// through a map): there it is asked until the server answers.
async fn ask_ours(ours: &mut Session<'_>, request: &Request) -> Result<Observed, String> {
    let attempts = if request.uri.starts_with("/openapi/v3/") {
        DRAWS
    } else {
        1
    };
    let mut seen = ours.request(request).await;
    for _ in 1..attempts {
        match &seen {
            Ok(Observed::Answer { headers, .. }) if !headers.contains_key(SERVER_HEADER) => {
                seen = ours.request(request).await;
            }
            _ => break,
        }
    }
    seen
}

fn fresh_namespace() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("case-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(super) async fn make_namespace(client: &Client, name: &str) -> Result<(), ConformError> {
    let body: Value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let request = Outgoing::new("POST", "/api/v1/namespaces").json(&body);
    let answer = request::send(client, &request).await?;
    if answer.code == 201 {
        return Ok(());
    }
    Err(ConformError::Case {
        case: name.to_owned(),
        why: format!(
            "its namespace cannot be made: {} {}",
            answer.code,
            answer.text()
        ),
    })
}
