//! The events of a watch: lines `{"type":…,"object":…}`, or frames in protobuf.

use apimachinery::encoding;
use apimachinery::error::ApiError;
use apimachinery::protobuf;
use bytes::Bytes;
use serde::Serialize;
use storage::cache::{Event, EventType};
use storage::model::StoredObject;

use super::transition::Seen;
use crate::api::view::View;

fn type_name(type_: EventType) -> &'static str {
    match type_ {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
    }
}

fn line(
    type_: &str,
    object: impl FnOnce(&mut Vec<u8>) -> Result<(), ApiError>,
) -> Result<Bytes, ApiError> {
    let mut out = format!(r#"{{"type":"{type_}","object":"#).into_bytes();
    object(&mut out)?;
    out.extend_from_slice(b"}\n");
    Ok(out.into())
}

/// Returns an object that is there already, in a view.
fn stored(
    view: &View,
    type_: &str,
    object: &StoredObject,
    headers: bool,
) -> Result<Bytes, ApiError> {
    if view.is_protobuf() {
        return protobuf_frame(type_, &view.form(object, headers)?);
    }
    line(type_, |out| view.append(out, object, headers))
}

fn value_line(view: &View, type_: &str, object: &impl Serialize) -> Result<Bytes, ApiError> {
    if view.is_protobuf() {
        let value = serde_json::to_value(object).map_err(ApiError::internal)?;
        return protobuf_frame(type_, &value);
    }
    line(type_, |out| {
        encoding::write_json(out, object).map_err(ApiError::internal)
    })
}

fn protobuf_frame(type_: &str, object: &serde_json::Value) -> Result<Bytes, ApiError> {
    let document = protobuf::document(object)
        .ok_or_else(|| ApiError::internal(encoding::EncodingError::Protobuf))?;
    Ok(protobuf::event(type_, &document).into())
}

/// Returns the line of an event. A line that many watches see in the same way is encoded once.
///
/// # Errors
/// If the object's text cannot be read.
pub fn event(
    view: &View,
    event: &Event,
    seen: &Seen<'_>,
    headers: bool,
) -> Result<Bytes, ApiError> {
    let type_ = type_name(seen.type_);
    let encode = || stored(view, type_, &seen.object, headers);
    let shared = matches!(seen.object, std::borrow::Cow::Borrowed(_));
    match view.frame_name().filter(|_| shared) {
        Some(form) => event.frame(&format!("{type_} {form}"), encode),
        None => encode(),
    }
}

/// Returns the line of an object that is there when the watch begins.
///
/// # Errors
/// If its text cannot be read.
pub fn initial(view: &View, object: &StoredObject, headers: bool) -> Result<Bytes, ApiError> {
    stored(view, "ADDED", object, headers)
}

/// Returns the line of a bookmark.
///
/// # Errors
/// Never in practice: a bookmark is made of texts.
pub fn bookmark(
    view: &View,
    rv: u64,
    initial_events_end: bool,
    headers: bool,
) -> Result<Bytes, ApiError> {
    let bookmark = view.bookmark(rv, initial_events_end, headers);
    value_line(view, "BOOKMARK", &bookmark)
}

/// Returns the line of an error, after which the stream ends.
///
/// # Errors
/// Never in practice: a Status is made of texts and numbers.
pub fn error(view: &View, error: &ApiError) -> Result<Bytes, ApiError> {
    value_line(view, "ERROR", &error.to_status())
}
