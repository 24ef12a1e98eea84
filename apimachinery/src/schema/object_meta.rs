//! ObjectMeta as the kube-apiserver keeps it.
//!
//! A kube-apiserver reads `metadata` into a struct and writes it back: unknown fields vanish, empty
//! ones too, times lose their fractions. The tables here are those of `ObjectMeta`,
//! `OwnerReference` and `ManagedFieldsEntry` of `k8s.io/apimachinery` 1.36.

use fieldmanager::go::{Flavour, json, quote_time};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::Malformed;
use super::json_type::json_type;
use super::told::Told;

/// The shape of a value.
enum Shape {
    /// A string.
    Text,
    /// A string that has a type of its own in Go.
    Named(&'static str),
    /// An int64.
    Integer,
    Boolean,
    /// RFC 3339, kept in UTC without a fraction.
    Time,
    /// An object of strings.
    TextMap,
    TextList,
    List(&'static Struct),
    /// Anything, kept as it is.
    Raw,
}

struct Struct {
    name: &'static str,
    fields: &'static [Field],
}

struct Field {
    name: &'static str,
    shape: Shape,
    /// The values that are not written back.
    omit: Omit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Omit {
    /// Nulls.
    Null,
    /// Nulls and zero values.
    Empty,
    /// Nothing; a null or missing value becomes the empty string.
    Never,
}

const fn field(name: &'static str, shape: Shape, omit: Omit) -> Field {
    Field { name, shape, omit }
}

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        field("name", Shape::Text, Omit::Empty),
        field("generateName", Shape::Text, Omit::Empty),
        field("namespace", Shape::Text, Omit::Empty),
        field("selfLink", Shape::Text, Omit::Empty),
        field("uid", Shape::Named("types.UID"), Omit::Empty),
        field("resourceVersion", Shape::Text, Omit::Empty),
        field("generation", Shape::Integer, Omit::Empty),
        field("creationTimestamp", Shape::Time, Omit::Null),
        field("deletionTimestamp", Shape::Time, Omit::Null),
        field("deletionGracePeriodSeconds", Shape::Integer, Omit::Null),
        field("labels", Shape::TextMap, Omit::Empty),
        field("annotations", Shape::TextMap, Omit::Empty),
        field(
            "ownerReferences",
            Shape::List(&OWNER_REFERENCE),
            Omit::Empty,
        ),
        field("finalizers", Shape::TextList, Omit::Empty),
        field(
            "managedFields",
            Shape::List(&MANAGED_FIELDS_ENTRY),
            Omit::Empty,
        ),
    ],
};

static OWNER_REFERENCE: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        field("apiVersion", Shape::Text, Omit::Never),
        field("kind", Shape::Text, Omit::Never),
        field("name", Shape::Text, Omit::Never),
        field("uid", Shape::Named("types.UID"), Omit::Never),
        field("controller", Shape::Boolean, Omit::Null),
        field("blockOwnerDeletion", Shape::Boolean, Omit::Null),
    ],
};

static MANAGED_FIELDS_ENTRY: Struct = Struct {
    name: "ManagedFieldsEntry",
    fields: &[
        field("manager", Shape::Text, Omit::Empty),
        field(
            "operation",
            Shape::Named("v1.ManagedFieldsOperationType"),
            Omit::Empty,
        ),
        field("apiVersion", Shape::Text, Omit::Empty),
        field("time", Shape::Time, Omit::Null),
        field("fieldsType", Shape::Text, Omit::Empty),
        field("fieldsV1", Shape::Raw, Omit::Null),
        field("subresource", Shape::Text, Omit::Empty),
    ],
};

/// Brings `metadata` into its canonical form and adds the paths of unknown fields to `unknown`,
/// each behind `path` (the path of `metadata` itself).
///
/// # Errors
/// With [`Malformed::Refuse`], the error of Go's decoder: of the first time that it cannot read,
/// where it stops, else of the first field of a wrong type.
pub(super) fn conform(
    metadata: &mut Value,
    path: &str,
    malformed: Malformed,
    unknown: &mut Told,
) -> Result<(), String> {
    let fields = match metadata {
        Value::Object(fields) => std::mem::take(fields),
        Value::Null => Map::new(),
        other if malformed == Malformed::Refuse => {
            return Err(mismatch_value(other, "v1.ObjectMeta"));
        }
        _ => Map::new(),
    };
    let mut found = Found {
        unknown,
        mismatch: None,
    };
    let kept = OBJECT_META.conform(fields, path, "", malformed, &mut found)?;
    *metadata = Value::Object(kept);
    found.mismatch.map_or(Ok(()), Err)
}

/// The findings on the way.
struct Found<'a> {
    unknown: &'a mut Told,
    /// The error of the first value of a wrong type.
    mismatch: Option<String>,
}

impl Found<'_> {
    fn mismatch(&mut self, error: String) {
        self.mismatch.get_or_insert(error);
    }
}

impl Struct {
    fn conform(
        &self,
        given: Map<String, Value>,
        path: &str,
        go_path: &str,
        malformed: Malformed,
        found: &mut Found<'_>,
    ) -> Result<Map<String, Value>, String> {
        let mut kept = Map::new();
        for (key, mut value) in given {
            let Some(field) = self.fields.iter().find(|field| field.name == key) else {
                found.unknown.add(format!("{path}.{key}"));
                continue;
            };
            let place = Place {
                owner: self.name,
                path: &format!("{path}.{key}"),
                go_path: &format!("{go_path}.{key}"),
            };
            let mut here = Found {
                unknown: &mut *found.unknown,
                mismatch: None,
            };
            let read = field.shape.conform(&mut value, &place, &mut here);
            match (read, here.mismatch) {
                (Err(error), _) if malformed == Malformed::Refuse => return Err(error),
                (Ok(()), Some(error)) if malformed == Malformed::Refuse => found.mismatch(error),
                (Ok(()), None) if !field.omits(&value) => {
                    kept.insert(key, value);
                }
                _ => {}
            }
        }
        for field in self.fields.iter().filter(|field| field.omit == Omit::Never) {
            kept.entry(field.name)
                .or_insert_with(|| Value::String(String::new()));
        }
        Ok(kept)
    }
}

impl Field {
    fn omits(&self, value: &Value) -> bool {
        let zero = || match value {
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Null | Value::Bool(_) => false,
        };
        value.is_null() || (self.omit == Omit::Empty && zero())
    }
}

/// The place of a value, for errors.
struct Place<'a> {
    owner: &'static str,
    path: &'a str,
    go_path: &'a str,
}

impl Shape {
    fn conform(
        &self,
        value: &mut Value,
        place: &Place<'_>,
        found: &mut Found<'_>,
    ) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        let text = |value: &mut Value| {
            if let Err(got) = text_or_null(value) {
                found.mismatch(place.mismatch(got, "string"));
            }
        };
        match (self, &mut *value) {
            (Self::Text | Self::Named(_), Value::String(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Raw, _) => {}
            (Self::Integer, Value::Number(number)) if number.is_i64() => {}
            (Self::Time, Value::String(text)) => *text = canonical_time(text)?,
            (Self::Time, other) => return Err(place.mismatch(json_type(other), self.go_type())),
            (Self::TextMap, Value::Object(fields)) => fields.values_mut().for_each(text),
            (Self::TextList, Value::Array(items)) => items.iter_mut().for_each(text),
            (Self::List(item), Value::Array(items)) => place.conform_items(item, items, found)?,
            (Self::Integer, number @ Value::Number(_)) => {
                let got = format!("number {}", json(number, Flavour::Standard));
                found.mismatch(place.mismatch(&got, self.go_type()));
            }
            (shape, other) => found.mismatch(place.mismatch(json_type(other), shape.go_type())),
        }
        Ok(())
    }

    fn go_type(&self) -> &'static str {
        match self {
            // A time is read from a string.
            Self::Text | Self::Time => "string",
            Self::Named(name) => name,
            Self::Integer => "int64",
            Self::Boolean => "bool",
            Self::TextMap => "map[string]string",
            Self::TextList => "[]string",
            Self::List(item) if item.name == OWNER_REFERENCE.name => "[]v1.OwnerReference",
            Self::List(_) => "[]v1.ManagedFieldsEntry",
            Self::Raw => "v1.FieldsV1",
        }
    }
}

impl Place<'_> {
    fn conform_items(
        &self,
        item: &Struct,
        items: &mut [Value],
        found: &mut Found<'_>,
    ) -> Result<(), String> {
        for (index, value) in items.iter_mut().enumerate() {
            let fields = match value {
                Value::Object(fields) => std::mem::take(fields),
                Value::Null => Map::new(),
                other => {
                    let wanted = format!("v1.{}", item.name);
                    found.mismatch(self.mismatch(json_type(other), &wanted));
                    continue;
                }
            };
            let path = format!("{}[{index}]", self.path);
            // A list is taken or dropped as a whole.
            let fields = item.conform(fields, &path, self.go_path, Malformed::Refuse, found)?;
            *value = Value::Object(fields);
        }
        Ok(())
    }

    fn mismatch(&self, got: &str, wanted: &str) -> String {
        format!(
            "json: cannot unmarshal {got} into Go struct field {}{} of type {wanted}",
            self.owner, self.go_path
        )
    }
}

fn mismatch_value(value: &Value, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {wanted}",
        json_type(value)
    )
}

/// Turns a null into the empty string, as Go reads a null into a string.
fn text_or_null(value: &mut Value) -> Result<(), &'static str> {
    match value {
        Value::String(_) => Ok(()),
        Value::Null => {
            *value = Value::String(String::new());
            Ok(())
        }
        other => Err(json_type(other)),
    }
}

/// Returns whether a text is a time that metadata may have.
#[must_use]
pub fn is_time(text: &str) -> bool {
    canonical_time(text).is_ok()
}

/// Returns the canonical form of a time: `2026-11-21T04:09:53.9+01:00` becomes
/// `2026-11-21T03:09:53Z`.
fn canonical_time(text: &str) -> Result<String, String> {
    let refuse = || {
        let text = quote_time(text);
        format!("parsing time {text} as \"2006-01-02T15:04:05Z07:00\": cannot parse it as RFC 3339")
    };
    let strict = text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T');
    let time: Timestamp = text.parse().ok().filter(|_| strict).ok_or_else(refuse)?;
    let fraction =
        SignedDuration::from_nanos(i64::from(time.subsec_nanosecond()).rem_euclid(1_000_000_000));
    let whole = time.checked_sub(fraction).map_err(|_| refuse())?;
    Ok(format!("{whole:.0}"))
}
