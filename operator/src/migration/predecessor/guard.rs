//! Keeps a predecessor from leading the APIServices back to itself: kyverno/reports-server does so
//! every ten seconds.

use serde_json::{Value, json};

use super::super::{admission, cx::Cx, observed::Observed, target::Predecessor, wire::WireError};
use crate::apiservice;

/// Name of the policy and of its binding.
#[must_use]
pub fn policy_name(group: &str) -> String {
    format!("reports-server-predecessor.{group}")
}

/// The policy that keeps the predecessor from writing `api_services`.
fn policy(group: &str, api_services: &[String], predecessor: &Predecessor) -> Value {
    let user = Value::String(predecessor.user.clone());
    let constraints = json!({"resourceRules": [{
        "apiGroups": ["apiregistration.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["apiservices"],
        "resourceNames": api_services,
        "scope": "Cluster",
    }]});
    let message = format!(
        "reports-server-operator has taken {group} over from {}, which can be removed",
        predecessor.service()
    );
    let expression = format!("request.userInfo.username != {user}");
    admission::policy(&policy_name(group), &constraints, &expression, &message)
}

/// Puts the policy in force.
///
/// # Errors
/// See [`WireError`].
pub async fn enforce(cx: &Cx, o: &Observed, predecessor: &Predecessor) -> Result<(), WireError> {
    let group = cx.target.group.as_str();
    let names = o.versions.iter().map(|v| apiservice::name(group, &v.name));
    let policy = policy(group, &names.collect::<Vec<_>>(), predecessor);
    admission::enforce(&cx.wire, &policy_name(group), policy).await
}

/// Takes the policy away.
///
/// # Errors
/// See [`WireError`].
pub async fn lift(cx: &Cx) -> Result<(), WireError> {
    admission::lift(&cx.wire, &policy_name(&cx.target.group)).await
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy as Policy;

    use super::*;

    #[test]
    fn the_policy_names_the_apiservices_and_quotes_the_user() {
        let predecessor = Predecessor {
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            user: "system:serviceaccount:a:b\"".to_owned(),
        };
        let names = ["v1.g.io".to_owned()];
        let made: Policy = serde_json::from_value(policy("g.io", &names, &predecessor)).unwrap();
        let spec = made.spec.unwrap();
        assert_eq!(
            spec.validations.unwrap()[0].expression,
            r#"request.userInfo.username != "system:serviceaccount:a:b\"""#
        );
        let rules = spec.match_constraints.unwrap().resource_rules.unwrap();
        assert_eq!(rules[0].resource_names, Some(vec!["v1.g.io".to_owned()]));
    }
}
