//! The small part of Kubernetes' protobuf in which a custom resource is answered and deleted:
//! `Status`, `PartialObjectMetadata(List)` and `WatchEvent` out, `DeleteOptions` in; and its
//! OpenAPI document. Pure.
//!
//! Field numbers are those of `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`. As in Go's
//! encoder, texts and numbers that are no pointers are written also where they are empty.

mod delete_options;
mod meta;
mod openapi;
mod reader;
mod status;
#[cfg(test)]
mod tests;
mod writer;

use serde_json::Value;

use self::writer::Writer;

pub use delete_options::delete_options;
pub use meta::PartialList;
pub use openapi::openapi_document;

/// The beginning of a document.
const MAGIC: &[u8] = b"k8s\0";

/// Returns a document of an object that has a form in protobuf: `Status`, `PartialObjectMetadata`
/// or a list of those. None for any other.
#[must_use]
pub fn document(object: &Value) -> Option<Vec<u8>> {
    let raw = match object["kind"].as_str()? {
        "Status" => status::status(object),
        "PartialObjectMetadata" => meta::partial(&object["metadata"]),
        "PartialObjectMetadataList" => {
            let mut list = PartialList::new(&object["metadata"]);
            for item in object["items"].as_array().into_iter().flatten() {
                list.push(&item["metadata"]);
            }
            return Some(list.document(object["apiVersion"].as_str().unwrap_or_default()));
        }
        _ => return None,
    };
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    Some(envelope(text("apiVersion"), text("kind"), &raw))
}

/// Returns an event of a watch, with its length in front. `object` is a [`document`].
#[must_use]
pub fn event(type_: &str, object: &[u8]) -> Vec<u8> {
    let mut event = Writer::default();
    event.text(1, type_);
    event.message(2, |extension| extension.bytes(1, object));
    let event = event.into_bytes();
    // An event is smaller than the largest object by far.
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&event);
    frame
}

/// Returns `runtime.Unknown`, which says what the bytes are.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut unknown = Writer::default();
    unknown.message(1, |type_meta| {
        type_meta.text(1, api_version);
        type_meta.text(2, kind);
    });
    unknown.bytes(2, raw);
    unknown.text(3, "");
    unknown.text(4, "");
    [MAGIC, &unknown.into_bytes()].concat()
}
