//! Judges an object by its schema.
//!
//! Rules, texts and their order are those of `k8s.io/kube-openapi/pkg/validation/validate` and of
//! `registry/customresource` of `k8s.io/apiextensions-apiserver` 1.36; where Go walks a map in
//! random order, the order here is that of the keys.

mod embedded;
mod junctor;
mod list;
mod number;
mod path;
mod previous;
mod value;

use std::collections::HashSet;

use serde_json::Value;

use self::path::Path;
use self::previous::Previous;
use super::{FieldError, Structural, told};

/// Most errors that are reported about one object, so that an answer cannot outgrow its request.
pub const MAX_ERRORS: usize = 1000;

impl Structural {
    /// Returns all errors of a new object, at most [`MAX_ERRORS`]: the causes of a 422.
    ///
    /// The content of `metadata` is not judged, only that of embedded objects.
    #[must_use]
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let outcome = self.judge(object, &Path::root(), None);
        self.collect(object, outcome, true)
    }

    /// Returns all errors of an object that replaces `old`. Errors that a part of the object had
    /// before, in values that have not changed, are accepted (CRD ratcheting, on since Kubernetes
    /// 1.30).
    #[must_use]
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut outcome = self.judge(object, &Path::root(), None);
        if !outcome.is_valid() {
            // Only what has errors is worth comparing with its former self.
            outcome = self.judge_update(
                object,
                &Path::root(),
                Previous {
                    value: old,
                    schema: self,
                },
            );
        }
        let judge_lists = list::errors(self, old).is_empty();
        self.collect(object, outcome, judge_lists)
    }

    fn collect(&self, object: &Value, outcome: Outcome, judge_lists: bool) -> Vec<FieldError> {
        let mut errors = outcome.errors;
        errors.extend(embedded::errors(self, object));
        if judge_lists {
            errors.extend(list::errors(self, object));
        }
        let mut seen = HashSet::new();
        errors.retain(|error| seen.insert(error.to_string()));
        errors.truncate(MAX_ERRORS);
        errors
    }
}

/// Returns whether no more errors are reported. The field of an error holds the keys that lead to
/// it, which may be as long as the body.
fn is_full(errors: &[FieldError]) -> bool {
    let fields = errors.iter().map(|error| error.field.len());
    errors.len() >= MAX_ERRORS || fields.sum::<usize>() >= told::MAX_BYTES
}

/// The outcome of judging a value by a schema.
#[derive(Debug, Default)]
struct Outcome {
    errors: Vec<FieldError>,
    /// Number of checks that applied and passed; of several failing alternatives, the errors of
    /// that with the most are reported.
    matches: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn push(&mut self, error: FieldError) {
        if !is_full(&self.errors) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        other.errors.into_iter().for_each(|error| self.push(error));
    }

    /// Adds an error without a field of its own.
    fn push_general(&mut self, text: String) {
        self.push(FieldError::invalid("<nil>", "", text));
    }
}
