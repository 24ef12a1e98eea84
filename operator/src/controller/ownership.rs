//! The check whether an object is a child of a `ReportsServer`, and not one of somebody else by the
//! same name.

use crds::names::{FIELD_MANAGER, LABEL_APP_MANAGED_BY, LABEL_OWNER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns whether it has this owner, or the labels of a child of `instance`, which it keeps where it
/// outlives its owner.
#[must_use]
pub fn is_child(meta: &ObjectMeta, uid: &str, instance: &str) -> bool {
    let owners = meta.owner_references.iter().flatten();
    let label = |key: &str| {
        let labels = meta.labels.as_ref()?;
        labels.get(key).map(String::as_str)
    };
    owners.into_iter().any(|owner| owner.uid == uid)
        || (label(LABEL_APP_MANAGED_BY) == Some(FIELD_MANAGER)
            && label(LABEL_OWNER) == Some(instance))
}

/// Returns whether an object is a child of the same `ReportsServer` as one that was built.
#[must_use]
pub fn is_shared(found: &ObjectMeta, built: &ObjectMeta) -> bool {
    let owner = built.owner_references.iter().flatten().next();
    let uid = owner.map(|owner| owner.uid.as_str()).unwrap_or_default();
    let labels = built.labels.as_ref();
    let instance = labels.and_then(|labels| labels.get(LABEL_OWNER));
    is_child(found, uid, instance.map(String::as_str).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::its_own(json!({"ownerReferences": [{"apiVersion": "a/v1", "kind": "K", "name": "n", "uid": "u"}]}), true)]
    #[case::outlives_it(json!({"labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER, "reports-server.io/name": "simple"}}), true)]
    #[case::of_another(json!({"labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER, "reports-server.io/name": "other"}}), false)]
    #[case::of_a_chart(json!({"labels": {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "reports-server"}}), false)]
    #[case::of_nobody(json!({}), false)]
    fn an_object_of_somebody_else_is_told_apart(#[case] meta: Value, #[case] ours: bool) {
        let found: ObjectMeta = serde_json::from_value(meta).unwrap();
        assert_eq!(is_child(&found, "u", "simple"), ours);
        let built = serde_json::from_value(json!({
            "labels": {"reports-server.io/name": "simple"},
            "ownerReferences": [{"apiVersion": "a/v1", "kind": "K", "name": "n", "uid": "u"}],
        }));
        assert_eq!(is_shared(&found, &built.unwrap()), ours);
    }
}
