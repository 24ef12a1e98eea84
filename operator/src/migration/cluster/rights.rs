//! The rights that moving a group needs, and the check that the operator has them.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

use crate::grant::{Rule, merged};
use crate::migration::observe::bypass::read::SOURCES;
use crate::migration::plan::target::{Settings, Workload};

/// Questions asked at the same time.
const CONCURRENCY: usize = 8;

/// One right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural, with the subresource behind a slash.
    pub resource: String,
    /// Verb.
    pub verb: &'static str,
    /// Namespace; all when absent.
    pub namespace: Option<String>,
    /// Name of the one object that it covers; all when absent.
    pub name: Option<String>,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        self.namespace
            .as_ref()
            .map_or(Ok(()), |n| write!(f, " in namespace {n}"))
    }
}

/// Resources and verbs that every group needs, with the reason.
const COMMON: [(&str, &str, &[&str]); 11] = [
    // The state of the CRDs, and the side door in them.
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &["get", "list", "patch"],
    ),
    // Who serves a version, and changing that.
    (
        "apiregistration.k8s.io",
        "apiservices",
        &["list", "create", "patch", "delete"],
    ),
    // The guard of the side door.
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        &["create", "patch", "delete"],
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        &["create", "patch", "delete"],
    ),
    // Etcd's revision, read at every kube-apiserver.
    ("", "namespaces", &["list"]),
    // The server's side of the migration.
    ("control.reports-server.io", "storedresources", &["list"]),
    (
        "control.reports-server.io",
        "storedresources/import",
        &["create"],
    ),
    (
        "control.reports-server.io",
        "storedresources/digest",
        &["get"],
    ),
    (
        "control.reports-server.io",
        "storedresources/fence",
        &["get", "create"],
    ),
    (
        "control.reports-server.io",
        "storedresources/gate",
        &["update"],
    ),
    (
        "control.reports-server.io",
        "storedresources/floor",
        &["update"],
    ),
];

/// Verbs on the reports themselves: reading for mirror and verification; writing through the
/// side door for pruning and for the way back.
const ON_REPORTS: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

/// Returns every right that a group with these plurals needs.
#[must_use]
pub fn required(group: &str, plurals: &[String], operator_namespace: &str) -> Vec<Right> {
    let right = |group: &str, resource: &str, verb, namespace: Option<&str>| Right {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb,
        namespace: namespace.map(str::to_owned),
        name: None,
    };
    let mut all = Vec::new();
    for (api_group, resource, verbs) in COMMON {
        all.extend(
            verbs
                .iter()
                .map(|verb| right(api_group, resource, verb, None)),
        );
    }
    // The addresses of the kube-apiservers.
    all.push(right(
        "discovery.k8s.io",
        "endpointslices",
        "list",
        Some("default"),
    ));
    // Notes that must outlive the process, and revisions burnt on the way back.
    for verb in ["get", "create", "patch", "delete"] {
        all.push(right("", "configmaps", verb, Some(operator_namespace)));
    }
    for plural in plurals {
        all.extend(
            ON_REPORTS
                .iter()
                .map(|verb| right(group, plural, verb, None)),
        );
    }
    all
}

/// Returns the rights that are needed for what the user asks for.
#[must_use]
pub fn of_settings(settings: &Settings) -> Vec<Right> {
    let mut rights = of_restarts(&settings.restart);
    if settings.require_admission {
        rights.extend(of_admission());
    }
    rights
}

/// Returns the rights to look for what has no effect on reports that the server serves. Without
/// them the operator says so, and goes on unless it is required.
#[must_use]
pub fn of_admission() -> Vec<Right> {
    let rights = SOURCES.iter().map(|source| Right {
        group: source.group.to_owned(),
        resource: source.plural.to_owned(),
        verb: "list",
        namespace: None,
        name: None,
    });
    rights.collect()
}

/// Returns the rights to restart workloads. None of the installed roles has them: users grant them
/// where they ask for restarts.
#[must_use]
pub fn of_restarts(workloads: &[Workload]) -> Vec<Right> {
    let rights = workloads.iter().flat_map(|workload| {
        ["get", "patch"].map(|verb| Right {
            group: "apps".to_owned(),
            resource: workload.kind.plural().to_owned(),
            verb,
            namespace: Some(workload.namespace.clone()),
            name: Some(workload.name.clone()),
        })
    });
    rights.collect()
}

/// Returns the rules of RBAC that give `rights`.
#[must_use]
pub fn rules(rights: &[Right]) -> Vec<Rule> {
    merged(rights.iter().map(|right| Rule {
        group: right.group.clone(),
        resources: vec![right.resource.clone()],
        verbs: vec![right.verb.to_owned()],
        namespace: right.namespace.clone(),
        name: right.name.clone(),
    }))
}

/// Returns those of `rights` that the client's user does not have.
///
/// # Errors
/// The first question that could not be asked.
pub async fn missing(client: &kube::Client, rights: Vec<Right>) -> Result<Vec<Right>, kube::Error> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let asked = futures::stream::iter(rights).map(|right| {
        let api = api.clone();
        async move { ask(&api, &right).await.map(|allowed| (right, allowed)) }
    });
    let answers: Vec<(Right, bool)> = asked.buffered(CONCURRENCY).try_collect().await?;
    Ok(answers
        .into_iter()
        .filter(|(_, allowed)| !allowed)
        .map(|(right, _)| right)
        .collect())
}

async fn ask(api: &Api<SelfSubjectAccessReview>, right: &Right) -> Result<bool, kube::Error> {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, sub)) => (resource.to_owned(), Some(sub.to_owned())),
        None => (right.resource.clone(), None),
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(right.group.clone()),
                resource: Some(resource),
                subresource,
                verb: Some(right.verb.to_owned()),
                namespace: right.namespace.clone(),
                name: right.name.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|s| s.allowed))
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::spec::WorkloadKind;
    use serde_json::{Value, json};

    use super::{
        Settings, Workload, missing, of_admission, of_restarts, of_settings, required,
        rules as rules_for,
    };
    use crate::manifests::rules;
    use crate::testing::pair;

    #[tokio::test]
    async fn a_right_to_restart_is_asked_for_by_the_name_of_the_workload() {
        let workload = Workload {
            kind: WorkloadKind::Deployment,
            namespace: "kyverno".to_owned(),
            name: "kyverno-reports-controller".to_owned(),
        };
        let (client, mut server) = pair();
        let asked = tokio::spawn(async move { missing(&client, of_restarts(&[workload])).await });
        let mut verbs = Vec::new();
        for _ in 0..2 {
            let review = server.next().await;
            let right = review.body["spec"]["resourceAttributes"].clone();
            assert_eq!(right["name"], "kyverno-reports-controller");
            assert_eq!(right["namespace"], "kyverno");
            assert_eq!(
                (&right["group"], &right["resource"]),
                (&json!("apps"), &json!("deployments"))
            );
            let mut answer: Value = review.body.clone();
            answer["status"] = json!({"allowed": right["verb"] == "get"});
            verbs.push(right["verb"].clone());
            review.answer(201, &answer);
        }
        assert_eq!(verbs, ["get", "patch"]);
        let missing = asked.await.unwrap().unwrap();
        let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let right = "patch deployments.apps kyverno-reports-controller in namespace kyverno";
        assert_eq!(words, [right]);
        let rules: Vec<String> = rules_for(&missing)
            .iter()
            .map(ToString::to_string)
            .collect();
        let rule = "{apiGroups: [\"apps\"], resources: [\"deployments\"], \
                    resourceNames: [\"kyverno-reports-controller\"], verbs: [\"patch\"]} in \
                    namespace kyverno";
        assert_eq!(rules, [rule]);
    }

    #[test]
    fn what_decides_about_writes_has_to_be_listed_where_that_is_required() {
        let mut settings = Settings::default();
        assert_eq!(of_settings(&settings), []);
        settings.require_admission = true;
        let words: Vec<String> = of_settings(&settings)
            .iter()
            .map(ToString::to_string)
            .collect();
        for expected in [
            "list mutatingadmissionpolicybindings.admissionregistration.k8s.io",
            "list validatingwebhookconfigurations.admissionregistration.k8s.io",
            "list resourcequotas",
        ] {
            assert!(words.iter().any(|word| word == expected), "{words:?}");
        }
    }

    #[test]
    fn the_installed_roles_hold_every_right_that_is_asked_for() {
        let groups = [
            ("wgpolicyk8s.io", ["policyreports", "clusterpolicyreports"]),
            (
                "reports.kyverno.io",
                ["ephemeralreports", "clusterephemeralreports"],
            ),
            ("openreports.io", ["reports", "clusterreports"]),
            (
                "kyverno.io",
                ["admissionreports", "clusterbackgroundscanreports"],
            ),
        ];
        let cluster = [rules::cluster(), rules::reports()].concat();
        for (group, plurals) in groups {
            let rights = required(group, &plurals.map(str::to_owned), "own");
            for right in rights.into_iter().chain(of_admission()) {
                let local = if right.namespace.as_deref() == Some("own") {
                    rules::own_namespace()
                } else {
                    Vec::new()
                };
                let holds = |list: &Option<Vec<String>>, wanted: &str| {
                    list.iter().flatten().any(|one| one == wanted)
                };
                let granted = cluster.iter().chain(&local).any(|reasoned| {
                    let rule = &reasoned.rule;
                    holds(&rule.api_groups, &right.group)
                        && holds(&rule.resources, &right.resource)
                        && rule.verbs.iter().any(|verb| verb == right.verb)
                        && rule.resource_names.is_none()
                });
                assert!(granted, "no installed role lets the operator {right}");
            }
        }
    }

    #[test]
    fn rights_read_as_kubectl_names_them() {
        let all = required(
            "openreports.io",
            &["reports".to_owned()],
            "reports-server-system",
        );
        let words: Vec<String> = all.iter().map(ToString::to_string).collect();
        for expected in [
            "patch customresourcedefinitions.apiextensions.k8s.io",
            "create storedresources/import.control.reports-server.io",
            "list namespaces",
            "list endpointslices.discovery.k8s.io in namespace default",
            "patch configmaps in namespace reports-server-system",
            "watch reports.openreports.io",
        ] {
            assert!(
                words.iter().any(|w| w == expected),
                "{expected} is not in {words:?}"
            );
        }
    }
}
