//! The identity of the cluster in a database that servers share.

use crds::v1alpha1::reasons;
use serde_json::{Value, json};

use crate::controller::fixtures::{object, read, validated};
use crate::controller::validate::specification;

#[test]
fn the_cluster_is_named_by_the_user_or_by_its_uid() {
    let identity = |identity: Value| {
        let spec = validated(json!({"database": {"mode": "Managed"}, "clusterIdentity": identity}));
        let postgres = spec.database.postgres().unwrap();
        (
            postgres.cluster_identity.clone(),
            postgres.cluster_name.clone(),
        )
    };
    assert_eq!(identity(json!({})), ("uid-of-kube-system".to_owned(), None));
    let named = identity(json!({"id": "west-1", "displayName": "West"}));
    assert_eq!(named, ("west-1".to_owned(), Some("West".to_owned())));
}

#[test]
fn the_identity_that_reports_carry_stays() {
    let managed = |identity: Value| {
        let spec = json!({"database": {"mode": "Managed"}, "clusterIdentity": identity});
        let mut object = object(spec);
        object.status =
            serde_json::from_value(json!({"database": {"clusterIdentity": "west-1"}})).unwrap();
        specification(&object, &read())
    };
    assert!(managed(json!({"id": "west-1"})).is_ok());
    // By default it is the uid of kube-system.
    for other in [json!({"id": "west-2"}), json!({})] {
        let refusal = managed(other).unwrap_err();
        assert_eq!(refusal.reason, reasons::INVALID_SPEC);
        assert!(
            refusal.message.contains("set it to west-1"),
            "{}",
            refusal.message
        );
    }
}
