//! The operator's rights, each with the reason why it is needed.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::names::{
    AUTH_DELEGATOR, AUTH_READER, OPERAND_CLUSTER_ROLE, OPERATOR, SERVER_CLUSTER_ROLE,
};

/// A rule and the reason for it, which is printed beside it.
#[derive(Clone, Debug)]
pub struct Reasoned {
    /// The reason why the operator needs this.
    pub reason: &'static str,
    /// The rule.
    pub rule: PolicyRule,
}

/// Verbs of a reader.
pub(super) const READ: &[&str] = &["get", "list", "watch"];
/// Verbs of a server-side apply of an object that may not exist yet.
const APPLY: &[&str] = &["create", "patch"];
/// Verbs for what is applied, and put back when somebody changes it.
const KEEP: &[&str] = &["list", "watch", "create", "patch"];
/// Verbs on own objects: apply, watch, and remove what is no longer needed.
const OWN: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// Returns a rule about `resources` of one API group.
pub(super) fn rule(
    reason: &'static str,
    group: &str,
    resources: &[&str],
    verbs: &[&str],
) -> Reasoned {
    let owned = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
    Reasoned {
        reason,
        rule: PolicyRule {
            api_groups: owned(&[group]),
            resources: owned(resources),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        },
    }
}

fn named(reasoned: Reasoned, names: &[&str]) -> Reasoned {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Reasoned {
        rule: PolicyRule {
            resource_names: Some(names),
            ..reasoned.rule
        },
        ..reasoned
    }
}

/// Returns the rights in the whole cluster.
#[must_use]
pub fn cluster() -> Vec<Reasoned> {
    let mut rules = own_resources();
    rules.extend(handed_out());
    rules.extend(switch());
    rules
}

fn own_resources() -> Vec<Reasoned> {
    vec![
        rule(
            "What users ask for; patch sets and removes the finalizer.",
            "reports-server.io",
            &["reportsservers"],
            &["get", "list", "watch", "patch"],
        ),
        rule(
            "What the operator found and did.",
            "reports-server.io",
            &["reportsservers/status"],
            &["patch"],
        ),
        rule(
            "Tells users what happens, on the ReportsServer.",
            "events.k8s.io",
            &["events"],
            APPLY,
        ),
        rule(
            "State and labels of the target namespace, and etcd's revision, which is read from a \
             list.",
            "",
            &["namespaces"],
            READ,
        ),
        rule(
            "Addresses of all kube-apiservers, from the namespace default: the switch is confirmed \
             at each of them, and network policies let the server reach them. No Role in that \
             namespace grants it, as an installation whose namespace is changed could not hold one.",
            "discovery.k8s.io",
            &["endpointslices"],
            &["list"],
        ),
        rule(
            "Counts the kube-apiservers by the Leases that they renew in kube-system: behind one \
             address there may be several, which have to be asked in another way. Their names are \
             not known beforehand, and no Role grants it, for the same reason. Finds operators of \
             other installations by theirs: one leads, the others wait.",
            "coordination.k8s.io",
            &["leases"],
            &["list"],
        ),
    ]
}

/// Returns the rights to give a server its own.
fn handed_out() -> Vec<Reasoned> {
    vec![
        rule(
            "Binds the account of each server to the first two roles below, and watches that it \
             stays so.",
            "rbac.authorization.k8s.io",
            &["clusterrolebindings"],
            KEEP,
        ),
        rule(
            "Binds the server to the role below in kube-system, which is watched likewise, and the \
             operator itself to its role in the target namespace.",
            "rbac.authorization.k8s.io",
            &["rolebindings"],
            KEEP,
        ),
        named(
            rule(
                "The only roles that the operator can bind without having their rights: that of \
                 every aggregated API server, what our server reads, and its own for target \
                 namespaces. Leave the last out and bind it yourself where you do not want the \
                 operator to.",
                "rbac.authorization.k8s.io",
                &["clusterroles"],
                &["bind"],
            ),
            &[AUTH_DELEGATOR, SERVER_CLUSTER_ROLE, OPERAND_CLUSTER_ROLE],
        ),
        named(
            rule(
                "Lets the server read the aggregator's client CA in kube-system.",
                "rbac.authorization.k8s.io",
                &["roles"],
                &["bind"],
            ),
            &[AUTH_READER],
        ),
    ]
}

/// Returns the rights that a migration needs besides reading and writing reports.
fn switch() -> Vec<Reasoned> {
    vec![
        rule(
            "The switch itself, and the control API. Which versions there are depends on the \
             cluster's CRDs, so the names are not known beforehand.",
            "apiregistration.k8s.io",
            &["apiservices"],
            OWN,
        ),
        rule(
            "Schemas and versions of the report APIs, and what the CRD of ReportsServer lacks; patch \
             adds the version legacy to a report CRD for as long as etcd is reached beside the \
             switched API, and takes it away again.",
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get", "list", "watch", "patch"],
        ),
        rule(
            "Keeps everybody but the operator from writing through the version legacy.",
            "admissionregistration.k8s.io",
            &[
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
            ],
            &["create", "patch", "delete"],
        ),
        rule(
            "Names policies and webhooks for reports: the kube-apiserver does not apply them to an \
             API that the server answers for.",
            "admissionregistration.k8s.io",
            &[
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                "validatingwebhookconfigurations",
                "mutatingwebhookconfigurations",
            ],
            &["list"],
        ),
        rule(
            "Names quotas for reports, which likewise have no effect there.",
            "",
            &["resourcequotas"],
            &["list"],
        ),
        rule(
            "What the server holds: progress and verification.",
            "control.reports-server.io",
            &["databases", "storedresources/digest"],
            &["get"],
        ),
        rule(
            "What the server holds, and whether it may be trusted.",
            "control.reports-server.io",
            &["storedresources"],
            &["list"],
        ),
        rule(
            "Hands reports over to the server.",
            "control.reports-server.io",
            &["storedresources/import"],
            &["create"],
        ),
        rule(
            "Takes the token by which the server tells the operator that leads from one that did.",
            "control.reports-server.io",
            &["storedresources/fence"],
            &["get", "create"],
        ),
        rule(
            "Holds requests during the switch, and raises the resource versions.",
            "control.reports-server.io",
            &["storedresources/gate", "storedresources/floor"],
            &["update"],
        ),
    ]
}

/// Returns the rights in a target namespace, bound there only.
#[must_use]
pub fn operand() -> Vec<Reasoned> {
    vec![
        rule(
            "PostgreSQL by CloudNativePG: makes a Cluster, follows its primary. The operator cannot \
             delete it.",
            "postgresql.cnpg.io",
            &["clusters"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "The server's certificate by cert-manager, where that is asked for; delete removes what \
             asks for it when it is asked for no longer.",
            "cert-manager.io",
            &["certificates"],
            OWN,
        ),
        rule(
            "Certificates of server and database, and how the database is reached.",
            "",
            &["secrets"],
            OWN,
        ),
        rule(
            "The list of served groups, which the server may read as well; configuration of \
             PostgreSQL.",
            "",
            &["configmaps"],
            OWN,
        ),
        rule(
            "Where the kube-apiserver reaches the server, and the server PostgreSQL.",
            "",
            &["services"],
            OWN,
        ),
        rule("Identity of the server.", "", &["serviceaccounts"], OWN),
        rule(
            "Volumes of database and backups; patch lets them grow. The operator cannot delete them.",
            "",
            &["persistentvolumeclaims"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule("The server itself.", "apps", &["deployments"], OWN),
        rule(
            "PostgreSQL, where the operator runs it.",
            "apps",
            &["statefulsets"],
            OWN,
        ),
        rule(
            "Backups of the database, how they ended, and the way back from one.",
            "batch",
            &["cronjobs", "jobs"],
            OWN,
        ),
        rule(
            "How many of the server's pods may be away when nodes are drained.",
            "policy",
            &["poddisruptionbudgets"],
            OWN,
        ),
        rule(
            "Number of the server's pods by load, where that is asked for.",
            "autoscaling",
            &["horizontalpodautoscalers"],
            OWN,
        ),
        rule(
            "Has Prometheus find the server and alert, where that is asked for.",
            "monitoring.coreos.com",
            &["servicemonitors", "prometheusrules"],
            &["get", "create", "patch", "delete"],
        ),
        rule(
            "Limits the connections of server, database and backups, where that is asked for.",
            "networking.k8s.io",
            &["networkpolicies"],
            OWN,
        ),
        rule(
            "Says why server, database or a restore do not go on; delete lets a database's pod that \
             cannot start give way to a corrected one.",
            "",
            &["pods"],
            &["list", "delete"],
        ),
        rule(
            "The server's right to read its ConfigMap.",
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings"],
            OWN,
        ),
    ]
}

/// Returns the rights in the operator's own namespace.
#[must_use]
pub fn own_namespace() -> Vec<Reasoned> {
    vec![
        rule(
            "The Lease that keeps two operators from doing the same; create cannot be bound to a \
             name.",
            "coordination.k8s.io",
            &["leases"],
            &["create"],
        ),
        named(
            rule(
                "Renews, takes and releases that Lease.",
                "coordination.k8s.io",
                &["leases"],
                &["get", "update"],
            ),
            &[OPERATOR],
        ),
        rule(
            "Notes on migrations that must survive a restart of the operator, and revisions of etcd \
             that the way back makes.",
            "",
            &["configmaps"],
            &["get", "create", "patch", "delete"],
        ),
    ]
}

/// Returns the rights of the Job by which the chart applies the `ReportsServer` of its values.
#[must_use]
pub fn applier() -> Vec<Reasoned> {
    vec![rule(
        "Applies the ReportsServer of the values; get reads it back.",
        "reports-server.io",
        &["reportsservers"],
        &["get", "create", "patch"],
    )]
}

/// Returns the rights of that Job in the target namespace, where the admission policies demand them
/// of whoever asks for a server.
#[must_use]
pub fn applier_in_target() -> Vec<Reasoned> {
    vec![
        rule(
            "Demanded of whoever asks for a server; nothing is created.",
            "apps",
            &["deployments"],
            &["create"],
        ),
        rule(
            "Demanded of whoever asks for a server; nothing is read.",
            "",
            &["secrets"],
            &["get"],
        ),
        rule(
            "Demanded with tls.mode: CertManager; nothing is created.",
            "cert-manager.io",
            &["certificates"],
            &["create"],
        ),
    ]
}

/// Returns the right of that Job on the account that the `ReportsServer` names: `{{ . }}` in a
/// template.
#[must_use]
pub fn applier_as_account() -> Vec<Reasoned> {
    let own = rule(
        "Demanded with server.serviceAccount.name; nobody is impersonated.",
        "",
        &["serviceaccounts"],
        &["impersonate"],
    );
    vec![named(own, &["{{ . }}"])]
}

/// Returns the rights on the reports of the built-in groups.
#[must_use]
pub fn reports() -> Vec<Reasoned> {
    let all: &[&str] = &[
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    let reason = "Copied from etcd, compared, deleted from etcd when verified, written back on the \
                  way back.";
    vec![
        rule(
            reason,
            "wgpolicyk8s.io",
            &["policyreports", "clusterpolicyreports"],
            all,
        ),
        rule(
            reason,
            "reports.kyverno.io",
            &["ephemeralreports", "clusterephemeralreports"],
            all,
        ),
        rule(
            reason,
            "openreports.io",
            &["reports", "clusterreports"],
            all,
        ),
        rule(
            reason,
            "kyverno.io",
            &[
                "admissionreports",
                "clusteradmissionreports",
                "backgroundscanreports",
                "clusterbackgroundscanreports",
            ],
            all,
        ),
    ]
}
