//! Admission policies of a migration: one policy and one binding of the same name.

use http::Method;
use serde_json::{Value, json};

use super::wire::{Wire, WireError, query};
use crds::names::FIELD_MANAGER;

/// Path of policies and bindings.
const API: &str = "/apis/admissionregistration.k8s.io/v1";
/// Plural names, in the order in which they are put in force.
const PLURALS: [&str; 2] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Returns a policy that refuses what `constraints` match and `expression` does not allow.
#[must_use]
pub fn policy(name: &str, constraints: &Value, expression: &str, message: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": constraints,
            "validations": [
                {"expression": expression, "message": message, "reason": "Forbidden"}
            ],
        },
    })
}

/// Returns the binding that puts the policy of the same name in force.
#[must_use]
pub fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    })
}

/// Puts a policy in force.
///
/// # Errors
/// See [`WireError`].
pub async fn enforce(wire: &Wire, name: &str, policy: Value) -> Result<(), WireError> {
    for (plural, object) in PLURALS.into_iter().zip([policy, binding(name)]) {
        let path = format!("{API}/{plural}/{name}");
        let uri = query(&path, &[("fieldManager", FIELD_MANAGER), ("force", "true")]);
        let body = Some(object.to_string().into_bytes());
        wire.call(Method::PATCH, &uri, "application/apply-patch+yaml", body)
            .await?;
    }
    Ok(())
}

/// Takes a policy away.
///
/// # Errors
/// See [`WireError`].
pub async fn lift(wire: &Wire, name: &str) -> Result<(), WireError> {
    for plural in PLURALS.into_iter().rev() {
        let path = format!("{API}/{plural}/{name}");
        match wire
            .call(Method::DELETE, &path, "application/json", None)
            .await
        {
            Ok(_) => {}
            Err(e) if e.code() == Some(404) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
