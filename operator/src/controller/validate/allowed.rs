//! The permissions that the cluster's own hands have to give, because whoever may create a
//! `ReportsServer` need not have the right to it: the target namespace, the account of the pods,
//! and what pods do there.

use crds::names::{ANNOTATION_ALLOW_USE, LABEL_POD_SECURITY, LABEL_TARGET};
use crds::v1alpha1::{ReportsServer, reasons};
use serde_json::{Map, Value};

use super::refusal::{Refusal, refuse};
use super::standard;
use super::validated::Validated;
use crate::controller::found::{Dereferenced, Level};

/// Start of the names of the namespaces that Kubernetes keeps for itself.
const RESERVED: &str = "kube-";
const ACCOUNT: &str = "spec.server.serviceAccount.name";
const TEMPLATE: &str = "spec.server.podTemplate";

/// Refuses a target namespace that is none, unless the server runs there already. The status tells
/// that: nobody else writes it, and the target namespace never changes.
pub(super) fn begun(object: &ReportsServer, found: &Dereferenced) -> Result<(), Refusal> {
    let status = object.status.as_ref();
    if status.is_some_and(|status| status.tls.is_some()) {
        return Ok(());
    }
    target(&object.spec.target_namespace, found)
}

/// Refuses what nobody has allowed. The target namespace is not asked for a specification that is
/// only kept, nor for one that is being given back: nothing is torn down because a label is gone.
pub(super) fn check(
    spec: &Validated,
    found: &Dereferenced,
    is_leaving: bool,
) -> Result<(), Refusal> {
    if !found.kept && !is_leaving {
        target(&spec.namespace, found)?;
    }
    account(spec, found)?;
    match &spec.pod.template {
        Some(given) => template(given, spec, found.policy.level),
        None => Ok(()),
    }
}

fn target(name: &str, found: &Dereferenced) -> Result<(), Refusal> {
    let why = if name.starts_with(RESERVED) {
        format!("{name} belongs to Kubernetes; choose a namespace of the server's own")
    } else if name == found.operator_namespace {
        format!("{name} is the operator's; choose a namespace of the server's own")
    } else if found.policy.is_target {
        return Ok(());
    } else {
        format!(
            "namespace {name} is not open for it; if the server may run there, and the operator \
             may read its Secrets: kubectl label namespace {name} {LABEL_TARGET}=true"
        )
    };
    let message = format!("spec.targetNamespace: {why}");
    refuse(reasons::TARGET_NAMESPACE_CLOSED, message)
}

fn account(spec: &Validated, found: &Dereferenced) -> Result<(), Refusal> {
    let Some(name) = &spec.pod.service_account else {
        return Ok(());
    };
    let (namespace, instance) = (&spec.namespace, spec.names.instance());
    let annotate = format!(
        "kubectl -n {namespace} annotate serviceaccount {name} {ANNOTATION_ALLOW_USE}={instance}"
    );
    let message = match &found.inside.account {
        None => format!(
            "{ACCOUNT}: ServiceAccount {namespace}/{name} does not exist; create it, then: {annotate}"
        ),
        Some(annotations) => {
            let allowed = annotations.get(ANNOTATION_ALLOW_USE).map(String::as_str);
            if allowed == Some(instance) {
                return Ok(());
            }
            format!(
                "{ACCOUNT}: ServiceAccount {namespace}/{name} does not allow its use; if the pods \
                 may have its rights: {annotate}"
            )
        }
    };
    refuse(reasons::NOT_ALLOWED, message)
}

fn template(given: &Map<String, Value>, spec: &Validated, level: Level) -> Result<(), Refusal> {
    if spec.pod.service_account.is_none()
        && let Some(path) = standard::foreign_token(given)
    {
        let message = format!(
            "{TEMPLATE}{path}: a token for others than the kube-apiserver needs an account that \
             allows its use; name one in {ACCOUNT}"
        );
        return refuse(reasons::NOT_ALLOWED, message);
    }
    let asked = standard::asked(given);
    let beyond = asked.iter().filter(|ask| ask.level > level);
    let paths: Vec<String> = beyond
        .clone()
        .map(|ask| format!("{TEMPLATE}{}", ask.path))
        .collect();
    let Some(needed) = beyond.map(|ask| ask.level).max() else {
        return Ok(());
    };
    let (namespace, needed) = (&spec.namespace, needed.as_label());
    let message = format!(
        "{}: namespace {namespace} does not admit this; remove it, or if pods may do this there: \
         kubectl label namespace {namespace} --overwrite {LABEL_POD_SECURITY}={needed}",
        paths.join(", ")
    );
    refuse(reasons::NOT_ALLOWED, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crds::v1alpha1::status::TlsStatus;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::controller::fixtures::{object, read, validated};
    use crate::controller::found::NamespacePolicy;
    use crate::controller::validate::validate;

    fn unlabelled() -> Dereferenced {
        Dereferenced {
            policy: NamespacePolicy::default(),
            ..read()
        }
    }

    fn at(level: Level) -> Dereferenced {
        Dereferenced {
            policy: NamespacePolicy {
                is_target: true,
                level,
            },
            ..read()
        }
    }

    #[rstest]
    #[case::labelled("reports", true, None)]
    #[case::not_labelled(
        "reports",
        false,
        Some("kubectl label namespace reports reports-server.io/target=true")
    )]
    #[case::of_kubernetes("kube-system", true, Some("belongs to Kubernetes"))]
    #[case::of_kubernetes_too("kube-public", false, Some("belongs to Kubernetes"))]
    #[case::looks_like_it("kubernetes-reports", true, None)]
    #[case::the_operators("operator-ns", true, Some("is the operator's"))]
    fn a_target_is_what_is_labelled_as_one(
        #[case] name: &str,
        #[case] is_target: bool,
        #[case] refused: Option<&str>,
    ) {
        let policy = NamespacePolicy {
            is_target,
            level: Level::Privileged,
        };
        let found = Dereferenced { policy, ..read() };
        let refusal = target(name, &found).err();
        assert_eq!(refusal.is_some(), refused.is_some(), "{refusal:?}");
        if let (Some(refusal), Some(words)) = (refusal, refused) {
            assert_eq!(refusal.reason, reasons::TARGET_NAMESPACE_CLOSED);
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
    }

    /// Without a specification nothing is read in the namespace, and no rights are taken there.
    #[test]
    fn nothing_is_begun_in_a_namespace_that_is_no_target() {
        let refused = validate(&object(json!({})), &unlabelled()).unwrap_err();
        assert_eq!(refused.refusal.reason, reasons::TARGET_NAMESPACE_CLOSED);
        assert_eq!(refused.spec, None);
    }

    #[test]
    fn what_serves_in_it_is_kept_when_the_label_is_taken_away() {
        let mut object = object(json!({}));
        object.status.get_or_insert_default().tls = Some(TlsStatus::default());
        let refused = validate(&object, &unlabelled()).unwrap_err();
        assert_eq!(refused.refusal.reason, reasons::TARGET_NAMESPACE_CLOSED);
        assert!(refused.spec.is_some());
        let kept = Dereferenced {
            kept: true,
            ..unlabelled()
        };
        assert!(validate(&object, &kept).is_ok());
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::now());
        object.metadata.deletion_timestamp = Some(now);
        assert!(validate(&object, &unlabelled()).is_ok());
    }

    #[rstest]
    #[case::missing(Value::Null, Some("does not exist"))]
    #[case::silent(json!({}), Some("does not allow its use"))]
    #[case::for_another(json!({ANNOTATION_ALLOW_USE: "other"}), Some("does not allow its use"))]
    #[case::allowed(json!({ANNOTATION_ALLOW_USE: "simple"}), None)]
    fn an_account_says_who_may_use_it(#[case] annotations: Value, #[case] refused: Option<&str>) {
        let spec = validated(json!({"server": {"serviceAccount": {"name": "theirs"}}}));
        let mut found = read();
        found.inside.account = serde_json::from_value(annotations).unwrap();
        let message = check(&spec, &found, false)
            .err()
            .map(|refusal| refusal.message);
        assert_eq!(message.is_some(), refused.is_some(), "{message:?}");
        let command =
            "kubectl -n target annotate serviceaccount theirs reports-server.io/allow-use=simple";
        for words in refused.into_iter().flat_map(|words| [words, command]) {
            let told = message.as_ref().is_some_and(|told| told.contains(words));
            assert!(told, "{words} in {message:?}");
        }
    }

    #[rstest]
    #[case(json!({"hostPID": true}), Level::Privileged, ".spec.hostPID")]
    #[case(json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}), Level::Privileged,
        ".spec.volumes[0].hostPath")]
    #[case(json!({"containers": [{"name": "own", "securityContext": {"allowPrivilegeEscalation": true}}]}),
        Level::Baseline, ".spec.containers[0].securityContext.allowPrivilegeEscalation")]
    fn a_namespace_admits_what_its_label_says(
        #[case] pod: Value,
        #[case] least: Level,
        #[case] path: &str,
    ) {
        let spec = validated(json!({"server": {"podTemplate": {"spec": pod}}}));
        for level in [Level::Restricted, Level::Baseline, Level::Privileged] {
            let refusal = check(&spec, &at(level), false).err();
            assert_eq!(refusal.is_none(), level >= least, "{level:?}");
            let Some(Refusal { reason, message }) = refusal else {
                continue;
            };
            assert_eq!(reason, reasons::NOT_ALLOWED);
            assert!(
                message.contains(&format!("{TEMPLATE}{path}: ")),
                "{message}"
            );
            let command = format!("{LABEL_POD_SECURITY}={}", least.as_label());
            assert!(message.ends_with(&command), "{message}");
        }
    }

    /// Neither while it is deleted nor while it is kept: what is applied then runs, too.
    #[test]
    fn what_pods_do_is_always_asked() {
        let spec = validated(json!({"server": {"podTemplate": {"spec": {"hostIPC": true}}}}));
        let kept = Dereferenced {
            kept: true,
            ..read()
        };
        for is_leaving in [false, true] {
            assert!(check(&spec, &kept, is_leaving).is_err());
        }
    }

    #[test]
    fn a_token_for_others_needs_an_account_that_is_allowed() {
        let source = json!({"serviceAccountToken": {"audience": "vault", "path": "token"}});
        let volume = json!({"name": "t", "projected": {"sources": [source]}});
        let mut server = json!({"podTemplate": {"spec": {"volumes": [volume]}}});
        let spec = validated(json!({"server": server}));
        let message = check(&spec, &read(), false).unwrap_err().message;
        assert!(
            message.contains(".spec.volumes[0].projected.sources[0]"),
            "{message}"
        );
        server["serviceAccount"] = json!({"name": "theirs"});
        let spec = validated(json!({"server": server}));
        let mut found = read();
        let allowed = (ANNOTATION_ALLOW_USE.to_owned(), "simple".to_owned());
        found.inside.account = Some(BTreeMap::from([allowed]));
        assert_eq!(check(&spec, &found, false), Ok(()));
    }
}
