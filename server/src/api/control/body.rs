//! Reading a body of the control API.

use apimachinery::error::ApiError;
use apimachinery::schema::{self, Encoding};
use apimachinery::status::StatusCause;
use crds::control::API_VERSION;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::http::RequestContext;
use crate::http::negotiation::{BodyType, body_type};

/// Reads a body of `kind`. `apiVersion` and `kind` may be left out, but must not say otherwise; a
/// name must be that of the path.
///
/// # Errors
/// 415 for other encodings, 400 for a body that cannot be read or is something else.
pub fn read<T: DeserializeOwned>(
    ctx: &RequestContext,
    body: &[u8],
    kind: &str,
) -> Result<T, ApiError> {
    let encoding = match body_type(&ctx.headers, &BodyType::OBJECTS)? {
        BodyType::Yaml => Encoding::Yaml,
        _ => Encoding::Json,
    };
    let mut value = schema::decode(body, encoding)
        .map_err(|error| ApiError::bad_request(error.to_string()))?
        .value;
    let bad = |what: String| ApiError::bad_request(format!("the body is no {kind}: {what}"));
    let Some(fields) = value.as_object_mut() else {
        return Err(bad("it is no object".to_owned()));
    };
    for (field, wanted) in [("apiVersion", API_VERSION), ("kind", kind)] {
        let given = fields.entry(field).or_insert_with(|| Value::from(wanted));
        if given != wanted {
            return Err(bad(format!("its {field} is {given}, not {wanted:?}")));
        }
    }
    let metadata = fields
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let name = metadata["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != ctx.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            ctx.info.name
        )));
    }
    serde_json::from_value(value).map_err(|error| bad(error.to_string()))
}

/// Returns a 422 about one field of a body.
#[must_use]
pub fn invalid(ctx: &RequestContext, kind: &str, field: &str, reason: &str) -> ApiError {
    let cause = StatusCause::new("FieldValueInvalid", field, reason);
    ApiError::invalid(crds::control::GROUP, kind, &ctx.info.name, vec![cause])
}
