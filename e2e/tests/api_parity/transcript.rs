//! The requests of one run and what was answered.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api_support::*;

pub const YAML: (&str, &str) = ("content-type", "application/yaml");
pub const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
pub const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
pub const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");

/// What was answered to each step.
pub struct Transcript<'a> {
    pub setup: &'a Setup,
    pub steps: Vec<(String, String)>,
    pub uids: BTreeMap<String, usize>,
}

impl Transcript<'_> {
    pub async fn send(
        &mut self,
        step: &str,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Value {
        let answer = self
            .setup
            .send_bytes(method, uri, headers, body.into())
            .await;
        let header = |name: &str| {
            let values = answer.headers.get_all(name).iter();
            let texts = values.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            texts.collect::<Vec<_>>().join(", ")
        };
        let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let mut steady = if value.is_null() {
            Value::from(answer.text())
        } else {
            value.clone()
        };
        self.steady(&mut steady);
        let path = uri.split('?').next().unwrap_or_default();
        let step = format!("{step}: {method} {path}");
        let said = format!(
            "{} {} {} {} {steady}",
            answer.code,
            header("content-type"),
            header("retry-after"),
            header("warning"),
        );
        self.steps.push((step, said));
        value
    }

    /// Reads `count` lines of a watch, after `work` was done.
    pub async fn watch(
        &mut self,
        step: &str,
        uri: &str,
        accept: &str,
        work: impl Future<Output = ()>,
        count: usize,
    ) {
        let (code, mut watch) = self.setup.watch(uri, accept).await;
        work.await;
        let mut lines = Vec::new();
        for _ in 0..count {
            let mut line = watch.next().await.unwrap_or_else(|| json!("end"));
            self.steady(&mut line);
            // Cells with ages.
            if let Some(cells) = line.pointer_mut("/object/rows/0/cells/8") {
                *cells = json!("<age>");
            }
            lines.push(line.to_string());
        }
        self.steps
            .push((step.to_owned(), format!("{code} {}", lines.join(" "))));
    }

    pub async fn get(&mut self, step: &str, uri: &str) -> Value {
        self.send(step, "GET", uri, &[], "").await
    }

    pub async fn accept(&mut self, step: &str, uri: &str, accept: &str) -> Value {
        self.send(step, "GET", uri, &[("accept", accept)], "").await
    }

    pub async fn post(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "POST", uri, &[JSON], body.to_string())
            .await
    }

    pub async fn put(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "PUT", uri, &[JSON], body.to_string()).await
    }

    pub async fn merge(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "PATCH", uri, &[MERGE], body.to_string())
            .await
    }

    pub async fn patch(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        self.send(step, "PATCH", uri, &[JSON_PATCH], body.to_string())
            .await
    }

    pub async fn apply(&mut self, step: &str, uri: &str, query: &str, config: &Value) -> Value {
        let uri = format!("{uri}?{query}");
        self.send(step, "PATCH", &uri, &[APPLY], config.to_string())
            .await
    }

    /// Notes whether two answers are the same to the letter: whether a write was none.
    pub fn same(&mut self, step: &str, one: &Value, other: &Value) {
        let said = if one == other { "same" } else { "changed" };
        self.steps.push((format!("{step}: same?"), said.to_owned()));
    }

    pub async fn delete(&mut self, step: &str, uri: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.send(step, "DELETE", uri, &[JSON], body).await
    }

    /// Replaces what differs from run to run.
    pub fn steady(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.steady(item)),
            Value::Object(map) => {
                steady_causes(map);
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), &value) {
                        ("resourceVersion", Value::String(text)) if text.parse::<u64>().is_ok() => {
                            *value = json!("<rv>");
                        }
                        ("creationTimestamp" | "deletionTimestamp" | "time", Value::String(_)) => {
                            *value = json!("<time>");
                        }
                        // They are in the order of their times, of which some are the same.
                        ("managedFields", Value::Array(_)) => {
                            self.steady(value);
                            if let Value::Array(entries) = value {
                                entries.sort_by_key(ToString::to_string);
                            }
                        }
                        ("continue", Value::String(text)) if !text.is_empty() => {
                            *value = json!("<token>");
                        }
                        ("uid", Value::String(text)) => {
                            let next = self.uids.len();
                            let number = *self.uids.entry(text.clone()).or_insert(next);
                            *value = json!(format!("<uid {number}>"));
                        }
                        _ => self.steady(value),
                    }
                }
            }
            Value::String(text) => *text = self.steady_text(text),
            _ => {}
        }
    }

    /// Replaces uids, large numbers, names of Go's and what its parsers say.
    pub fn steady_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for uid in self.uids.keys().filter(|uid| uid.len() > 20) {
            text = text.replace(uid, "<uid>");
        }
        for head in [
            "json parse error: ",
            "error decoding patch: ",
            "error converting YAML to JSON: yaml: ",
            "continue key is not valid: ",
        ] {
            if let Some((before, tail)) = text.split_once(head) {
                let known = [
                    "json: ",
                    "server does not",
                    "incorrect encoded",
                    "unmarshal errors:",
                    "encoded start",
                ];
                let keep = known.iter().any(|start| tail.starts_with(start));
                text = format!("{before}{head}{}", if keep { tail } else { "<syntax>" });
            }
        }
        if let Some((before, _)) = text.split_once(" in scheme") {
            text = format!("{before} in scheme");
        }
        text = cut(&text, "Invalid value: \"{", "}\"");
        text = cut(&text, "is missing in '{", "}'");
        let mut parts = text.split("Abc-");
        let first = parts.next().unwrap_or_default().to_owned();
        let random = |c: char| c.is_ascii_alphanumeric();
        text = parts.fold(first, |text, part| {
            text + "Abc-" + part.trim_start_matches(random)
        });
        let mut out = String::new();
        let mut digits = String::new();
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            out.push_str(if digits.len() > 2 { "<n>" } else { &digits });
            digits.clear();
            out.push(c);
        }
        out.pop();
        out
    }
}

/// The kube-apiserver finds errors in the order of a Go map.
pub fn steady_causes(map: &mut serde_json::Map<String, Value>) {
    let causes = map
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"));
    let Some(Value::Array(causes)) = causes else {
        return;
    };
    if causes.len() > 1 {
        causes.sort_by_key(ToString::to_string);
        if let Some(Value::String(message)) = map.get_mut("message") {
            *message = cut(message, "is invalid: [", "]");
        }
    }
}

/// The text without what stands between the first `from` and the last `to` behind it.
pub fn cut(text: &str, from: &str, to: &str) -> String {
    let Some((head, tail)) = text.split_once(from) else {
        return text.to_owned();
    };
    match tail.rsplit_once(to) {
        Some((_, end)) => format!("{head}{from}…{to}{end}"),
        None => text.to_owned(),
    }
}

pub fn item(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

/// An owner that does not exist, of a kind that does not either: the garbage collector, which would
/// delete the object at some time, cannot find out.
pub fn an_owner() -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Owner", "name": "a", "uid": "a"})
}

pub fn with(mut object: Value, path: &str, value: Value) -> Value {
    if let Some(slot) = object.pointer_mut(path) {
        *slot = value;
    } else {
        let (parent, key) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
    }
    object
}

pub fn without(mut object: Value, path: &str) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    object
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(key);
    object
}
