//! Rows and their meaning.

use std::sync::Arc;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::cache::{Change, EventType};
use crate::model::{
    Dictionary, GateStatus, GroupResource, ObjectKey, ResourceDef, ResourceId, ResourceRecord,
    packed,
};
use crate::store::decide::Existing;
use crate::store::engine::{EngineError, corrupt};

pub(super) use crate::store::columns::{
    db, effect, effect_number, gate, gate_text, labels_of, labels_text, limit, object, previous,
    previous_columns, un_db,
};

/// Returns (resource, namespace, name) triples as the JSON array that `json_each` unfolds.
pub(super) fn keys<'a>(keys: impl IntoIterator<Item = (ResourceId, &'a ObjectKey)>) -> String {
    let keys = keys.into_iter().map(|(id, key)| {
        serde_json::Value::from(vec![
            serde_json::Value::from(id.0),
            key.namespace().into(),
            key.name().into(),
        ])
    });
    serde_json::Value::Array(keys.collect()).to_string()
}

/// Returns the milliseconds since the epoch.
pub(super) fn millis(timestamp: Timestamp) -> i64 {
    timestamp.as_millisecond()
}

/// Returns the key in the columns `namespace` and `name`.
pub(super) fn key(row: &SqliteRow) -> Result<ObjectKey, EngineError> {
    Ok(ObjectKey::new(
        row.try_get("namespace")?,
        row.try_get("name")?,
    ))
}

/// Returns the text in a column; `None` for NULL.
pub(super) fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, EngineError> {
    let value: Option<&[u8]> = row.try_get(column)?;
    match value.map(packed::unpack).transpose() {
        Ok(text) => Ok(text),
        Err(error) => Err(corrupt(&key(row)?, error)),
    }
}

/// Returns the columns uid, rv, `as_imported`, labels of `objects`.
pub(super) fn existing(row: &SqliteRow, key: &ObjectKey) -> Result<Existing, EngineError> {
    Ok(Existing {
        uid: row.try_get("uid")?,
        rv: un_db(row.try_get("rv")?),
        as_imported: row.try_get("as_imported")?,
        labels: labels_of(row.try_get("labels")?, key)?,
    })
}

/// Returns the column `resource_id`.
pub(super) fn resource_id(row: &SqliteRow) -> Result<ResourceId, EngineError> {
    Ok(ResourceId(row.try_get("resource_id")?))
}

/// Returns the change in all columns of `changes`; none where the body is gone, because a later
/// change replaced it.
pub(super) fn change(
    row: &SqliteRow,
    dictionary: &Dictionary,
) -> Result<Option<(ResourceId, Change)>, EngineError> {
    let key = key(row)?;
    let Some(body) = text(row, "body")? else {
        return Ok(None);
    };
    let type_ = event_type(row.try_get("type")?, &key)?;
    let effect = effect(row.try_get("effect")?, &key)?;
    let labels = row.try_get::<Option<&str>, _>("prev_labels")?;
    let labels = labels.map(|text| labels_of(text, &key)).transpose()?;
    let previous = previous(row.try_get("prev_rv")?, labels);
    let seq = un_db(row.try_get("seq")?);
    let rv = un_db(row.try_get("rv")?);
    let as_imported = row.try_get("as_imported")?;
    let object = object(key, body, rv, as_imported, dictionary)?;
    let id = resource_id(row)?;
    Ok(Some((
        id,
        Change {
            type_,
            effect,
            seq,
            object: Arc::new(object),
            previous,
        },
    )))
}

/// Returns the text for the column `type`.
pub(super) fn type_text(type_: EventType) -> &'static str {
    match type_ {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
    }
}

fn event_type(text: &str, key: &ObjectKey) -> Result<EventType, EngineError> {
    match text {
        "ADDED" => Ok(EventType::Added),
        "MODIFIED" => Ok(EventType::Modified),
        "DELETED" => Ok(EventType::Deleted),
        other => Err(corrupt(key, format!("unknown type {other:?} of a change"))),
    }
}

/// Returns the record in all columns of `resources`, and in `newest_change`: the newest version in
/// `changes`.
pub(super) fn record(row: &SqliteRow) -> Result<ResourceRecord, EngineError> {
    let resource = GroupResource::new(
        row.try_get::<&str, _>("api_group")?,
        row.try_get::<&str, _>("resource")?,
    );
    let created = Timestamp::from_second(row.try_get("created_at")?)
        .map_err(|error| corrupt(&resource, error))?;
    let state = gate(row.try_get("gate")?).ok_or_else(|| corrupt(&resource, "unknown gate"))?;
    let holder: Option<&str> = row.try_get("holder")?;
    let number = |column: &str| row.try_get(column).map(un_db);
    let optional = |column: &str| row.try_get::<Option<i64>, _>(column).map(|n| n.map(un_db));
    let newest_change = optional("newest_change")?.unwrap_or(0);
    Ok(ResourceRecord {
        id: ResourceId(row.try_get("id")?),
        def: ResourceDef {
            kind: row.try_get::<&str, _>("kind")?.into(),
            namespaced: row.try_get("namespaced")?,
            resource,
        },
        uid: row.try_get::<&str, _>("uid")?.into(),
        created,
        gate: GateStatus {
            state,
            settled: row.try_get("settled")?,
            holder: holder.map(Into::into),
            released: row.try_get("released")?,
            fence: number("fence")?,
            frozen: optional("frozen_rv")?,
            held_since: row
                .try_get::<Option<i64>, _>("held_since")?
                .and_then(|at| Timestamp::from_millisecond(at).ok()),
            last_hold: optional("last_hold")?,
        },
        opened: optional("opened_rv")?,
        horizon: optional("horizon")?,
        mirrored: number("mirrored")?,
        newest_imported: number("newest_imported")?,
        newest_logged: number("newest_logged")?.max(newest_change),
        imported: number("imported")?,
    })
}
