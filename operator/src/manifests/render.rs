//! YAML with comments: a rule's reason stands above it.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Map, Value};

use super::Error;
use super::rules::Reasoned;

/// Columns of a comment.
const WIDTH: usize = 96;

/// One document of the stream.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The object without its rules.
    pub object: Value,
    /// Rules of the object, if it is a role of ours.
    pub rules: Vec<Reasoned>,
}

impl Document {
    /// Returns an object without rules of ours.
    pub fn plain(object: Value) -> Self {
        Self {
            object,
            rules: Vec::new(),
        }
    }

    /// Returns the document, ending in a newline.
    pub fn to_yaml(&self) -> Result<String, Error> {
        let mut text = serde_yaml::to_string(&ordered(&self.object))?;
        if self.rules.is_empty() {
            return Ok(text);
        }
        text.push_str("rules:\n");
        for Reasoned { reason, rule } in &self.rules {
            for line in wrap(reason) {
                text.extend(["# ", &line, "\n"]);
            }
            text.push_str(&item(rule)?);
        }
        Ok(text)
    }
}

/// Returns the object with apiVersion, kind and metadata first, as everybody writes them, and
/// without status.
fn ordered(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let mut first = Map::new();
    for key in ["apiVersion", "kind", "metadata"] {
        if let Some(value) = fields.get(key) {
            first.insert(key.to_owned(), value.clone());
        }
    }
    for (key, value) in fields.iter().filter(|(key, _)| *key != "status") {
        first.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(first)
}

/// Returns a rule as a list item, lists on one line.
fn item(rule: &PolicyRule) -> Result<String, Error> {
    let list = |values: &[String]| {
        serde_json::to_string(values).map(|text| text.replace("\",\"", "\", \""))
    };
    let mut text = if let Some(urls) = &rule.non_resource_urls {
        format!("- nonResourceURLs: {}\n", list(urls)?)
    } else {
        let groups = list(rule.api_groups.as_deref().unwrap_or_default())?;
        let resources = list(rule.resources.as_deref().unwrap_or_default())?;
        format!("- apiGroups: {groups}\n  resources: {resources}\n")
    };
    if let Some(names) = &rule.resource_names {
        text.extend(["  resourceNames: ", &list(names)?, "\n"]);
    }
    text.extend(["  verbs: ", &list(&rule.verbs)?, "\n"]);
    Ok(text)
}

/// Breaks a sentence into lines.
fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
