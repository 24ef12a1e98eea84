//! One case on one side: the requests, and the observations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::Client;
use serde_json::Value;

use super::body;
use super::case::Encoding;
use super::observed::{Document, Observed};
use super::step::{Content, Request, Until};
use super::stream::Stream;
use super::target::Target;
use super::timing::{EVENT_OF_A_WRITE, INITIAL_EVENTS, Timing, WATCH, informs, verb};
use super::variables::Variables;
use crate::serving::ServingError;
use crate::serving::request::{self, Outgoing};

/// Name of the object that shows that everything before it has been seen.
pub const SENTINEL: &str = "conform-sentinel";
/// Longest wait for an event that has to come.
const EVENT: Duration = Duration::from_secs(10);
/// Longest wait for the first event of a watch that begins with the existing objects.
const INITIAL: Duration = Duration::from_secs(1);
/// Longest wait for the end of a watch.
const WAIT: Duration = Duration::from_secs(30);
/// Longest wait for the watch to catch up with a write; an event that it does not show by then is
/// compared at the end all the same.
const SETTLE: Duration = Duration::from_secs(2);

/// A side's state in a case.
pub struct Session<'a> {
    client: &'a Client,
    target: &'a Target,
    encoding: Encoding,
    /// Values by name.
    pub values: Variables,
    /// Names whose values are not lost when an answer has none.
    kept: BTreeSet<String>,
    watches: BTreeMap<String, Stream>,
    /// The watch that runs beside the case.
    beside: Option<Stream>,
    /// The newest version that the watch beside has shown.
    shown: u64,
    deleted: BTreeSet<String>,
    /// The events of the watch beside.
    pub events: Vec<Document>,
    /// `generateName`s that were sent.
    pub prefixes: BTreeSet<String>,
    /// The times of requests.
    pub timing: Timing,
}

impl<'a> Session<'a> {
    /// Returns a side that has done nothing yet.
    #[must_use]
    pub fn new(
        client: &'a Client,
        target: &'a Target,
        encoding: Encoding,
        namespace: &str,
    ) -> Self {
        Self {
            client,
            target,
            encoding,
            values: target.variables(namespace),
            kept: BTreeSet::new(),
            watches: BTreeMap::new(),
            beside: None,
            shown: 0,
            deleted: BTreeSet::new(),
            events: Vec::new(),
            prefixes: BTreeSet::new(),
            timing: Timing::default(),
        }
    }

    /// Sets values from the start.
    pub fn give(&mut self, values: &Variables) {
        self.kept.extend(values.keys().cloned());
        self.values.extend(values.clone());
    }

    fn collection(&self) -> String {
        match self.values.get("collection") {
            Some(Value::String(path)) => path.clone(),
            _ => String::new(),
        }
    }

    /// Opens the watch beside the case, from now on.
    ///
    /// # Errors
    /// If the collection is not served.
    pub async fn begin(&mut self) -> Result<(), ServingError> {
        let collection = self.collection();
        let list = Outgoing::get(format!("{collection}?limit=1"));
        let list = request::send(self.client, &list).await?.json()?;
        let from = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        let uri = format!("{collection}?watch=1&resourceVersion={from}");
        let (code, headers, lines) = request::open(self.client, &Outgoing::get(uri)).await?;
        if code != 200 {
            let text = String::from_utf8_lossy(&lines.rest().await?).into_owned();
            return Err(ServingError::Body(format!("{collection}: {code} {text}")));
        }
        self.beside = Some(Stream::new(lines, &headers));
        Ok(())
    }

    /// Sends a request of a case; returns the parts of the answer that are compared.
    ///
    /// # Errors
    /// If it cannot be sent, which is the fault of the case.
    pub async fn request(&mut self, request: &Request) -> Result<Observed, String> {
        let outgoing = self.outgoing(request)?;
        let begun = Instant::now();
        let (seen, body) = self.send(&outgoing).await;
        for (name, pointer) in &request.save {
            match seen.wanted(&body, pointer) {
                Some(found) => self.values.insert(name.clone(), found),
                // What was there from the start stays.
                None if self.kept.contains(name) => None,
                None => self.values.insert(name.clone(), missing()),
            };
        }
        if self.settle(&outgoing, &seen, &body).await {
            self.timing.add(EVENT_OF_A_WRITE, begun.elapsed());
        }
        match &request.pick {
            Some(pick) => seen.picked(pick, &self.values),
            None => Ok(seen),
        }
    }

    /// Sends requests at the same time.
    ///
    /// # Errors
    /// As [`Session::request`].
    pub async fn requests(&mut self, requests: &[Request]) -> Result<Vec<Observed>, String> {
        let outgoing: Result<Vec<_>, String> = requests
            .iter()
            .map(|request| self.outgoing(request))
            .collect();
        let outgoing = outgoing?;
        let answers = join_all(outgoing.iter().map(|one| request::send(self.client, one))).await;
        let mut seen = Vec::new();
        for (outgoing, answer) in outgoing.iter().zip(answers) {
            let (one, body) = taken_apart(answer);
            self.settle(outgoing, &one, &body).await;
            seen.push(one);
        }
        Ok(seen)
    }

    fn outgoing(&mut self, request: &Request) -> Result<Outgoing, String> {
        let outgoing = body::outgoing(request, self.target, self.encoding, &self.values)?;
        if request.body != Content::None {
            self.prefixes.extend(prefix(&outgoing.body));
        }
        Ok(outgoing)
    }

    async fn send(&mut self, outgoing: &Outgoing) -> (Observed, Value) {
        let begun = Instant::now();
        let answer = request::send(self.client, outgoing).await;
        if let Some(verb) = verb(outgoing, &self.target.group) {
            self.timing.add(verb, begun.elapsed());
        }
        taken_apart(answer)
    }

    /// Waits until the watch beside has shown the event of a write: then every cache has it.
    /// Returns whether it was a write, and has been shown.
    async fn settle(&mut self, outgoing: &Outgoing, seen: &Observed, body: &Value) -> bool {
        let written = matches!(
            outgoing.method.as_str(),
            "POST" | "PUT" | "PATCH" | "DELETE"
        );
        let done = matches!(
            seen,
            Observed::Answer {
                code: 200..=201,
                ..
            }
        );
        let dry = outgoing.uri.contains("dryRun") || has(&outgoing.body, b"dryRun");
        let path = outgoing.uri.split('?').next().unwrap_or_default();
        if !written || !done || dry || !path.starts_with(&self.collection()) {
            return false;
        }
        let mut awaited = Vec::new();
        match body.get("items").and_then(Value::as_array) {
            Some(items) => awaited.extend(items.iter().filter_map(name)),
            None if body["kind"] == "Status" => awaited.extend(path.rsplit('/').next()),
            None => {}
        }
        let awaited: Vec<String> = awaited.into_iter().map(str::to_owned).collect();
        let version = body["metadata"]["resourceVersion"].as_str();
        let version = version.and_then(|v| v.parse().ok()).unwrap_or(0);
        let deadline = Instant::now() + SETTLE;
        let held = body["items"].is_array();
        let mut all_shown = true;
        while self.shown < version
            || !held && awaited.iter().any(|name| !self.deleted.contains(name))
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.follow(left).await {
                all_shown = false;
                break;
            }
        }
        // What was deleted may be made again.
        for name in awaited {
            self.deleted.remove(&name);
        }
        all_shown
    }

    /// Takes the next event of the watch beside; returns whether there was one.
    async fn follow(&mut self, patience: Duration) -> bool {
        let Some(stream) = &mut self.beside else {
            return false;
        };
        let Some(Some(event)) = stream.next(patience).await else {
            return false;
        };
        if let Document::Json { values, .. } = &event
            && let Some(value) = values.first()
        {
            let object = &value["object"];
            let version = object["metadata"]["resourceVersion"].as_str();
            let version = version.and_then(|version| version.parse().ok());
            self.shown = self.shown.max(version.unwrap_or(0));
            if value["type"] == "DELETED"
                && let Some(name) = name(object)
            {
                self.deleted.insert(name.to_owned());
            }
        }
        if !event.is_of(SENTINEL) {
            self.events.push(event);
        }
        true
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// As [`Session::request`].
    pub async fn watch(&mut self, name: &str, request: &Request) -> Result<Observed, String> {
        let outgoing = self.outgoing(request)?;
        let begun = Instant::now();
        let opened = request::open(self.client, &outgoing).await;
        self.timing.add(WATCH, begun.elapsed());
        match opened {
            Ok((200, headers, mut lines)) => {
                if informs(&outgoing) && lines.begun_within(INITIAL).await {
                    self.timing.add(INITIAL_EVENTS, begun.elapsed());
                }
                self.watches
                    .insert(name.to_owned(), Stream::new(lines, &headers));
                Ok(Observed::Answer {
                    code: 200,
                    headers,
                    body: Document::Text(String::new()),
                })
            }
            Ok((code, headers, lines)) => Ok(match lines.rest().await {
                Ok(body) => Observed::Answer {
                    code,
                    body: Document::of_answer(&body, &headers),
                    headers,
                },
                Err(error) => Observed::Note(error.to_string()),
            }),
            Err(error) => Ok(Observed::Note(error.to_string())),
        }
    }

    /// Reads this many events of a watch.
    pub async fn read(&mut self, name: &str, count: usize) -> Observed {
        let Some(stream) = self.watches.get_mut(name) else {
            return not_open(name);
        };
        let mut events = Vec::new();
        let mut end = "and so on";
        while events.len() < count {
            match stream.next(EVENT).await {
                Some(Some(event)) if event.is_of(SENTINEL) || event.is_plain_bookmark() => {}
                Some(Some(event)) => events.push(event),
                Some(None) => {
                    end = "the end of the stream";
                    break;
                }
                None => {
                    end = "nothing more within 10 s";
                    break;
                }
            }
        }
        Observed::Events { events, end }
    }

    /// Takes the events that a watch sends within `patience`; returns whether its end, or the
    /// sentinel's, was seen.
    pub async fn drain(
        &mut self,
        name: &str,
        events: &mut Vec<Document>,
        patience: Duration,
    ) -> bool {
        let Some(stream) = self.watches.get_mut(name) else {
            return true;
        };
        loop {
            match stream.next(patience).await {
                Some(Some(event)) if event.is_of(SENTINEL) => {
                    if event.deletes() {
                        return true;
                    }
                }
                Some(Some(event)) if event.is_plain_bookmark() => {}
                Some(Some(event)) => events.push(event),
                Some(None) => return true,
                None => return false,
            }
        }
    }

    /// Returns whether a watch is open.
    #[must_use]
    pub fn is_open(&self, name: &str) -> bool {
        self.watches.contains_key(name)
    }

    /// Reads a watch to its end.
    pub async fn end(&mut self, name: &str) -> Observed {
        let Some(mut stream) = self.watches.remove(name) else {
            return not_open(name);
        };
        let mut events = Vec::new();
        let deadline = Instant::now() + WAIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match stream.next(left).await {
                Some(Some(event)) if event.is_of(SENTINEL) => {}
                Some(Some(event)) if event.is_plain_bookmark() => {}
                Some(Some(event)) => events.push(event),
                Some(None) => {
                    let end = "the end of the stream";
                    return Observed::Events { events, end };
                }
                None => {
                    let end = "no end within 30 s";
                    return Observed::Events { events, end };
                }
            }
        }
    }

    /// Repeats a request until its answer is right.
    ///
    /// # Errors
    /// If it cannot be sent, which is the fault of the case.
    pub async fn wait(
        &mut self,
        request: &Request,
        until: &Until,
        within: u64,
    ) -> Result<Observed, String> {
        let outgoing = self.outgoing(request)?;
        let deadline = Instant::now() + Duration::from_secs(within);
        while Instant::now() < deadline {
            if let Ok(answer) = request::send(self.client, &outgoing).await {
                let done = match until {
                    Until::Status(status) => answer.code == *status,
                    Until::Has(pointer) => {
                        let body = answer.json().unwrap_or_default();
                        body.pointer(pointer).is_some_and(|value| !empty(value))
                    }
                };
                if done {
                    return Ok(Observed::Note("at last".to_owned()));
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Observed::Note(format!("not within {within} s")))
    }

    /// Writes the sentinel and takes it away again; returns whether that was possible.
    pub async fn mark(&mut self) -> bool {
        let collection = self.collection();
        let create = Outgoing::new("POST", &collection).json(&self.target.report(SENTINEL));
        let created = request::send(self.client, &create).await;
        if !created.is_ok_and(|answer| answer.code == 201) {
            return false;
        }
        let delete = Outgoing::new("DELETE", format!("{collection}/{SENTINEL}"));
        let deleted = request::send(self.client, &delete).await;
        if !deleted.is_ok_and(|answer| answer.code == 200) {
            return false;
        }
        let deadline = Instant::now() + EVENT;
        while !self.deleted.contains(SENTINEL) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.follow(left).await {
                return false;
            }
        }
        self.deleted.remove(SENTINEL);
        true
    }

    /// Returns the objects at the end.
    pub async fn list(&mut self) -> (Observed, Value) {
        self.send(&Outgoing::get(self.collection())).await
    }

    /// Deletes the objects that are left.
    pub async fn clean(&mut self, left: &Value) {
        let collection = self.collection();
        let items = left["items"].as_array();
        for item in items.into_iter().flatten() {
            if item["metadata"]["finalizers"].is_array()
                && let Some(name) = name(item)
            {
                let body = serde_json::json!({"metadata": {"finalizers": null}});
                let mut patch = Outgoing::new("PATCH", format!("{collection}/{name}"));
                patch.body = body.to_string().into_bytes();
                let patch = patch.header("content-type", "application/merge-patch+json");
                // What cannot be taken away is seen by whom it disturbs.
                let _ = request::send(self.client, &patch).await;
            }
        }
        if items.is_some_and(|items| !items.is_empty()) {
            let _ = request::send(self.client, &Outgoing::new("DELETE", collection)).await;
        }
    }
}

fn taken_apart(answer: Result<request::Answer, ServingError>) -> (Observed, Value) {
    match answer {
        Ok(answer) => {
            let body = serde_json::from_slice(&answer.body).unwrap_or_default();
            (Observed::answer(&answer), body)
        }
        Err(error) => (Observed::Note(error.to_string()), Value::Null),
    }
}

fn not_open(name: &str) -> Observed {
    Observed::Note(format!("the watch {name} is not open"))
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Returns a value in place of one that an answer did not have.
fn missing() -> Value {
    Value::from("missing")
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

fn has(body: &[u8], word: &[u8]) -> bool {
    body.len() < 10_000 && body.windows(word.len()).any(|window| window == word)
}

/// Returns the `generateName` in a body of any encoding.
fn prefix(body: &[u8]) -> Option<String> {
    if !has(body, b"generateName") {
        return None;
    }
    let value: Value = serde_yaml::from_slice(body).ok()?;
    let name = value["metadata"]["generateName"].as_str()?;
    // As much of it as the kube-apiserver takes.
    Some(name.chars().take(58).collect())
}
