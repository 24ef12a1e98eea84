//! Rows and their meaning.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::connection::Parameter;
use super::error::PostgresError;
use crate::cache::{Change, EventType};
use crate::model::{
    Dictionary, GateStatus, GroupResource, Labels, ObjectKey, ResourceDef, ResourceId,
    ResourceRecord, StoredObject, frame,
};
use crate::store::decide::Existing;
use crate::store::engine::{EngineError, corrupt};

pub(super) use crate::store::columns::{
    db, effect, effect_number, gate, gate_text, labels_of, labels_text, limit,
    object as stored_object, previous, previous_columns, un_db,
};

/// Value of the column `prev_labels` for labels that are as after the change.
const UNCHANGED: &str = "=";

/// Returns a column.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, EngineError> {
    Ok(row.try_get(name).map_err(PostgresError::from)?)
}

/// Returns a column with a number that is not negative.
pub(super) fn number(row: &Row, name: &str) -> Result<u64, EngineError> {
    column(row, name).map(un_db)
}

fn optional_number(row: &Row, name: &str) -> Result<Option<u64>, EngineError> {
    column::<Option<i64>>(row, name).map(|n| n.map(un_db))
}

/// (resource, namespace, name) as arrays for `unnest`.
#[derive(Default)]
pub(super) struct Keys<'a> {
    resources: Vec<i64>,
    namespaces: Vec<&'a str>,
    names: Vec<&'a str>,
}

impl<'a> Keys<'a> {
    pub fn of(keys: impl IntoIterator<Item = (ResourceId, &'a ObjectKey)>) -> Self {
        let mut this = Self::default();
        for (id, key) in keys {
            this.resources.push(id.0);
            this.namespaces.push(key.namespace());
            this.names.push(key.name());
        }
        this
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn parameters(&self) -> [Parameter<'_>; 3] {
        [
            (&self.resources, Type::INT8_ARRAY),
            (&self.namespaces, Type::TEXT_ARRAY),
            (&self.names, Type::TEXT_ARRAY),
        ]
    }
}

/// Returns the key in the columns `namespace` and `name`.
pub(super) fn key(row: &Row) -> Result<ObjectKey, EngineError> {
    Ok(ObjectKey::new(
        column(row, "namespace")?,
        column(row, "name")?,
    ))
}

/// Returns the columns uid, rv, `as_imported`, labels of `objects`.
pub(super) fn existing(row: &Row, key: &ObjectKey) -> Result<Existing, EngineError> {
    Ok(Existing {
        uid: column(row, "uid")?,
        rv: number(row, "rv")?,
        as_imported: column(row, "as_imported")?,
        labels: labels_of(column(row, "labels")?, key)?,
    })
}

/// Returns the columns `frame` and `leaves` as a text.
pub(super) fn text(key: &ObjectKey, frame: &str, leaves: &str) -> Result<String, EngineError> {
    frame::join(frame, leaves).ok_or_else(|| corrupt(key, "frame and leaves are of two texts"))
}

/// Returns the object that the columns `frame` and `leaves` hold.
pub(super) fn object(
    row: &Row,
    key: ObjectKey,
    rv: u64,
    as_imported: bool,
    dictionary: &Dictionary,
) -> Result<StoredObject, EngineError> {
    let text = text(&key, column(row, "frame")?, column(row, "leaves")?)?;
    stored_object(key, text, rv, as_imported, dictionary)
}

/// Returns the column `resource_id`.
pub(super) fn resource_id(row: &Row) -> Result<ResourceId, EngineError> {
    column(row, "resource_id").map(ResourceId)
}

/// Returns the change in all columns of `changes`; none where the frame is gone: a listed state
/// that was replaced, or a change that nobody needs any more.
pub(super) fn change(
    row: &Row,
    dictionary: &Dictionary,
) -> Result<Option<(ResourceId, Change)>, EngineError> {
    let key = key(row)?;
    if column::<Option<&str>>(row, "frame")?.is_none() {
        return Ok(None);
    }
    let type_ = event_type(column(row, "type")?, &key)?;
    let effect = effect(column(row, "effect")?, &key)?;
    let labels: Option<&str> = column(row, "prev_labels")?;
    let prev_rv = column(row, "prev_rv")?;
    let (rv, as_imported) = (number(row, "rv")?, column(row, "as_imported")?);
    let object = object(row, key, rv, as_imported, dictionary)?;
    let labels = previous_labels(labels, &object.labels, &object.key)?;
    let previous = previous(prev_rv, labels);
    let change = Change {
        type_,
        effect,
        seq: number(row, "seq")?,
        object: Arc::new(object),
        previous,
    };
    Ok(Some((resource_id(row)?, change)))
}

/// Returns the labels before a change, from the column `prev_labels` and the labels after it.
pub(super) fn previous_labels(
    text: Option<&str>,
    own: &Labels,
    key: &ObjectKey,
) -> Result<Option<Labels>, EngineError> {
    match text {
        Some(UNCHANGED) => Ok(Some(own.clone())),
        text => text.map(|text| labels_of(text, key)).transpose(),
    }
}

/// Returns the column `prev_labels` as JSON, for a database that has no short form of it; none where
/// the change has no text any more, as nobody reads such a change.
pub(super) fn previous_labels_text(
    text: Option<&str>,
    body: Option<&str>,
    key: &ObjectKey,
) -> Result<Option<String>, EngineError> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        labels: Option<Labels>,
    }
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    match (text, body) {
        (Some(UNCHANGED), Some(body)) => {
            let object: Object = serde_json::from_str(body).map_err(|error| corrupt(key, error))?;
            let labels = object.metadata.labels.unwrap_or_default();
            Ok(Some(labels_text(&labels)))
        }
        (Some(UNCHANGED), None) => Ok(None),
        (text, _) => Ok(text.map(str::to_owned)),
    }
}

/// Returns the number for the column `type`.
pub(super) fn type_number(type_: EventType) -> i16 {
    match type_ {
        EventType::Added => 0,
        EventType::Modified => 1,
        EventType::Deleted => 2,
    }
}

fn event_type(number: i16, key: &ObjectKey) -> Result<EventType, EngineError> {
    match number {
        0 => Ok(EventType::Added),
        1 => Ok(EventType::Modified),
        2 => Ok(EventType::Deleted),
        other => Err(corrupt(key, format!("unknown type {other} of a change"))),
    }
}

/// Returns the record in all columns of `resources`, and in `newest_change`: the newest version in
/// `changes`.
pub(super) fn record(row: &Row) -> Result<ResourceRecord, EngineError> {
    let resource = GroupResource::new(
        column::<&str>(row, "api_group")?,
        column::<&str>(row, "resource")?,
    );
    let created = Timestamp::try_from(column::<SystemTime>(row, "created_at")?)
        .map_err(|error| corrupt(&resource, error))?;
    let state = gate(column(row, "gate")?).ok_or_else(|| corrupt(&resource, "unknown gate"))?;
    let holder: Option<&str> = column(row, "holder")?;
    let newest_change = optional_number(row, "newest_change")?.unwrap_or(0);
    Ok(ResourceRecord {
        id: ResourceId(column(row, "id")?),
        def: ResourceDef {
            kind: column::<&str>(row, "kind")?.into(),
            namespaced: column(row, "namespaced")?,
            resource,
        },
        uid: column::<&str>(row, "uid")?.into(),
        created,
        gate: GateStatus {
            state,
            settled: column(row, "settled")?,
            holder: holder.map(Into::into),
            released: column(row, "released")?,
            fence: number(row, "fence")?,
            frozen: optional_number(row, "frozen_rv")?,
            held_since: column::<Option<i64>>(row, "held_since")?
                .and_then(|at| Timestamp::from_millisecond(at).ok()),
            last_hold: optional_number(row, "last_hold")?,
        },
        opened: optional_number(row, "opened_rv")?,
        horizon: optional_number(row, "horizon")?,
        mirrored: number(row, "mirrored")?,
        newest_imported: number(row, "newest_imported")?,
        newest_logged: number(row, "newest_logged")?.max(newest_change),
        imported: number(row, "imported")?,
    })
}
