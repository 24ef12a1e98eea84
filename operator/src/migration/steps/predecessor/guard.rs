//! The guard that keeps a predecessor from leading the APIServices back to itself:
//! kyverno/reports-server does so every ten seconds.

use std::time::Duration;

use futures::FutureExt;
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apiservice;
use crate::migration::cluster::admission;
use crate::migration::cluster::endpoints::Endpoints;
use crate::migration::cluster::wire::{Wire, WireError, query};
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;
use crate::migration::plan::target::Predecessor;

/// Annotation that the policy lets nobody set: a dry run of a write with it tells whether the
/// policy is in force.
const PROBE: &str = "reports-server.io/policy-probe";
/// The longest wait for the policy: a kube-apiserver looks for policies every second.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the name of the policy and of its binding.
#[must_use]
pub fn policy_name(group: &str) -> String {
    format!("reports-server-predecessor.{group}")
}

/// Returns the policy that keeps the predecessor from writing `api_services`.
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
    // The second half is what the policy is known by once a kube-apiserver has it.
    let expression = format!(
        "request.userInfo.username != {user} && (request.operation == 'DELETE' || \
         !has(object.metadata.annotations) || !('{PROBE}' in object.metadata.annotations))"
    );
    admission::policy(&policy_name(group), &constraints, &expression, &message)
}

/// Puts the policy in force, and waits until every kube-apiserver applies it.
///
/// # Errors
/// See [`WireError`].
pub async fn enforce(
    cx: &Cx,
    o: &Observed,
    endpoints: &Endpoints,
    predecessor: &Predecessor,
) -> Result<(), WireError> {
    let group = cx.target.group.as_str();
    let versions = o.versions.iter().map(|v| apiservice::name(group, &v.name));
    let names: Vec<String> = versions.collect();
    let policy = policy(group, &names, predecessor);
    admission::enforce(&cx.wire, &policy_name(group), policy).await?;
    let each = endpoints.all.iter().flat_map(|endpoint| {
        let tried = |name: &String| in_force(&endpoint.wire, name.clone()).boxed();
        names.iter().map(tried)
    });
    try_join_all(each.collect::<Vec<_>>()).await.map(drop)
}

/// Waits until a write that the policy refuses is refused.
async fn in_force(wire: &Wire, api_service: String) -> Result<(), WireError> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{api_service}");
    let uri = query(&path, &[("dryRun", "All")]);
    let body = json!({"metadata": {"annotations": {PROBE: "true"}}}).to_string();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let content_type = "application/merge-patch+json";
        let body = Some(body.clone().into_bytes());
        match wire.call(Method::PATCH, &uri, content_type, body).await {
            Err(e) if matches!(e.code(), Some(403 | 422)) => return Ok(()),
            Err(e) if !e.is_transient() => return Err(e),
            _ if Instant::now() > deadline => {
                return Err(WireError::Timeout {
                    path,
                    after: PATIENCE,
                });
            }
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
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
        let expression = &spec.validations.unwrap()[0].expression;
        let user = r#"request.userInfo.username != "system:serviceaccount:a:b\"" && "#;
        assert!(expression.starts_with(user), "{expression}");
        let rules = spec.match_constraints.unwrap().resource_rules.unwrap();
        assert_eq!(rules[0].resource_names, Some(vec!["v1.g.io".to_owned()]));
    }
}
