//! Sets as `fieldsV1`.

use serde_json::{Map, Value};

use super::FieldSet;
use crate::go::{Flavour, json};
use crate::path::{PathElement, PathElementError};

/// The reason why a value is no `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key is no path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] PathElementError),
    /// A value is something else than an object.
    #[error("fields must be objects, got {0}")]
    NotAnObject(Value),
}

impl FieldSet {
    /// Reads `fieldsV1`. Types of path elements that are not known are passed over.
    ///
    /// # Errors
    /// If a key is no path element or a value is no object.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, FieldsError> {
        Ok(read(fields)?.0)
    }

    /// Returns `fieldsV1`. As with the kube-apiserver's custom resources, keys are sorted as texts.
    #[must_use]
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    /// Returns `fieldsV1` as a text with its keys in the order of the set, as the kube-apiserver
    /// stores it for built-in types.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(false, &mut out);
        out
    }

    fn write(&self, is_member: bool) -> Map<String, Value> {
        let mut fields: Map<String, Value> = self
            .members
            .iter()
            .filter(|member| !self.children.contains_key(member))
            .map(|member| (member.encode(), Value::Object(Map::new())))
            .collect();
        if is_member {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            let below = child.write(self.members.contains(element));
            fields.insert(element.encode(), Value::Object(below));
        }
        fields
    }

    fn write_json(&self, is_member: bool, out: &mut String) {
        let mut elements: Vec<&PathElement> =
            self.members.iter().chain(self.children.keys()).collect();
        elements.sort();
        elements.dedup();
        out.push('{');
        if is_member {
            out.push_str("\".\":{}");
        }
        for (index, element) in elements.into_iter().enumerate() {
            if index > 0 || is_member {
                out.push(',');
            }
            out.push_str(&json(&element.encode().into(), Flavour::IteratorName));
            out.push(':');
            match self.children.get(element) {
                Some(child) => child.write_json(self.members.contains(element), out),
                None => out.push_str("{}"),
            }
        }
        out.push('}');
    }
}

/// Returns the set below a value, and whether the value itself is a member.
fn read(fields: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok((FieldSet::new(), true)),
        other => return Err(FieldsError::NotAnObject(other.clone())),
    };
    let mut set = FieldSet::new();
    let mut is_member = false;
    for (key, below) in fields {
        if key == "." {
            is_member = true;
            continue;
        }
        let Some(element) = PathElement::decode(key)? else {
            continue;
        };
        let (child, child_is_member) = read(below)?;
        if child_is_member {
            set.members.insert(element.clone());
        }
        if !child.is_empty() {
            set.children.insert(element, child);
        }
    }
    let is_member = is_member || set.is_empty();
    Ok((set, is_member))
}
