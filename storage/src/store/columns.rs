//! The meaning of columns in both databases.

use crds::control::GateState;

use super::engine::{EngineError, corrupt};
use crate::cache::{Effect, PreviousRef};
use crate::model::{Dictionary, Encoded, Labels, ObjectKey, StoredObject};

/// Returns a version or seq as the database keeps it.
pub(super) fn db(number: u64) -> i64 {
    number.cast_signed()
}

/// Returns a version or seq as the database kept it.
pub(super) fn un_db(number: i64) -> u64 {
    number.cast_unsigned()
}

/// Returns a count as the database takes it.
pub(super) fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// Returns labels as JSON text.
pub(super) fn labels_text(labels: &Labels) -> String {
    serde_json::json!(labels).to_string()
}

/// Returns labels from JSON text.
pub(super) fn labels_of(text: &str, key: &ObjectKey) -> Result<Labels, EngineError> {
    serde_json::from_str(text).map_err(|error| corrupt(key, error))
}

/// Returns an object from its body and the columns rv and `as_imported`.
pub(super) fn object(
    key: ObjectKey,
    body: String,
    rv: u64,
    as_imported: bool,
    dictionary: &Dictionary,
) -> Result<StoredObject, EngineError> {
    let encoded = Encoded::from_json(body, dictionary);
    let encoded = encoded.map_err(|error| corrupt(&key, error))?;
    Ok(encoded.into_object(key, rv, as_imported))
}

/// Returns the columns `prev_rv` and `prev_labels`.
pub(super) fn previous_columns(previous: &PreviousRef) -> (Option<i64>, Option<String>) {
    match previous {
        PreviousRef::None => (None, None),
        PreviousRef::Unknown => (Some(0), None),
        PreviousRef::Labels(labels) => (Some(0), Some(labels_text(labels))),
        PreviousRef::At { rv, labels } => (Some(db(*rv)), Some(labels_text(labels))),
    }
}

/// Returns the state before a change from the columns `prev_rv` and `prev_labels`.
pub(super) fn previous(rv: Option<i64>, labels: Option<Labels>) -> PreviousRef {
    match (rv, labels) {
        (None, _) => PreviousRef::None,
        (Some(0), None) => PreviousRef::Unknown,
        (Some(0), Some(labels)) => PreviousRef::Labels(labels),
        (Some(rv), labels) => PreviousRef::At {
            rv: un_db(rv),
            labels: labels.unwrap_or_default(),
        },
    }
}

/// Returns the column `effect`.
pub(super) fn effect_number(effect: Effect) -> i16 {
    match effect {
        Effect::EventAndState => 0,
        Effect::Event => 1,
        Effect::State => 2,
    }
}

/// Returns the effect from the column `effect`.
pub(super) fn effect(number: i16, key: &ObjectKey) -> Result<Effect, EngineError> {
    match number {
        0 => Ok(Effect::EventAndState),
        1 => Ok(Effect::Event),
        2 => Ok(Effect::State),
        other => Err(corrupt(key, format!("unknown effect {other} of a change"))),
    }
}

/// Returns the column `gate`.
pub(super) fn gate_text(state: GateState) -> &'static str {
    match state {
        GateState::Closed => "Closed",
        GateState::Held => "Held",
        GateState::Open => "Open",
    }
}

/// Returns the state from the column `gate`.
pub(super) fn gate(text: &str) -> Option<GateState> {
    match text {
        "Closed" => Some(GateState::Closed),
        "Held" => Some(GateState::Held),
        "Open" => Some(GateState::Open),
        _ => None,
    }
}
