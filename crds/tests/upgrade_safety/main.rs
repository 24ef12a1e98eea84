//! The CRD can replace that of the last release in a cluster with objects, by the rules of OLM v1,
//! which refuses an upgrade otherwise.
#![expect(
    clippy::unwrap_used,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

mod rules;

use crds::v1alpha1::reports_server_crd;
use serde_json::Value;

use self::rules::{Rule, refusals};

/// Returns the CRD of the last release.
fn released() -> Value {
    serde_yaml::from_str(include_str!("../fixtures/last-release.yaml")).unwrap()
}

/// Returns the CRD of the working tree.
fn present() -> Value {
    serde_json::to_value(reports_server_crd().unwrap()).unwrap()
}

#[test]
fn the_crd_of_the_last_release_can_be_replaced() {
    let refused = refusals(&released(), &present());
    assert!(refused.is_empty(), "{refused:#?}");
}

/// The rules reach every depth of the real schema.
#[test]
fn a_field_that_is_gone_is_found_wherever_it_was() {
    let mut without = present();
    let pool = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/database/\
                properties/pool/properties";
    let fields = without.pointer_mut(pool).and_then(Value::as_object_mut);
    fields.unwrap().remove("maxConnections").unwrap();
    let refused = refusals(&released(), &without);
    assert_eq!(refused.len(), 1, "{refused:#?}");
    assert_eq!(refused[0].rule, Rule::FieldRemoved);
    let path = "v1alpha1.spec.database.pool.maxConnections";
    assert_eq!(refused[0].path, path);
}
