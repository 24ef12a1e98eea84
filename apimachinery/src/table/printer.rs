//! Tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::metadata::object;
use super::{Column, JsonPath, JsonPathError, MetaVersion, human_duration, partial_metadata};
use crate::meta_v1::object_meta_description;

/// The part of each object that a row carries: the `includeObject` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads the parameter; empty means the default.
    ///
    /// # Errors
    /// The message of a 400: `unrecognized includeObject value: "x"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(format!("unrecognized includeObject value: {other:?}")),
        }
    }
}

/// Options of rows.
#[derive(Clone, Copy, Debug)]
pub struct RowOptions {
    /// The part of each object that a row carries.
    pub include: IncludeObject,
    /// Version of the Table and of the metadata in its rows.
    pub version: MetaVersion,
    /// The time that ages are counted to.
    pub now: Timestamp,
}

/// The columns of one version of a resource, ready to make rows.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    columns: Vec<(ColumnType, JsonPath)>,
    definitions: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnType {
    String,
    Integer,
    Number,
    Boolean,
    Date,
}

impl Printer {
    /// Returns a printer of the built-in `Name` and the given columns.
    ///
    /// # Errors
    /// If the path of a column cannot be used.
    pub fn new(columns: &[Column]) -> Result<Self, JsonPathError> {
        let mut definitions = vec![definition(
            "Name",
            "string",
            "name",
            object_meta_description("name"),
            0,
        )];
        let mut paths = Vec::with_capacity(columns.len());
        for column in columns {
            paths.push((
                ColumnType::of(&column.type_),
                JsonPath::parse(&column.json_path)?,
            ));
            let path = &column.json_path;
            let made = format!("Custom resource definition column (in JSONPath format): {path}");
            let description = if column.description.is_empty() {
                &made
            } else {
                &column.description
            };
            definitions.push(definition(
                &column.name,
                &column.type_,
                &column.format,
                description,
                column.priority,
            ));
        }
        Ok(Self {
            columns: paths,
            definitions: Value::Array(definitions),
        })
    }

    /// Returns a Table of rows made by [`Printer::row`]. `metadata` is the list's (resourceVersion,
    /// continue, remainingItemCount), or the resourceVersion of a single object. Without `headers`
    /// the column definitions are left out, as in all events of a watch but the first.
    #[must_use]
    pub fn table(
        &self,
        metadata: Value,
        rows: Vec<Value>,
        headers: bool,
        version: MetaVersion,
    ) -> Value {
        let definitions = if headers {
            self.definitions.clone()
        } else {
            Value::Null
        };
        object([
            ("apiVersion", version.api_version().into()),
            ("kind", "Table".into()),
            ("metadata", metadata),
            ("columnDefinitions", definitions),
            ("rows", rows.into()),
        ])
    }

    /// Returns the row of an object.
    #[must_use]
    pub fn row(&self, report: Value, options: &RowOptions) -> Value {
        let name = report
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut cells = Vec::with_capacity(self.columns.len() + 1);
        cells.push(Value::from(name));
        cells.extend(
            self.columns
                .iter()
                .map(|(type_, path)| match path.first(&report) {
                    Some(value) => type_.cell(value, options.now),
                    None => Value::Null,
                }),
        );
        let included = match options.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial_metadata(report, options.version),
            IncludeObject::Object => report,
        };
        object([("cells", cells.into()), ("object", included)])
    }
}

fn definition(name: &str, type_: &str, format: &str, description: &str, priority: i32) -> Value {
    json!({
        "name": name,
        "type": type_,
        "format": format,
        "description": description,
        "priority": priority,
    })
}

impl ColumnType {
    /// Returns the column type of this name. Unknown types do not pass the kube-apiserver's
    /// validation; they print as texts.
    fn of(name: &str) -> Self {
        match name {
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            _ => Self::String,
        }
    }

    fn cell(self, value: &Value, now: Timestamp) -> Value {
        match (self, value) {
            (Self::String, value) => Value::String(text(value)),
            (Self::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => integer.into(),
                (None, Some(float)) => truncate(float),
                (None, None) => Value::Null,
            },
            (Self::Number, Value::Number(_)) | (Self::Boolean, Value::Bool(_)) => value.clone(),
            (Self::Date, Value::String(text)) => Value::String(age(text, now)),
            _ => Value::Null,
        }
    }
}

/// Converts a float to an int64 as Go does, which cuts the fraction off.
#[expect(
    clippy::cast_possible_truncation,
    reason = "saturating is as good as any at the bounds"
)]
fn truncate(float: f64) -> Value {
    (float as i64).into()
}

/// Returns a value as text, as `fmt.Fprint` and JSON write it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        other => other.to_string(),
    }
}

fn age(text: &str, now: Timestamp) -> String {
    if text.is_empty() {
        return "<unknown>".to_owned();
    }
    match text.parse::<Timestamp>() {
        Ok(time) => human_duration(now.duration_since(time)),
        Err(_) => "<invalid>".to_owned(),
    }
}
