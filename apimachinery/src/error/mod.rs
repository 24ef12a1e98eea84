//! The errors of the API, with the kube-apiserver's own messages.
//!
//! Source: `k8s.io/apimachinery/pkg/api/errors` (constructors) and
//! `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters` (forbidden, plain 404).

#[cfg(test)]
mod tests;

use std::fmt;

use fieldmanager::go::quote;

use crate::status::{Status, StatusCause, StatusDetails, reason};

/// Largest request body in bytes, as in the kube-apiserver.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The reason why a request is not answered with what it asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// A failure with a [`Status`] body.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// A path that leads nowhere: 404 with the text `404 page not found`.
    #[error("404 page not found")]
    PageNotFound,
}

/// `<plural>.<group>`, or the plural alone in the core group.
struct Qualified<'a>(&'a str, &'a str);

impl fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(group, resource) = self;
        if group.is_empty() {
            f.write_str(resource)
        } else {
            write!(f, "{resource}.{group}")
        }
    }
}

fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        ..StatusDetails::default()
    }
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl ApiError {
    fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Status::failure(code, reason, message).into()
    }

    fn about(code: u16, reason: &str, message: String, details: StatusDetails) -> Self {
        Status {
            details: Some(details),
            ..Status::failure(code, reason, message)
        }
        .into()
    }

    /// Returns the HTTP status code.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Status(status) => status.code,
            Self::PageNotFound => 404,
        }
    }

    /// Returns the machine-readable reason; empty for [`ApiError::PageNotFound`].
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Status(status) => &status.reason,
            Self::PageNotFound => "",
        }
    }

    /// Returns the error as the `Status` object that a watch sends in an `ERROR` event.
    #[must_use]
    pub fn to_status(&self) -> Status {
        match self {
            Self::Status(status) => status.as_ref().clone(),
            Self::PageNotFound => {
                Status::failure(404, reason::NOT_FOUND, "the server could not find the page")
            }
        }
    }

    /// Returns the same error, with a pause after which it may be tried again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Self::Status(status) = &mut self {
            status.details.get_or_insert_default().retry_after_seconds = seconds;
        }
        self
    }

    /// Returns the same error with one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: StatusCause) -> Self {
        if let Self::Status(status) = &mut self {
            status.details.get_or_insert_default().causes.push(cause);
        }
        self
    }

    /// Returns a 404 for an object: `policyreports.wgpolicyk8s.io "x" not found`.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} not found", Qualified(group, resource), quote(name));
        Self::about(
            404,
            reason::NOT_FOUND,
            message,
            details(group, resource, name),
        )
    }

    /// Returns a 409: the name is taken.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!(
            "{} {} already exists",
            Qualified(group, resource),
            quote(name)
        );
        Self::about(
            409,
            reason::ALREADY_EXISTS,
            message,
            details(group, resource, name),
        )
    }

    /// Returns a 409: the name is taken by an object that is being deleted.
    #[must_use]
    pub fn already_exists_terminating(group: &str, resource: &str, name: &str) -> Self {
        let message = format!(
            "object is being deleted: {} {} already exists",
            Qualified(group, resource),
            quote(name)
        );
        Self::about(
            409,
            reason::ALREADY_EXISTS,
            message,
            details(group, resource, name),
        )
    }

    /// Returns a 409: every generated name was taken.
    #[must_use]
    pub fn generate_name_conflict(group: &str, resource: &str, name: &str) -> Self {
        let message = format!(
            "{} {} already exists, the server was not able to generate a unique name for the object",
            Qualified(group, resource),
            quote(name)
        );
        Self::about(
            409,
            reason::ALREADY_EXISTS,
            message,
            details(group, resource, name),
        )
        .retry_after(1)
    }

    /// Returns a 409: `Operation cannot be fulfilled on … "x": <why>`. `resource` is the plural,
    /// but the kind where a delete's precondition failed.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            Qualified(group, resource),
            quote(name)
        );
        Self::about(
            409,
            reason::CONFLICT,
            message,
            details(group, resource, name),
        )
    }

    /// Returns a 409: the object has a newer resourceVersion than the request was made for.
    #[must_use]
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(group, resource, name, why)
    }

    /// Returns a 422 with the findings, a cause each, in their order.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<StatusCause>) -> Self {
        let head = format!("{} {} is invalid", Qualified(group, kind), quote(name));
        let message = match invalid_texts(&causes).as_slice() {
            [] => head,
            [one] => format!("{head}: {one}"),
            many => format!("{head}: [{}]", many.join(", ")),
        };
        let details = StatusDetails {
            causes,
            ..details(group, kind, name)
        };
        Self::about(422, reason::INVALID, message, details)
    }

    /// Returns a 422 for a JSON patch that does not apply (failed `test`, missing path).
    #[must_use]
    pub fn patch_not_applicable() -> Self {
        let message = "the server rejected our request due to an error in our request".to_owned();
        Self::about(422, reason::INVALID, message, StatusDetails::default())
    }

    /// Returns a 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, reason::BAD_REQUEST, message)
    }

    /// Returns a 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, reason::UNAUTHORIZED, "Unauthorized")
    }

    /// Returns a 403: `… "x" is forbidden: <why>`; without a resource `forbidden: <why>`.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource.is_empty() && group.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{} is forbidden: {why}", Qualified(group, resource)),
            (false, false) => {
                format!(
                    "{} {} is forbidden: {why}",
                    Qualified(group, resource),
                    quote(name)
                )
            }
        };
        Self::about(
            403,
            reason::FORBIDDEN,
            message,
            details(group, resource, name),
        )
    }

    /// Returns a 403 of the `NamespaceLifecycle` admission plugin for a create in a namespace that
    /// is being deleted. Kyverno matches on this text, the namespace controller on the cause.
    #[must_use]
    pub fn namespace_terminating(group: &str, resource: &str, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        Self::forbidden(group, resource, name, &why).with_cause(StatusCause::new(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {namespace} is being terminated"),
        ))
    }

    /// Returns a 405: `<action> is not supported on resources of kind "<plural>.<group>"`.
    #[must_use]
    pub fn method_not_allowed(group: &str, resource: &str, action: &str) -> Self {
        let kind = quote(&Qualified(group, resource).to_string());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Self::about(
            405,
            reason::METHOD_NOT_ALLOWED,
            message,
            details(group, resource, ""),
        )
    }

    /// Returns a 406 with the media types that could have been asked for.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!("only the following media types are accepted: {list}");
        Self::new(406, reason::NOT_ACCEPTABLE, message)
    }

    /// Returns a 406 where the requested transformation does not fit the answer.
    #[must_use]
    pub fn not_acceptable_because(message: impl Into<String>) -> Self {
        Self::new(406, reason::NOT_ACCEPTABLE, message)
    }

    /// Returns a 415 with the media types that could have been sent.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::new(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// Returns a 413 for a body above [`MAX_BODY_BYTES`].
    #[must_use]
    pub fn body_too_large() -> Self {
        Self::request_entity_too_large(&format!("limit is {MAX_BODY_BYTES}"))
    }

    /// Returns a 413: `Request entity too large: <what>`.
    #[must_use]
    pub fn request_entity_too_large(what: &str) -> Self {
        let message = format!("Request entity too large: {what}");
        Self::new(413, reason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// Returns a 429 with `Retry-After`.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(429, reason::TOO_MANY_REQUESTS, message).retry_after(seconds)
    }

    /// Returns a 503 with `Retry-After`.
    #[must_use]
    pub fn service_unavailable(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(503, reason::SERVICE_UNAVAILABLE, message).retry_after(seconds)
    }

    /// Returns a 504: `Timeout: <what>`.
    #[must_use]
    pub fn timeout(what: &str, retry_after_seconds: u32) -> Self {
        let message = format!("Timeout: {what}");
        let details = StatusDetails {
            retry_after_seconds,
            ..StatusDetails::default()
        };
        Self::about(504, reason::TIMEOUT, message, details)
    }

    /// Returns a 504 for a request that was still being worked on at its deadline.
    #[must_use]
    pub fn request_timeout() -> Self {
        Self::timeout("request did not complete within the allotted duration", 0)
    }

    /// Returns a 504 for a resource version that has not been reached within the wait (3 s).
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        Self::timeout(
            &format!("Too large resource version: {asked}, current: {current}"),
            1,
        )
        .with_cause(StatusCause::new(
            "ResourceVersionTooLarge",
            "",
            "Too large resource version",
        ))
    }

    /// Returns a 410 for a resource version below the horizon.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, reason::EXPIRED, message)
    }

    /// Returns a 410 of a watch: `too old resource version: <asked> (<oldest>)`.
    #[must_use]
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// Returns a 410 of a paged list, with a token that goes on from the newest data.
    #[must_use]
    pub fn expired_continue(message: impl Into<String>, token: impl Into<String>) -> Self {
        let mut status = Status::failure(410, reason::EXPIRED, message);
        status.metadata.continue_ = token.into();
        status.into()
    }

    /// Returns a 410 with reason `Gone`.
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, reason::GONE, message)
    }

    /// Returns a 500: `Internal error occurred: <what>`.
    #[must_use]
    pub fn internal(what: impl fmt::Display) -> Self {
        let what = what.to_string();
        let message = format!("Internal error occurred: {what}");
        let cause = StatusCause {
            message: what,
            ..StatusCause::default()
        };
        Self::new(500, reason::INTERNAL_ERROR, message).with_cause(cause)
    }
}

/// Returns the findings as `field: message`, each text once, in order.
fn invalid_texts(causes: &[StatusCause]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::with_capacity(causes.len());
    for cause in causes {
        let text = format!("{}: {}", cause.field, cause.message);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
