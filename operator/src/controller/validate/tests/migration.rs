//! The settings of a migration.

use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::Verification;
use serde_json::json;

use crate::controller::fixtures::{try_validate, validated};
use crate::database::place::{Database, Storage};

#[test]
fn how_a_copy_is_verified_and_settled_is_taken_over() {
    let spec = validated(
        json!({"migration": {"verification": "Sample", "drainWindow": "1h", "requireAdmission": true,
        "restart": [
            {"kind": "Deployment", "namespace": "kyverno", "name": "a", "when": "IfNeeded"},
            {"kind": "DaemonSet", "namespace": "agents", "name": "b"},
        ]}}),
    );
    let settings = spec.migration;
    assert_eq!(settings.verification, Verification::Sample);
    assert_eq!(settings.drain_window, std::time::Duration::from_hours(1));
    assert!(settings.require_admission);
    let names: Vec<String> = settings.restart.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["Deployment kyverno/a", "DaemonSet agents/b"]);
    let spec = validated(json!({}));
    assert_eq!(spec.migration.verification, Verification::Full);
    assert!(spec.migration.drain_window.is_zero() && spec.migration.restart.is_empty());
    assert!(!spec.migration.require_admission);
}

#[test]
fn a_drain_window_from_before_the_crds_rule_is_refused() {
    let refusal = try_validate(json!({"migration": {"drainWindow": "61m"}})).unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    let field = "spec.migration.drainWindow";
    assert!(refusal.message.starts_with(field), "{}", refusal.message);
}

#[test]
fn an_ephemeral_database_prunes_nothing() {
    let spec = validated(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}));
    assert_eq!(spec.migration.prune_after, None);
    assert!(matches!(
        spec.database,
        Database::Embedded(Storage::EmptyDir { .. })
    ));
    assert!(!spec.backend().is_persistent());
}
