//! The text of objects in answers: in the requested version and form.
//!
//! The text of a stored object is copied into the answer as it is, except for `apiVersion`; only
//! Tables, YAML, indented JSON and versions with a schema of their own need it parsed.

mod list;
mod tables;

use std::sync::Arc;

use apimachinery::definition::{ResourceDefinition, VersionDefinition};
use apimachinery::encoding;
use apimachinery::error::ApiError;
use apimachinery::schema::{Malformed, Structural};
use apimachinery::table;
use http::StatusCode;
use serde_json::{Map, Value, json};
use storage::model::StoredObject;

pub use list::ListMeta;

use self::tables::{TableView, meta_version};
use super::escape;
use super::scope::Scope;
use crate::http::negotiation::{Accepted, MediaType, MetaVersion, Transform};
use crate::http::response;
use crate::registry::{Form, Outcome, unknown_error};

/// Annotation of the bookmark that ends the initial events of a watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The form of an answer to one request.
#[derive(Debug)]
pub struct View {
    /// The form that was agreed on.
    pub accepted: Accepted,
    api_version: String,
    kind: String,
    list_kind: String,
    /// The schema of the requested version where it differs from that of the stored one: fields
    /// that it does not know are left out.
    prune: Option<Arc<Structural>>,
    table: Option<TableView>,
}

impl View {
    /// Returns the view of a request, for one object or for a list.
    ///
    /// # Errors
    /// 400 for an unknown `includeObject`, 406 where the form does not fit.
    pub fn new(scope: &Scope, accepted: Accepted, list: bool) -> Result<Self, ApiError> {
        check_fits(accepted.transform, list)?;
        let definition = &scope.definition;
        Ok(Self {
            accepted,
            api_version: definition.api_version(&scope.version.name),
            kind: definition.kind.clone(),
            list_kind: definition.list_kind.clone(),
            prune: schema_of_its_own(definition, &scope.version),
            table: match accepted.transform {
                Transform::Table(version) => Some(TableView::new(
                    &scope.version,
                    &scope.ctx.info.query,
                    version,
                )?),
                _ => None,
            },
        })
    }

    /// Returns whether a list can be written object by object without being parsed as a whole.
    fn streams(&self) -> bool {
        self.accepted.media_type == MediaType::Json && !self.accepted.pretty
    }

    /// Returns true when the text of an item depends on nothing but the stored object and the
    /// version.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.streams() && self.prune.is_none() && self.accepted.transform == Transform::None
    }

    /// Returns whether this is the metadata of objects in protobuf.
    #[must_use]
    pub fn is_protobuf(&self) -> bool {
        self.accepted.media_type == MediaType::Protobuf
    }

    /// Returns a name that tells the encoding of an event in this view from others: empty when
    /// encodings differ from one watch to the next, as ages in Tables do.
    #[must_use]
    pub fn frame_name(&self) -> Option<String> {
        match self.accepted.transform {
            Transform::None => Some(self.api_version.clone()),
            Transform::PartialObjectMetadata(version)
            | Transform::PartialObjectMetadataList(version) => {
                let encoding = self.accepted.media_type.as_str();
                let version = version.api_version();
                Some(format!("{encoding} {version} {}", self.api_version))
            }
            Transform::Table(_) => None,
        }
    }

    /// Returns the object as a JSON value in the requested version.
    ///
    /// # Errors
    /// If the stored text cannot be read.
    pub fn value(&self, object: &StoredObject) -> Result<Value, ApiError> {
        let mut value = object.value().map_err(ApiError::internal)?;
        value["apiVersion"] = Value::from(self.api_version.as_str());
        if let Some(schema) = &self.prune {
            // Malformed metadata is dropped, never refused, so this cannot fail.
            schema
                .coerce(&mut value, Malformed::Drop)
                .map_err(ApiError::internal)?;
            schema.default_values(&mut value);
        }
        Ok(value)
    }

    /// Appends the JSON of one object in this form, without a line feed. `headers` tells a Table
    /// to describe its columns.
    ///
    /// # Errors
    /// If the stored text cannot be read.
    pub fn append(
        &self,
        out: &mut Vec<u8>,
        object: &StoredObject,
        headers: bool,
    ) -> Result<(), ApiError> {
        match self.accepted.transform {
            Transform::None if self.prune.is_none() => self.append_text(out, object),
            Transform::PartialObjectMetadata(version)
            | Transform::PartialObjectMetadataList(version) => append_partial(out, object, version),
            _ => {
                let value = self.transform(self.value(object)?, headers);
                encoding::write_json(out, &value).map_err(ApiError::internal)
            }
        }
    }

    fn append_text(&self, out: &mut Vec<u8>, object: &StoredObject) -> Result<(), ApiError> {
        let start = out.len();
        object
            .append_json(out, Some(&self.api_version))
            .map_err(ApiError::internal)?;
        escape::html(out, start);
        Ok(())
    }

    /// Brings an object of the requested version into this form.
    #[must_use]
    pub fn transform(&self, object: Value, headers: bool) -> Value {
        match (self.accepted.transform, &self.table) {
            (Transform::Table(_), Some(table)) => {
                let rv = object.pointer("/metadata/resourceVersion").cloned();
                let metadata = match rv {
                    Some(rv) => json!({ "resourceVersion": rv }),
                    None => json!({}),
                };
                let row = table.row(object);
                table.table(metadata, vec![row], headers)
            }
            (Transform::PartialObjectMetadata(version), _) => {
                table::partial_metadata(object, meta_version(version))
            }
            _ => object,
        }
    }

    /// Returns a stored object in this form, as a value. If only metadata is asked for, nothing
    /// else of the object is read.
    ///
    /// # Errors
    /// If the stored text cannot be read.
    pub fn form(&self, object: &StoredObject, headers: bool) -> Result<Value, ApiError> {
        let object = match self.accepted.transform {
            Transform::PartialObjectMetadata(_) => {
                let metadata = metadata(object)?;
                Value::Object(Map::from_iter([("metadata".to_owned(), metadata)]))
            }
            _ => self.value(object)?,
        };
        Ok(self.transform(object, headers))
    }

    /// Returns a bookmark at `rv`. The bookmark that ends the initial events says so.
    #[must_use]
    pub fn bookmark(&self, rv: u64, initial_events_end: bool, headers: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": rv.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let object = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
        });
        let partial = table::partial_metadata(object.clone(), table::MetaVersion::V1);
        let mut bookmark = self.transform(object, headers);
        let empty_row = bookmark
            .pointer_mut("/rows/0/object")
            .filter(|row| row.is_null());
        if let (true, Some(row)) = (initial_events_end, empty_row) {
            // The annotation must reach the client also where rows carry no objects.
            *row = partial;
        }
        bookmark
    }

    /// Returns an answer with one stored object.
    ///
    /// # Errors
    /// If the stored text cannot be read.
    pub fn respond(
        &self,
        code: StatusCode,
        object: &StoredObject,
    ) -> Result<axum::response::Response, ApiError> {
        if !self.streams() {
            return response::object(code, self.accepted, &self.form(object, true)?);
        }
        let mut body = Vec::new();
        self.append(&mut body, object, true)?;
        body.push(b'\n');
        Ok(response::bytes(code, self.accepted.content_type(), body))
    }

    /// Returns an answer with the outcome of a write.
    ///
    /// # Errors
    /// If it cannot be read or encoded.
    pub fn respond_outcome(&self, outcome: Outcome) -> Result<axum::response::Response, ApiError> {
        let code = if outcome.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        self.respond_form(code, outcome.object)
    }

    /// Returns an answer with an object after a write.
    ///
    /// # Errors
    /// If it cannot be read or encoded.
    pub fn respond_form(
        &self,
        code: StatusCode,
        object: Form,
    ) -> Result<axum::response::Response, ApiError> {
        match object {
            Form::Stored(object) => self.respond(code, &object),
            Form::Unstored(object) => {
                let object = self.transform(Value::Object(object), true);
                response::object(code, self.accepted, &object)
            }
        }
    }
}

/// Returns the metadata of a stored object; nothing else of it is read.
fn metadata(object: &StoredObject) -> Result<Value, ApiError> {
    let text = object.metadata_json().map_err(ApiError::internal)?;
    serde_json::from_slice(&text).map_err(ApiError::internal)
}

fn append_partial(
    out: &mut Vec<u8>,
    object: &StoredObject,
    version: MetaVersion,
) -> Result<(), ApiError> {
    let start = out.len();
    out.extend_from_slice(br#"{"apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","kind":"PartialObjectMetadata","metadata":"#);
    object
        .append_metadata_json(out)
        .map_err(ApiError::internal)?;
    out.push(b'}');
    escape::html(out, start);
    Ok(())
}

fn check_fits(transform: Transform, list: bool) -> Result<(), ApiError> {
    match (transform, list) {
        (Transform::PartialObjectMetadata(_), true) => Err(ApiError::not_acceptable_because(
            "you requested PartialObjectMetadata, but the requested object is a list \
             (*unstructured.UnstructuredList)",
        )),
        // Not a 406, because the kube-apiserver has none for it.
        (Transform::PartialObjectMetadataList(_), false) => {
            Err(unknown_error("content is not a list"))
        }
        _ => Ok(()),
    }
}

fn schema_of_its_own(
    definition: &ResourceDefinition,
    version: &VersionDefinition,
) -> Option<Arc<Structural>> {
    let same = definition
        .storage_version()
        .is_none_or(|storage| storage.open_api == version.open_api);
    (!same).then(|| Arc::clone(&version.schema))
}
