//! Answers with lists: written object by object, in protobuf, or as one value.

use std::sync::Arc;

use apimachinery::encoding;
use apimachinery::encoding::EncodingError;
use apimachinery::error::ApiError;
use apimachinery::protobuf::PartialList;
use http::StatusCode;
use serde_json::{Map, Value};
use storage::model::StoredObject;

use super::{View, metadata};
use crate::api::stream;
use crate::http::negotiation::Transform;
use crate::http::response;

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

impl View {
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
            return stream::respond(self, objects, meta);
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
