//! The text of objects in answers: in the requested version and form.
//!
//! The text of a stored object is copied into the answer as it is, except for `apiVersion`; only
//! Tables, YAML, indented JSON and versions with a schema of their own need it parsed.

use std::sync::Arc;

use apimachinery::definition::{ResourceDefinition, VersionDefinition};
use apimachinery::encoding;
use apimachinery::encoding::EncodingError;
use apimachinery::error::ApiError;
use apimachinery::protobuf::PartialList;
use apimachinery::request_info::Query;
use apimachinery::schema::{FieldError, Malformed, Structural};
use apimachinery::table::{self, IncludeObject, Printer, RowOptions};
use http::StatusCode;
use serde_json::{Map, Value, json};
use storage::model::StoredObject;

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

#[derive(Debug)]
struct TableView {
    printer: Printer,
    include: IncludeObject,
    version: table::MetaVersion,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// Version of the data.
    pub rv: u64,
    /// Token of the next page; empty on the last.
    pub continue_token: String,
    /// Number of objects that follow, where that is known.
    pub remaining: Option<usize>,
}

fn meta_version(version: MetaVersion) -> table::MetaVersion {
    match version {
        MetaVersion::V1 => table::MetaVersion::V1,
        MetaVersion::V1Beta1 => table::MetaVersion::V1Beta1,
    }
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

    /// Returns an answer with a list.
    ///
    /// # Errors
    /// If a stored text cannot be read before the first bytes are sent.
    pub fn respond_list(
        self,
        objects: Vec<Arc<StoredObject>>,
        meta: &ListMeta,
    ) -> Result<axum::response::Response, ApiError> {
        if self.streams() {
            return super::stream::respond(self, objects, meta);
        }
        if self.is_protobuf() {
            return self.respond_protobuf(&objects, meta);
        }
        let list = self.list_value(&objects, meta)?;
        response::object(StatusCode::OK, self.accepted, &list)
    }

    /// Returns the metadata of a list, object by object: a list may be large.
    fn respond_protobuf(
        &self,
        objects: &[Arc<StoredObject>],
        meta: &ListMeta,
    ) -> Result<axum::response::Response, ApiError> {
        let (Transform::PartialObjectMetadata(version)
        | Transform::PartialObjectMetadataList(version)) = self.accepted.transform
        else {
            return Err(ApiError::internal(EncodingError::Protobuf));
        };
        let mut list = PartialList::new(&self.list_metadata(meta));
        for object in objects {
            list.push(&metadata(object)?);
        }
        let body = list.document(version.api_version());
        let content_type = self.accepted.content_type();
        Ok(response::bytes(StatusCode::OK, content_type, body))
    }

    fn list_value(
        &self,
        objects: &[Arc<StoredObject>],
        meta: &ListMeta,
    ) -> Result<Value, ApiError> {
        let (mut head, tail) = self.list_frame(meta);
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                head.push(b',');
            }
            self.append_item(&mut head, object)?;
        }
        head.extend_from_slice(&tail);
        serde_json::from_slice(&head).map_err(ApiError::internal)
    }

    /// Appends an object as an item of a list: an object, or the row of a Table.
    ///
    /// # Errors
    /// If the stored text cannot be read.
    pub fn append_item(&self, out: &mut Vec<u8>, object: &StoredObject) -> Result<(), ApiError> {
        match &self.table {
            None => self.append(out, object, false),
            Some(table) => {
                let row = table.row(self.value(object)?);
                encoding::write_json(out, &row).map_err(ApiError::internal)
            }
        }
    }

    /// Returns the text before and behind the items of a list.
    #[must_use]
    pub fn list_frame(&self, meta: &ListMeta) -> (Vec<u8>, Vec<u8>) {
        let metadata = self.list_metadata(meta);
        if let Some(table) = &self.table {
            let columns = table.table(Value::Null, Vec::new(), true)["columnDefinitions"].take();
            let head = format!(
                r#"{{"kind":"Table","apiVersion":"{}","metadata":{metadata},"columnDefinitions":{},"rows":["#,
                table.version.api_version(),
                go_text(&columns),
            );
            return (head.into_bytes(), b"]}".to_vec());
        }
        let (api_version, kind) = match self.accepted.transform {
            Transform::PartialObjectMetadata(version)
            | Transform::PartialObjectMetadataList(version) => {
                (version.api_version(), "PartialObjectMetadataList")
            }
            _ => (self.api_version.as_str(), self.list_kind.as_str()),
        };
        let head = format!(r#"{{"apiVersion":"{api_version}","items":["#);
        let tail = format!(r#"],"kind":"{kind}","metadata":{metadata}}}"#);
        (head.into_bytes(), tail.into_bytes())
    }

    fn list_metadata(&self, meta: &ListMeta) -> Value {
        let mut metadata = Map::new();
        let plain = self.accepted.transform == Transform::None;
        // Lists of custom resources have the key also when it is empty; those of metadata, which
        // the kube-apiserver encodes from another type, and Tables leave it out.
        if plain || !meta.continue_token.is_empty() {
            metadata.insert(
                "continue".to_owned(),
                Value::from(meta.continue_token.as_str()),
            );
        }
        if let Some(remaining) = meta.remaining {
            metadata.insert("remainingItemCount".to_owned(), Value::from(remaining));
        }
        metadata.insert(
            "resourceVersion".to_owned(),
            Value::from(meta.rv.to_string()),
        );
        Value::Object(metadata)
    }
}

/// Returns a value as compact JSON with Go's escapes.
fn go_text(value: &Value) -> String {
    let bytes = encoding::to_json(value).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
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

impl TableView {
    fn new(
        version: &VersionDefinition,
        query: &Query,
        meta: MetaVersion,
    ) -> Result<Self, ApiError> {
        let text = query.get("includeObject").unwrap_or_default();
        let include = IncludeObject::parse(text).map_err(|_| {
            let error = FieldError::invalid(
                "includeObject",
                text,
                "must be 'Metadata', 'Object', 'None', or empty",
            );
            ApiError::bad_request(format!("Unable to convert to Table as requested: {error}"))
        })?;
        let printer = Printer::new(&version.columns).map_err(ApiError::internal)?;
        Ok(Self {
            printer,
            include,
            version: meta_version(meta),
        })
    }

    fn row(&self, object: Value) -> Value {
        let options = RowOptions {
            include: self.include,
            version: self.version,
            now: jiff::Timestamp::now(),
        };
        self.printer.row(object, &options)
    }

    fn table(&self, metadata: Value, rows: Vec<Value>, headers: bool) -> Value {
        self.printer.table(metadata, rows, headers, self.version)
    }
}
