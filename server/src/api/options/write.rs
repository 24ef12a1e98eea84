//! `CreateOptions`, `UpdateOptions` and `PatchOptions`.

use apimachinery::error::ApiError;
use apimachinery::request_info::Query;
use apimachinery::schema::FieldError;

use super::check::check;
use super::param;
use crate::registry::strategy::validate;
use crate::registry::{FieldValidation, WriteOptions};

/// The kind of options that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// `CreateOptions`
    Create,
    /// `UpdateOptions`
    Update,
    /// `PatchOptions` of a JSON or merge patch.
    Patch,
    /// `PatchOptions` of an apply patch.
    Apply,
}

impl WriteOptions {
    /// Reads and validates the query parameters.
    ///
    /// # Errors
    /// 422 naming every parameter that breaks a rule.
    pub fn parse(query: &Query, kind: WriteKind) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        if kind == WriteKind::Patch && query.get("force").is_some() {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        let field_manager = param::text(query, "fieldManager");
        let is_apply = kind == WriteKind::Apply;
        errors.extend(validate::manager_name(
            &field_manager,
            "fieldManager",
            is_apply,
        ));
        errors.extend(dry_run_error(&dry_run_values(query)));
        let directive = param::text(query, "fieldValidation");
        let field_validation = match directive.as_str() {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            "" | "Warn" => FieldValidation::Warn,
            other => {
                let allowed = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    other,
                    &allowed,
                ));
                FieldValidation::Warn
            }
        };
        let options = match kind {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch | WriteKind::Apply => "PatchOptions",
        };
        check(options, &errors)?;
        Ok(Self {
            dry_run: !dry_run_values(query).is_empty(),
            field_validation,
            field_manager,
            force: is_apply && param::boolean(query, "force").unwrap_or_default(),
        })
    }
}

pub(super) fn dry_run_values(query: &Query) -> Vec<String> {
    query.all("dryRun").map(str::to_owned).collect()
}

/// Returns the error of a `dryRun` that has anything but `All` in it.
pub(super) fn dry_run_error(values: &[String]) -> Option<FieldError> {
    let bad = values.iter().any(|value| value != "All");
    bad.then(|| FieldError::not_supported("dryRun", values.to_vec(), &["All"]))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", false, FieldValidation::Warn)]
    #[case(
        "dryRun=All&fieldValidation=Strict&fieldManager=kubectl",
        true,
        FieldValidation::Strict
    )]
    #[case(
        "dryRun=All&dryRun=All&fieldValidation=Ignore",
        true,
        FieldValidation::Ignore
    )]
    fn good(#[case] query: &str, #[case] dry_run: bool, #[case] validation: FieldValidation) {
        let got = WriteOptions::parse(&Query::parse(query), WriteKind::Patch).unwrap();
        assert_eq!((got.dry_run, got.field_validation), (dry_run, validation));
        assert!(!got.force);
    }

    #[rstest]
    #[case("fieldManager=me", false)]
    #[case("fieldManager=me&force=true", true)]
    #[case("fieldManager=me&force=", true)]
    #[case("fieldManager=me&force=false", false)]
    fn apply(#[case] query: &str, #[case] force: bool) {
        let got = WriteOptions::parse(&Query::parse(query), WriteKind::Apply).unwrap();
        assert_eq!((got.field_manager.as_str(), got.force), ("me", force));
    }

    #[rstest]
    #[case(
        WriteKind::Create,
        "dryRun=None",
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"None\"]: \
         supported values: \"All\""
    )]
    #[case(
        WriteKind::Update,
        "fieldValidation=strict",
        "UpdateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
         \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
    )]
    #[case(
        WriteKind::Patch,
        "force=true",
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for \
         non-apply patch"
    )]
    #[case(
        WriteKind::Apply,
        "force=true",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for \
         apply patch"
    )]
    #[case(
        WriteKind::Patch,
        "fieldManager=a%0Ab",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\nb\": \
         invalid character U+000A (at position 1)"
    )]
    fn bad(#[case] kind: WriteKind, #[case] query: &str, #[case] expected: &str) {
        let error = WriteOptions::parse(&Query::parse(query), kind).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            (422, expected.to_owned())
        );
    }
}
