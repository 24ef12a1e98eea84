//! Makes the observations of two sides comparable: a value that must differ from run to run becomes
//! a mark that says what has to agree of it. Nothing else is changed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use reports_server::http::SERVER_HEADER;
use serde_json::{Map, Value};

use super::form::form;
use super::observed::{Document, Observed};
use super::protobuf::{self, Plain};
use super::texts;

/// Headers that differ from run to run, say how the answer travelled, or mark our answers for the
/// operator.
const IGNORED_HEADERS: [&str; 7] = [
    "audit-id",
    "connection",
    "content-length",
    "date",
    "transfer-encoding",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];
/// The beginning of a continue token: `{"v":"meta.k8s.io/v1"` in base 64.
const TOKEN: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEi";
/// Difference allowed between clocks of the same machine, rounded to seconds.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// The normaliser for the observations of one side in one case.
pub struct Normaliser {
    /// Versions of the case's own objects.
    versions: BTreeSet<u64>,
    uids: BTreeMap<String, usize>,
    prefixes: Vec<String>,
    began: Timestamp,
    ended: Timestamp,
    ignored: String,
    group: String,
}

/// The parts of one observation that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The observation as lines.
    pub text: String,
    /// The form of its JSON, see [`form`].
    pub form: String,
}

impl Normaliser {
    /// Returns a normaliser for a case on objects of `group` that ran from `began` to now. Objects
    /// called `ignored` are the harness' own; `prefixes` are the `generateName`s that were sent.
    #[must_use]
    pub fn new(began: Timestamp, group: &str, ignored: &str, prefixes: &BTreeSet<String>) -> Self {
        let mut prefixes: Vec<_> = prefixes.iter().filter(|p| !p.is_empty()).cloned().collect();
        // Longer ones first: one may begin with another.
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        Self {
            versions: BTreeSet::new(),
            uids: BTreeMap::new(),
            prefixes,
            began: began.saturating_sub(SLACK).unwrap_or(began),
            ended: Timestamp::now()
                .saturating_add(SLACK)
                .unwrap_or(Timestamp::MAX),
            ignored: ignored.to_owned(),
            group: format!("{group}/"),
        }
    }

    /// Learns the versions of the objects in it. All observations have to be learned before any is
    /// shown.
    pub fn learn(&mut self, seen: &Observed) {
        for value in seen.values() {
            self.learn_value(value);
        }
    }

    fn learn_value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn_value(item)),
            Value::Object(map) => {
                if map.get("type").is_some_and(|kind| kind == "BOOKMARK") {
                    return;
                }
                if !is_list(map)
                    && self.is_own(map)
                    && let Some(Value::Object(meta)) = map.get("metadata")
                    && meta.get("name").is_some_and(|name| *name != *self.ignored)
                    && let Some(version) = meta.get("resourceVersion").and_then(number)
                {
                    self.versions.insert(version);
                }
                map.values().for_each(|value| self.learn_value(value));
            }
            _ => {}
        }
    }

    /// Shows an observation. Uids are numbered in the order in which observations are shown.
    pub fn show(&mut self, seen: &Observed, only: &[String]) -> Shown {
        match seen {
            Observed::Note(text) => Shown {
                text: self.text(text) + "\n",
                form: String::new(),
            },
            Observed::Events { events, end } => {
                let mut shown = Shown {
                    text: String::new(),
                    form: String::new(),
                };
                for event in events {
                    let one = self.document(event, &[]);
                    shown.text.push_str(&one.text);
                    shown.form.push_str(&one.form);
                }
                shown.text.extend(["(", end, ")\n"]);
                shown
            }
            Observed::Answer {
                code,
                headers,
                body,
            } => {
                let mut text = format!("{code}\n");
                if only.is_empty() {
                    text.push_str(&self.headers(headers));
                }
                let body = self.document(body, only);
                Shown {
                    text: text + &body.text,
                    form: body.form,
                }
            }
        }
    }

    fn headers(&mut self, headers: &HeaderMap) -> String {
        let mut lines = Vec::new();
        for (name, value) in headers {
            if IGNORED_HEADERS.contains(&name.as_str()) || *name == SERVER_HEADER {
                continue;
            }
            let mut value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            if ["etag", "last-modified", "expires"].contains(&name.as_str()) {
                "<some>".clone_into(&mut value);
            }
            lines.push(format!("{name}: {}\n", self.text(&value)));
        }
        // Stable, so that several of a name stay in their order.
        lines.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
        lines.concat()
    }

    fn document(&mut self, document: &Document, only: &[String]) -> Shown {
        match document {
            Document::Json { raw, values } => {
                let mut text = String::new();
                for value in values {
                    let mut value = value.clone();
                    self.value(&mut value);
                    if !only.is_empty() {
                        value = chosen(&value, only);
                    }
                    text.push_str(&pretty(&value));
                }
                let form = if only.is_empty() {
                    form(raw)
                } else {
                    String::new()
                };
                Shown { text, form }
            }
            Document::Protobuf(fields) => {
                let text = protobuf::show(fields, &mut |value: Plain| match value {
                    Plain::Number(number) => self.seconds(number),
                    Plain::Text(text) if text.starts_with(TOKEN) => "<token>".to_owned(),
                    Plain::Text(text) => match text.parse() {
                        Ok(version) => self.after(version),
                        Err(_) => self.text(text),
                    },
                });
                let form = String::new();
                Shown { text, form }
            }
            Document::Text(text) => {
                let mut text = self.text(text);
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push_str("(no end of line)\n");
                }
                let form = String::new();
                Shown { text, form }
            }
        }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => self.object(map),
            _ => {}
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>) {
        self.keys(map);
        self.version_of(map);
        sort_causes(map);
        sort_kinds(map);
        for (key, value) in map.iter_mut() {
            match (key.as_str(), &mut *value) {
                ("continue", Value::String(token)) if !token.is_empty() => {
                    "<token>".clone_into(token);
                }
                // By time, and so by chance.
                ("managedFields", Value::Array(entries)) => {
                    for entry in entries.iter_mut() {
                        self.value(entry);
                    }
                    entries.sort_by_cached_key(ToString::to_string);
                }
                ("cells", Value::Array(cells)) => cells.iter_mut().for_each(|cell| {
                    if cell.as_str().is_some_and(texts::is_age) {
                        *cell = Value::from("<age>");
                    } else {
                        self.value(cell);
                    }
                }),
                _ => self.value(value),
            }
        }
    }

    /// Marks uids in keys, too: owned items of lists are named by them.
    fn keys(&mut self, map: &mut Map<String, Value>) {
        if map.keys().any(|key| key.starts_with("k:{")) {
            *map = std::mem::take(map)
                .into_iter()
                .map(|(key, value)| (self.text(&key), value))
                .collect();
        }
    }

    /// Marks the version in the metadata of an object or a list.
    fn version_of(&self, map: &mut Map<String, Value>) {
        let list = is_list(map);
        let own = self.is_own(map);
        let bookmark = map.get("type").is_some_and(|kind| kind == "BOOKMARK");
        if bookmark && let Some(object) = map.get_mut("object") {
            for pointer in ["/metadata", "/rows/0/object/metadata"] {
                if let Some(meta) = object.pointer_mut(pointer) {
                    mark(meta, |_| "<rv>".to_owned());
                }
            }
        }
        if let Some(meta) = map.get_mut("metadata") {
            mark(meta, |version| {
                if !own {
                    // In the sequence of another server.
                    "<rv>".to_owned()
                } else if list {
                    self.after(version)
                } else {
                    self.rank(version)
                }
            });
        }
    }

    /// Returns whether an object, or its metadata alone, is of the group.
    fn is_own(&self, map: &Map<String, Value>) -> bool {
        match map.get("apiVersion").and_then(Value::as_str) {
            Some(version) => {
                version.starts_with(&self.group) || version.starts_with("meta.k8s.io/")
            }
            None => true,
        }
    }

    /// Returns the mark of a version of an object: its position in the order of the case's.
    fn rank(&self, version: u64) -> String {
        if self.versions.contains(&version) {
            format!("<rv {}>", self.versions.range(..=version).count())
        } else {
            self.after(version)
        }
    }

    /// Returns the mark of a version of a list: the number of the case's versions that are not
    /// newer.
    fn after(&self, version: u64) -> String {
        format!("<rv after {}>", self.versions.range(..=version).count())
    }

    fn text(&mut self, text: &str) -> String {
        let text = texts::uids(text, |uid| {
            let next = self.uids.len() + 1;
            let number = *self.uids.entry(uid.to_owned()).or_insert(next);
            format!("<uid {number}>")
        });
        let mut text = texts::times(&text, |time| self.time(time));
        text = texts::versions(&text, |digits| match digits.parse() {
            Ok(version) if self.versions.contains(&version) => self.rank(version),
            _ => "<rv>".to_owned(),
        });
        for prefix in &self.prefixes {
            text = texts::generated(&text, prefix);
        }
        texts::shape_errors(&texts::parsers(&texts::hashes(&text)))
    }

    /// Returns a number, which may be a time of this run in seconds.
    fn seconds(&self, number: u64) -> String {
        let time = i64::try_from(number).ok();
        let time = time.and_then(|number| Timestamp::from_second(number).ok());
        match time {
            Some(time) if time >= self.began && time <= self.ended => "<time in s>".to_owned(),
            _ => number.to_string(),
        }
    }

    /// Returns the mark of a time of this run, with whether it has parts of a second; other texts
    /// stay.
    fn time(&self, text: &str) -> String {
        match text.parse::<Timestamp>() {
            Ok(time) if time >= self.began && time <= self.ended => {
                let fine = if text.contains('.') { " and less" } else { "" };
                format!("<time in s{fine}>")
            }
            _ => text.to_owned(),
        }
    }
}

fn is_list(map: &Map<String, Value>) -> bool {
    let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
    map.contains_key("items") || map.contains_key("rows") || kind.ends_with("List")
}

fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

fn mark(meta: &mut Value, mark: impl Fn(u64) -> String) {
    if let Some(version) = meta.get_mut("resourceVersion")
        && let Some(number) = number(version)
    {
        *version = Value::from(mark(number));
    }
}

/// Sorts causes, as the kube-apiserver finds errors in the order of a Go map.
fn sort_causes(map: &mut Map<String, Value>) {
    let causes = map
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"));
    let Some(Value::Array(causes)) = causes else {
        return;
    };
    if causes.len() > 1 {
        causes.sort_by_cached_key(ToString::to_string);
        // Says the same once more, in the same order.
        if let Some(Value::String(message)) = map.get_mut("message") {
            *message = texts::cut(message, "is invalid: [", "]");
        }
    }
}

/// Sorts kinds, as the kube-apiserver lists the kinds of a version in the order of a Go map.
fn sort_kinds(map: &mut Map<String, Value>) {
    let list = map
        .get("kind")
        .is_some_and(|kind| kind == "APIResourceList");
    if list && let Some(Value::Array(kinds)) = map.get_mut("resources") {
        kinds.sort_by_cached_key(ToString::to_string);
    }
}

fn chosen(value: &Value, only: &[String]) -> Value {
    let pick = |name: &String| {
        let found = if name.starts_with('/') {
            value.pointer(name)
        } else {
            value.get(name)
        };
        (
            name.clone(),
            found.cloned().unwrap_or(Value::from("(absent)")),
        )
    };
    Value::Object(only.iter().map(pick).collect())
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
