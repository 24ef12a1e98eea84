//! Fields and columns that all report APIs have: results, summary and scope.

use serde_json::Value;

use super::Column;
use super::schema::{
    Field, atomic, boolean, integer, list, object, one_of, sized_integer, string, string_map,
};

/// Outcomes of a check.
pub const RESULTS: &[&str] = &["pass", "fail", "warn", "error", "skip"];
/// Severities of a failed check, in the order of the vendors' CRDs.
const SEVERITIES: &[&str] = &["critical", "high", "low", "medium", "info"];

/// Columns with the counts of a summary; `$prefix` is where the summary is.
macro_rules! summary_columns {
    ($prefix:literal, [$pass:literal, $fail:literal, $warn:literal, $error:literal, $skip:literal]) => {
        [
            $crate::catalog::Column::new($pass, "integer", concat!($prefix, ".summary.pass")),
            $crate::catalog::Column::new($fail, "integer", concat!($prefix, ".summary.fail")),
            $crate::catalog::Column::new($warn, "integer", concat!($prefix, ".summary.warn")),
            $crate::catalog::Column::new($error, "integer", concat!($prefix, ".summary.error")),
            $crate::catalog::Column::new($skip, "integer", concat!($prefix, ".summary.skip")),
        ]
    };
    ($prefix:literal) => {
        summary_columns!($prefix, ["Pass", "Fail", "Warn", "Error", "Skip"])
    };
}
pub(super) use summary_columns;

/// Kind of the object that a report is about.
pub const SCOPE_KIND: Column = Column::new("Kind", "string", ".scope.kind");
/// Name of the object that a report is about.
pub const SCOPE_NAME: Column = Column::new("Name", "string", ".scope.name");
/// Age of a report.
pub const AGE: Column = Column::new("Age", "date", ".metadata.creationTimestamp");

/// Returns the field `summary`.
pub fn summary() -> Field {
    let counts = [
        ("pass", integer("Checks that were met.")),
        ("fail", integer("Checks that were not met.")),
        (
            "warn",
            integer("Checks that were not met and do not count."),
        ),
        ("error", integer("Checks that could not be carried out.")),
        ("skip", integer("Checks that did not apply.")),
    ];
    (
        "summary",
        object("Number of results by outcome.", &[], counts),
    )
}

/// Returns the field `results`.
pub fn results() -> Field {
    ("results", list("Outcomes of the single checks.", &result()))
}

/// Returns the field `scope`.
pub fn scope() -> Field {
    (
        "scope",
        object_reference("The object that the whole report is about."),
    )
}

/// Returns the field `scopeSelector`.
pub fn scope_selector() -> Field {
    (
        "scopeSelector",
        label_selector("The objects that the whole report is about, by their labels."),
    )
}

/// Returns the field `spec.owner`.
pub fn owner() -> Field {
    let fields = [
        ("apiVersion", string("API group and version of the owner.")),
        ("kind", string("Kind of the owner.")),
        ("name", string("Name of the owner.")),
        ("uid", string("uid of the owner.")),
        (
            "controller",
            boolean("Whether the owner is the managing controller."),
        ),
        (
            "blockOwnerDeletion",
            boolean("Whether foreground deletion of the owner waits for the report."),
        ),
    ];
    let required = ["apiVersion", "kind", "name", "uid"];
    (
        "owner",
        atomic(object(
            "The object that the report is about.",
            &required,
            fields,
        )),
    )
}

fn result() -> Value {
    object(
        "Outcome of one check of one policy.",
        &["policy"],
        [
            ("source", string("Policy engine that made the check.")),
            ("policy", string("Name of the policy.")),
            ("rule", string("Name of the rule within the policy.")),
            ("category", string("Category of the policy.")),
            (
                "severity",
                one_of("How bad it is when the check fails.", SEVERITIES),
            ),
            ("result", one_of("Outcome of the check.", RESULTS)),
            (
                "scored",
                boolean("Whether the result counts in an assessment."),
            ),
            ("message", string("Explanation for people.")),
            (
                "properties",
                string_map("Further facts, as the policy engine sees fit."),
            ),
            ("timestamp", timestamp()),
            (
                "resources",
                list(
                    "The objects that were checked; without it, the report's scope.",
                    &object_reference("An object that was checked."),
                ),
            ),
            (
                "resourceSelector",
                label_selector("The objects that were checked, by their labels."),
            ),
        ],
    )
}

fn timestamp() -> Value {
    object(
        "When the result was found.",
        &["nanos", "seconds"],
        [
            (
                "seconds",
                sized_integer(
                    "Seconds since 1970-01-01T00:00:00Z, without leap seconds.",
                    "int64",
                ),
            ),
            (
                "nanos",
                sized_integer(
                    "Nanoseconds within that second, from 0 to 999999999.",
                    "int32",
                ),
            ),
        ],
    )
}

fn object_reference(description: &str) -> Value {
    atomic(object(
        description,
        &[],
        [
            ("apiVersion", string("API group and version of the object.")),
            ("kind", string("Kind of the object.")),
            ("namespace", string("Namespace of the object.")),
            ("name", string("Name of the object.")),
            ("uid", string("uid of the object.")),
            (
                "resourceVersion",
                string("resourceVersion of the object when it was looked at."),
            ),
            (
                "fieldPath",
                string("Part of the object, where it is not the whole."),
            ),
        ],
    ))
}

fn label_selector(description: &str) -> Value {
    let values = atomic(list(
        "Values to compare with, for the operators In and NotIn; otherwise empty.",
        &serde_json::json!({"type": "string"}),
    ));
    let requirement = object(
        "A condition on one label.",
        &["key", "operator"],
        [
            ("key", string("Key of the label.")),
            (
                "operator",
                string("How it is compared: In, NotIn, Exists or DoesNotExist."),
            ),
            ("values", values),
        ],
    );
    atomic(object(
        description,
        &[],
        [
            (
                "matchLabels",
                string_map("Labels and the values that they must have."),
            ),
            (
                "matchExpressions",
                atomic(list("Conditions on labels; all must hold.", &requirement)),
            ),
        ],
    ))
}
