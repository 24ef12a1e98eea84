//! Errors that name a field, in the words of the kube-apiserver.

use std::fmt;

use fieldmanager::go::{Flavour, json, plain, quote};
use serde_json::Value;

/// The kind of a fault of a field; each kind has its own `reason` in a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A value that occurs twice where values must be unique.
    Duplicate,
    /// A value that is not allowed here, whatever it is.
    Forbidden,
    /// A failure of the server, not of the input.
    Internal,
    /// A value that breaks a rule.
    Invalid,
    /// A value outside an enumeration.
    NotSupported,
    /// A missing value.
    Required,
    /// More items or properties than allowed.
    TooMany,
    /// More text than allowed.
    TooLong,
    /// A value of another type than the schema's.
    TypeInvalid,
}

impl FieldErrorKind {
    /// Returns the `reason` of a Status cause.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::Internal => "InternalError",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Required => "FieldValueRequired",
            Self::TooMany => "FieldValueTooMany",
            Self::TooLong => "FieldValueTooLong",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::Internal => "Internal error",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Required => "Required value",
            Self::TooMany => "Too many",
            Self::TooLong => "Too long",
        }
    }
}

/// One error about one field. Printed it is `field: message`, as in the message of a 422 Status.
///
/// The texts are those of `k8s.io/apimachinery/pkg/util/validation/field` 1.36.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field as kube prints it: `results[0].result`, `metadata.name`, `<nil>` for the
    /// root.
    pub field: String,
    /// The kind of the fault.
    pub kind: FieldErrorKind,
    /// The offending value where the message prints it.
    pub value: Option<Value>,
    /// The right value; may be empty.
    pub detail: String,
}

impl FieldError {
    /// Returns `field: Required value: detail`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Required, None, detail)
    }

    /// Returns `field: Invalid value: value: detail`.
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, FieldErrorKind::Invalid, Some(value.into()), detail)
    }

    /// Returns the error of [`FieldError::invalid`], with a value that is printed already.
    pub fn invalid_as(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let detail = format!("{value}: {detail}");
        Self::new(field, FieldErrorKind::Invalid, None, detail)
    }

    /// Returns `field: Invalid value: value: detail`, with the reason of a wrong type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(
            field,
            FieldErrorKind::TypeInvalid,
            Some(value.into()),
            detail,
        )
    }

    /// Returns `field: Forbidden: detail`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Forbidden, None, detail)
    }

    /// Returns `field: Duplicate value: value`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, FieldErrorKind::Duplicate, Some(value.into()), "")
    }

    /// Returns `field: Unsupported value: value: supported values: "a", "b"`.
    pub fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(
            field,
            FieldErrorKind::NotSupported,
            Some(value.into()),
            detail,
        )
    }

    /// Returns `field: Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self::new(field, FieldErrorKind::TooLong, None, detail)
    }

    /// Returns `field: Too many: actual: must have at most N items`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new(field, FieldErrorKind::TooMany, Some(actual.into()), detail)
    }

    fn new(
        field: impl Into<String>,
        kind: FieldErrorKind,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            kind,
            value,
            detail: detail.into(),
        }
    }

    /// Returns the text without the field: the `message` of a Status cause.
    #[must_use]
    pub fn message(&self) -> String {
        let mut text = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&print(value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

impl std::error::Error for FieldError {}

/// Returns a value in the form of an error text (`ErrorBody` of
/// `k8s.io/apimachinery/pkg/util/validation/field`): texts as Go's `%q`, numbers as `%v`, all else
/// in JSON.
fn print(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(_) => plain(value),
        other => json(other, Flavour::Standard),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[rstest::rstest]
    #[case(json!("<b>"), r#""<b>""#)]
    #[case(json!(7), "7")]
    #[case(json!(1_234_567.5), "1.2345675e+06")]
    #[case(json!([1_234_567.5, 1e21, "<b>"]), r#"[1234567.5,1e+21,"\u003cb\u003e"]"#)]
    #[case(json!(null), "null")]
    fn values_are_printed_as_in_go(#[case] value: Value, #[case] expected: &str) {
        let error = FieldError::invalid("a", value, "no");
        assert_eq!(
            error.to_string(),
            format!("a: Invalid value: {expected}: no")
        );
    }
}
