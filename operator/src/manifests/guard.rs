//! The admission policy that keeps a target namespace while API groups depend on what is in it. Its
//! parameters are the `ReportsServer`s, so it needs no label on the namespace, and the operator no
//! right to write one.

use crds::names::{API_GROUP, FINALIZER};
use serde_json::json;

use super::objects;
use super::render::Document;
use crate::names::NAMESPACE_GUARD;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Returns the policy. A policy that cannot be evaluated refuses nothing: without the CRD of its
/// parameters, no namespace of the cluster could be deleted otherwise.
pub(super) fn policy() -> Document {
    Document::plain(json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": objects::meta(NAMESPACE_GUARD, None),
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": format!("{API_GROUP}/v1alpha1"), "kind": "ReportsServer"},
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["DELETE"],
                "resources": ["namespaces"],
            }]},
            "validations": [{
                "expression": expression(),
                "message": MESSAGE,
                "messageExpression": message_expression(),
                "reason": "Forbidden",
            }],
        },
    }))
}

/// Returns the binding, to every `ReportsServer`.
pub(super) fn binding() -> Document {
    Document::plain(json!({
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": objects::meta(NAMESPACE_GUARD, None),
        "spec": {
            "policyName": NAMESPACE_GUARD,
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
            "validationActions": ["Deny"],
        },
    }))
}

const MESSAGE: &str =
    "API groups depend on a server in this namespace; delete its ReportsServer first";

/// The finalizer is there from before the first group is switched until the last is back.
fn expression() -> String {
    format!(
        "request.name != params.spec.targetNamespace || !has(params.metadata.finalizers) || \
         !params.metadata.finalizers.exists(f, f == '{FINALIZER}')"
    )
}

fn message_expression() -> String {
    "'API groups depend on the server of ReportsServer ' + params.metadata.name + ' in namespace ' \
     + request.name + '. Give them back first: kubectl delete reportsserver ' \
     + params.metadata.name"
        .to_owned()
}
