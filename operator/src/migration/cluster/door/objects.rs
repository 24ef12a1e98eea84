//! The side door: an additional served, non-storage version of a CRD through which etcd stays
//! reachable while the public versions are served elsewhere. Pure builders; `door/mod.rs` acts.
//!
//! Opening it is a change of the CRD's spec, which has a second use: it makes every kube-apiserver
//! drain the old handler and end the watches on it. So the description of the door's schema carries
//! a token (the time of the switch): a door that an earlier run left open is opened anew by writing
//! the new token.

use json_patch::Patch;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::migration::cluster::admission;

/// It sorts behind every `vN`, so it is never preferred.
pub use crds::names::SIDE_DOOR as VERSION;
pub use crds::names::side_door_policy as policy_name;

/// Annotation on a CRD by which a user asks to close a door that a rollback left open.
pub const CLOSE_ANNOTATION: &str = "reports-server.io/close-door";

/// The start of the description of the door's schema; the token follows.
const DESCRIPTION: &str =
    "Temporary access of the reports-server operator to the copies in etcd; opened for ";

/// The state of a CRD's door, and the token with which it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// The CRD is as its owner shipped it.
    Closed,
    /// Open; the token is empty when somebody has changed the description.
    Open {
        /// The token with which the door was opened.
        token: String,
    },
}

impl Door {
    /// Returns whether it is open, with any token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Returns whether it was opened for `token`.
    #[must_use]
    pub fn is_open_for(&self, token: &str) -> bool {
        matches!(self, Self::Open { token: found } if found == token)
    }
}

/// Reads the state of the door from a CRD.
#[must_use]
pub fn state(crd: &CustomResourceDefinition) -> Door {
    let Some(version) = crd.spec.versions.iter().find(|v| v.name == VERSION) else {
        return Door::Closed;
    };
    let token = version
        .schema
        .as_ref()
        .and_then(|s| s.open_api_v3_schema.as_ref())
        .and_then(|s| s.description.as_deref())
        .and_then(|d| d.strip_prefix(DESCRIPTION))
        .unwrap_or_default();
    Door::Open {
        token: token.to_owned(),
    }
}

/// Returns the patch that opens the door for `token`; `None` when it is open for that already.
#[must_use]
pub fn open_patch(crd: &CustomResourceDefinition, token: &str) -> Option<Patch> {
    let schema = json!({"openAPIV3Schema": {
        "type": "object",
        "description": format!("{DESCRIPTION}{token}"),
        "x-kubernetes-preserve-unknown-fields": true,
    }});
    let column = json!({"name": "Name", "type": "string", "jsonPath": ".metadata.name",
        "description": format!("{DESCRIPTION}{token}")});
    let version = json!({"name": VERSION, "served": true, "storage": false, "schema": schema,
        "additionalPrinterColumns": [column]});
    let operation = match position(crd) {
        None => json!({"op": "add", "path": "/spec/versions/-", "value": version}),
        Some(_) if state(crd).is_open_for(token) => return None,
        Some(n) => {
            json!({"op": "replace", "path": format!("/spec/versions/{n}"), "value": version})
        }
    };
    Some(guarded(crd, vec![operation]))
}

/// Returns whether `table`, a list through the door, was answered by a handler that knows it as
/// opened for `token`: an earlier opening answers too, until its kube-apiserver has heard of the
/// new one.
#[must_use]
pub fn answers_for(table: &Value, token: &str) -> bool {
    let wanted = format!("{DESCRIPTION}{token}");
    let columns = table["columnDefinitions"].as_array();
    columns
        .into_iter()
        .flatten()
        .any(|column| column["description"] == wanted.as_str())
}

/// Returns the patch that closes the door, and removes the annotation that asked for it; `None`
/// when it is closed.
#[must_use]
pub fn close_patch(crd: &CustomResourceDefinition) -> Option<Patch> {
    let n = position(crd)?;
    let mut operations = vec![json!({"op": "remove", "path": format!("/spec/versions/{n}")})];
    if crd
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|a| a.contains_key(CLOSE_ANNOTATION))
    {
        let path = format!(
            "/metadata/annotations/{}",
            CLOSE_ANNOTATION.replace('/', "~1")
        );
        operations.push(json!({"op": "remove", "path": path}));
    }
    Some(guarded(crd, operations))
}

fn position(crd: &CustomResourceDefinition) -> Option<usize> {
    crd.spec.versions.iter().position(|v| v.name == VERSION)
}

/// Returns the patch with a test in front. The versions may have been re-ordered or the CRD
/// replaced since it was read: then the patch is refused and built anew.
fn guarded(crd: &CustomResourceDefinition, mut operations: Vec<Value>) -> Patch {
    let guard = json!({"op": "test", "path": "/metadata/resourceVersion",
        "value": crd.metadata.resource_version});
    operations.insert(0, guard);
    serde_json::from_value(Value::Array(operations)).unwrap_or_default()
}

/// Operations that the guard of the door checks.
pub const OPERATIONS: &[&str] = &["CREATE", "UPDATE", "DELETE"];
/// Operations that it checks while copies are deleted whose namespaces are gone.
pub const WRITES: &[&str] = &["CREATE", "UPDATE"];

/// Returns the policy that lets only `user` carry `operations` out through the door.
/// `matchPolicy: Exact` keeps it off the public versions.
#[must_use]
pub fn policy(group: &str, user: &str, operations: &[&str]) -> Value {
    let quoted = Value::String(user.to_owned());
    let constraints = json!({
        "matchPolicy": "Exact",
        "resourceRules": [{
            "apiGroups": [group],
            "apiVersions": [VERSION],
            "operations": operations,
            "resources": ["*"],
            "scope": "*",
        }],
    });
    let message = format!(
        "version {VERSION} of {group} is the reports-server operator's access to etcd; use another \
         version"
    );
    let expression = format!("request.userInfo.username == {quoted}");
    admission::policy(&policy_name(group), &constraints, &expression, &message)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::{
        ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyBinding as Binding,
    };
    use proptest::prelude::*;

    use super::*;

    fn crd(versions: &[&str]) -> CustomResourceDefinition {
        let versions: Vec<Value> = versions
            .iter()
            .enumerate()
            .map(|(n, name)| {
                json!({"name": name, "served": true, "storage": n == 0, "schema":
                    {"openAPIV3Schema": {"type": "object", "description": "theirs"}}})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "rs.g", "resourceVersion": "5", "uid": "u"},
            "spec": {"group": "g", "scope": "Namespaced", "versions": versions,
                "names": {"plural": "rs", "kind": "R"}}}))
        .unwrap()
    }

    fn apply(crd: &CustomResourceDefinition, patch: &Patch) -> CustomResourceDefinition {
        let mut value = serde_json::to_value(crd).unwrap();
        json_patch::patch(&mut value, patch).unwrap();
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_open_door_is_opened_again_only_for_another_token() {
        let opened = apply(&crd(&["v1"]), &open_patch(&crd(&["v1"]), "t1").unwrap());
        assert!(state(&opened).is_open_for("t1"));
        assert_eq!(open_patch(&opened, "t1"), None);
        let again = apply(&opened, &open_patch(&opened, "t2").unwrap());
        assert!(state(&again).is_open_for("t2"));
        assert_eq!(again.spec.versions.len(), 2);
        assert!(!again.spec.versions[1].storage);
    }

    #[test]
    fn the_columns_of_a_list_tell_for_what_the_door_was_opened() {
        let opened = apply(&crd(&["v1"]), &open_patch(&crd(&["v1"]), "t2").unwrap());
        let columns = serde_json::to_value(&opened.spec.versions[1]).unwrap();
        let table = json!({"columnDefinitions": columns["additionalPrinterColumns"]});
        assert!(answers_for(&table, "t2"));
        assert!(!answers_for(&table, "t1"));
        assert!(!answers_for(&json!({"kind": "Table"}), "t2"));
    }

    #[test]
    fn closing_takes_the_request_for_it_away() {
        let mut asked = crd(&["v1"]);
        asked.metadata.annotations =
            Some([(CLOSE_ANNOTATION.to_owned(), "true".to_owned())].into());
        let opened = apply(&asked, &open_patch(&asked, "t").unwrap());
        let closed = apply(&opened, &close_patch(&opened).unwrap());
        assert_eq!(state(&closed), Door::Closed);
        assert!(closed.metadata.annotations.unwrap_or_default().is_empty());
    }

    #[test]
    fn the_door_of_a_crd_that_changed_meanwhile_is_not_touched() {
        let patch = open_patch(&crd(&["v1"]), "t").unwrap();
        let mut changed = serde_json::to_value(crd(&["v1"])).unwrap();
        changed["metadata"]["resourceVersion"] = json!("6");
        assert!(json_patch::patch(&mut changed, &patch).is_err());
    }

    #[test]
    fn policy_and_binding_are_what_the_api_takes() {
        let policy: Policy =
            serde_json::from_value(policy("g", "system:sa:'x\"", OPERATIONS)).unwrap();
        let spec = policy.spec.unwrap();
        let expression = &spec.validations.unwrap()[0].expression;
        assert_eq!(
            expression,
            r#"request.userInfo.username == "system:sa:'x\"""#
        );
        let binding: Binding =
            serde_json::from_value(admission::binding(&policy_name("g"))).unwrap();
        assert_eq!(
            binding.spec.unwrap().policy_name.as_deref(),
            Some("reports-server-side-door.g")
        );
    }

    proptest! {
        #[test]
        fn closing_undoes_opening(names in prop::collection::hash_set("v[0-9]{1,2}", 1..4)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shipped = crd(&names);
            let opened = apply(&shipped, &open_patch(&shipped, "t").unwrap());
            prop_assert_eq!(close_patch(&shipped), None);
            let closed = apply(&opened, &close_patch(&opened).unwrap());
            prop_assert_eq!(closed, shipped);
        }
    }
}
