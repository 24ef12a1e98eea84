//! `metav1.Status`: the answer of Kubernetes where it does not answer with an object.
//!
//! Field order is that of the Go struct, because a `Status` is encoded from the struct (objects are
//! encoded from maps, with sorted keys). Empty fields are left out exactly where Go's `omitempty`
//! leaves them out.

use serde::{Deserialize, Serialize};

/// Most bytes of a message, and of the messages of all causes together. They repeat the wrong
/// value, which may be a whole body, several times and in quotes.
pub const MAX_TEXT: usize = 3 * 1024 * 1024;

/// The answer to a request that failed, or to one that deleted an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// Empty except for the `continue` token of an expired list.
    #[serde(default)]
    pub metadata: StatusMetadata,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason for programs: one of the constants of [`reason`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The subject of the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status; left out of a success.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The part of `ListMeta` that a [`Status`] can carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusMetadata {
    /// Token with which an expired list can go on, from newer data.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_: String,
}

/// The subject of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural name of the resource; for invalid objects and failed preconditions the kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// uid of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Single findings, a field each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds after which the client may try again; also sent as `Retry-After`.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub retry_after_seconds: u32,
}

/// One finding of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCause {
    /// A `CauseType` such as `FieldValueInvalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// JSON path of the field, as `results[0].policy`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl StatusCause {
    /// Returns a finding about `field`; `message` is the text without the field's name.
    pub fn new(
        reason: impl Into<String>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        }
    }
}

impl Status {
    /// Returns a failure with a code, a reason and a message, without details.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: StatusMetadata::default(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code,
        }
    }

    /// Returns the answer to a delete that removed the object: `kind` is the plural name of the
    /// resource.
    #[must_use]
    pub fn deleted(group: &str, kind: &str, name: &str, uid: &str) -> Self {
        Self {
            status: "Success".to_owned(),
            details: Some(StatusDetails {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                uid: uid.to_owned(),
                ..StatusDetails::default()
            }),
            ..Self::failure(0, "", "")
        }
    }

    /// Returns the status with texts that are cut where they are longer than [`MAX_TEXT`].
    #[must_use]
    pub fn bounded(mut self) -> Self {
        cut(&mut self.message, MAX_TEXT);
        let mut left = MAX_TEXT;
        for cause in self.details.iter_mut().flat_map(|d| &mut d.causes) {
            cut(&mut cause.message, left);
            left = left.saturating_sub(cause.message.len());
        }
        self
    }

    /// Returns the seconds for the `Retry-After` header, where the failure may be tried again.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details
            .as_ref()
            .map(|details| details.retry_after_seconds)
            .filter(|s| *s > 0)
    }
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(" ...");
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's `skip_serializing_if` passes a reference
fn is_zero(code: &u16) -> bool {
    *code == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's `skip_serializing_if` passes a reference
fn is_zero_u32(seconds: &u32) -> bool {
    *seconds == 0
}

/// `StatusReason` values.
pub mod reason {
    /// 400
    pub const BAD_REQUEST: &str = "BadRequest";
    /// 401
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// 403
    pub const FORBIDDEN: &str = "Forbidden";
    /// 404
    pub const NOT_FOUND: &str = "NotFound";
    /// 405
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    /// 406
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    /// 409: the name is taken.
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    /// 409: a precondition failed.
    pub const CONFLICT: &str = "Conflict";
    /// 410: the resource version is older than the history that is kept.
    pub const EXPIRED: &str = "Expired";
    /// 410
    pub const GONE: &str = "Gone";
    /// 413
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    /// 415
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
    /// 422
    pub const INVALID: &str = "Invalid";
    /// 429
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    /// 500
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// 503
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
    /// 504
    pub const TIMEOUT: &str = "Timeout";
}
