//! Reading and writing the entries.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Managed, Manager, Operation, VersionedSet};
use crate::set::{FieldSet, FieldsError};

/// The reason why entries cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// The operation is another one, or missing.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// There is no version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// There is no type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    MissingFieldsType(usize),
    /// The type of fields is not known.
    #[error("invalid fieldsType {kind:?} in managed fields entry {entry}")]
    FieldsType {
        /// The type.
        kind: String,
        /// The index of the entry, from zero.
        entry: usize,
    },
    /// The fields cannot be read.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

/// An entry as clients send it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    #[serde(deserialize_with = "nullable")]
    manager: String,
    #[serde(deserialize_with = "nullable")]
    operation: String,
    #[serde(deserialize_with = "nullable")]
    api_version: String,
    time: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    fields_type: String,
    fields_v1: Option<Value>,
    #[serde(deserialize_with = "nullable")]
    subresource: String,
}

fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns the entries of an object. `None` if there are none or one of them has fields of wrong
/// types, which counts as none.
fn entries(object: &Value) -> Option<Vec<Entry>> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    entries
        .iter()
        .map(|entry| {
            let is_object = entry.is_object();
            is_object.then(|| Entry::deserialize(entry).ok())?
        })
        .collect()
}

impl Managed {
    /// Reads `metadata.managedFields`; an object without it has no managers.
    ///
    /// # Errors
    /// If an entry is not valid.
    pub fn decode(object: &Value) -> Result<Self, ManagedFieldsError> {
        let mut managed = Self::default();
        for (index, entry) in entries(object).unwrap_or_default().into_iter().enumerate() {
            managed.add(index, entry)?;
        }
        Ok(managed)
    }

    fn add(&mut self, index: usize, entry: Entry) -> Result<(), ManagedFieldsError> {
        let applied = match entry.operation.as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return Err(ManagedFieldsError::Operation),
        };
        if entry.api_version.is_empty() {
            return Err(ManagedFieldsError::ApiVersion);
        }
        match entry.fields_type.as_str() {
            "FieldsV1" => {}
            "" => return Err(ManagedFieldsError::MissingFieldsType(index)),
            _ => {
                return Err(ManagedFieldsError::FieldsType {
                    kind: entry.fields_type,
                    entry: index,
                });
            }
        }
        let manager = if applied {
            Manager::apply(entry.manager, entry.subresource)
        } else {
            Manager::update(entry.manager, entry.api_version.as_str(), entry.subresource)
        };
        let set = match &entry.fields_v1 {
            Some(fields) => FieldSet::from_fields_v1(fields)?,
            None => FieldSet::new(),
        };
        let owned = VersionedSet {
            set,
            api_version: entry.api_version,
            applied,
        };
        self.managers.insert(manager.clone(), owned);
        match entry.time {
            Some(time) => self.times.insert(manager, time),
            None => self.times.remove(&manager),
        };
        Ok(())
    }

    /// Returns the managers to start an update from: those of the new object if it has valid ones,
    /// so that clients can edit them; otherwise those of the live object, so that a client that
    /// does not know of them does not delete them. An empty list, or one empty entry, takes all
    /// away.
    pub(crate) fn of_update(live: &Value, new: &Value, is_subresource: bool) -> Self {
        let of_live = || Self::decode(live).unwrap_or_default();
        if is_subresource {
            return of_live();
        }
        if let Some(entries) = entries(new)
            && (entries.is_empty() || entries == [Entry::default()])
        {
            return Self::default();
        }
        match Self::decode(new) {
            Ok(managed) if !managed.managers.is_empty() => managed,
            _ => of_live(),
        }
    }

    /// Writes `metadata.managedFields`, or removes it when there are no managers.
    pub(crate) fn encode_into(&self, object: &mut Value) {
        remove_entries(object);
        if self.managers.is_empty() {
            return;
        }
        if let Some(object) = object.as_object_mut()
            && let Some(metadata) = object
                .entry("metadata")
                .or_insert_with(|| Value::Object(Map::new()))
                .as_object_mut()
        {
            metadata.insert("managedFields".to_owned(), self.encode());
        }
    }

    /// Returns the entries, in their order.
    #[must_use]
    pub fn encode(&self) -> Value {
        let mut entries: Vec<(&Manager, &VersionedSet)> = self.managers.iter().collect();
        entries.sort_by(|left, right| self.order(*left, *right));
        entries
            .into_iter()
            .map(|(manager, owned)| self.encode_entry(manager, owned))
            .collect()
    }

    /// Returns the order by operation, time, name, version and subresource.
    fn order(
        &self,
        (left, left_owned): (&Manager, &VersionedSet),
        (right, right_owned): (&Manager, &VersionedSet),
    ) -> Ordering {
        operation(left, left_owned)
            .cmp(&operation(right, right_owned))
            .then_with(|| self.seconds(left).cmp(&self.seconds(right)))
            .then_with(|| left.name().cmp(right.name()))
            .then_with(|| left_owned.api_version.cmp(&right_owned.api_version))
            .then_with(|| left.subresource().cmp(right.subresource()))
    }

    pub(super) fn seconds(&self, manager: &Manager) -> i64 {
        self.times.get(manager).map_or(0, |time| time.as_second())
    }

    fn encode_entry(&self, manager: &Manager, owned: &VersionedSet) -> Value {
        let operation = operation(manager, owned).as_str();
        let time = self.times.get(manager).map(|time| rfc3339(*time));
        let texts = [
            ("apiVersion", owned.api_version.as_str()),
            ("fieldsType", "FieldsV1"),
            ("manager", manager.name()),
            ("operation", operation),
            ("subresource", manager.subresource()),
            ("time", time.as_deref().unwrap_or_default()),
        ];
        let mut entry: Map<String, Value> = texts
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.to_owned(), Value::from(text)))
            .collect();
        entry.insert("fieldsV1".to_owned(), owned.set.to_fields_v1());
        Value::Object(entry)
    }
}

fn operation(manager: &Manager, owned: &VersionedSet) -> Operation {
    if owned.applied {
        Operation::Apply
    } else {
        manager.operation()
    }
}

/// Returns a time as `metav1.Time`: whole seconds, UTC.
fn rfc3339(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).unwrap_or(time);
    seconds.to_string()
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Returns whether an object has a list of entries, even an empty one.
pub(crate) fn has_entries(object: &Value) -> bool {
    entries(object).is_some()
}
