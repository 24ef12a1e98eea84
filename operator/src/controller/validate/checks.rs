//! The checks of a `ReportsServer`, rule by rule: each says what is wrong and what to do about it.

use std::time::Duration;

use crds::names::LABEL_TARGET;
use crds::v1alpha1::defaults::Effective;
use crds::v1alpha1::spec::DatabaseMode;
use crds::v1alpha1::support::unsupported_fields;
use crds::v1alpha1::{ReportsServer, ReportsServerSpec, reasons};
use crds::{control, names as crd_names};

use super::refusal::{Refusal, refuse};
use super::template;
use crate::controller::found::{Claim, NamespaceState};
use crate::database::place::Database;
use crate::names::Names;

/// Longest time for which late writes are looked for.
const MAX_DRAIN_WINDOW: Duration = Duration::from_hours(1);

/// The CRD's rules say the same; a cluster may hold objects from before them.
pub(super) fn name(name: &str) -> Result<(), Refusal> {
    if name.chars().count() <= crd_names::MAX_NAME_LENGTH {
        return Ok(());
    }
    refuse(
        reasons::INVALID_SPEC,
        format!(
            "metadata.name: must have at most {} characters",
            crd_names::MAX_NAME_LENGTH
        ),
    )
}

pub(super) fn supported(spec: &ReportsServerSpec) -> Result<(), Refusal> {
    let mut found: Vec<String> = unsupported_fields(spec)
        .iter()
        .map(ToString::to_string)
        .collect();
    found.extend(out_of_place(spec));
    if found.is_empty() {
        return Ok(());
    }
    refuse(reasons::NOT_SUPPORTED, found.join("; "))
}

/// Fields that have no effect in the mode at hand. They are never ignored.
fn out_of_place(spec: &ReportsServerSpec) -> Vec<String> {
    let database = spec.database.clone().unwrap_or_default();
    let mode = database.mode.unwrap_or_default();
    let server = spec.server.clone().unwrap_or_default();
    let several = server.replicas.is_some_and(|replicas| replicas > 1);
    let shared = [
        (several, "spec.server.replicas: more than 1"),
        (server.autoscaling.is_some(), "spec.server.autoscaling"),
        (database.pool.is_some(), "spec.database.pool"),
        (spec.cluster_identity.is_some(), "spec.clusterIdentity"),
    ];
    let shared = shared
        .iter()
        .filter(|(given, _)| *given && mode == DatabaseMode::Embedded);
    let shared = shared.map(|(_, field)| {
        format!(
            "{field} needs PostgreSQL: set spec.database.mode to Managed, External or CloudNativePG"
        )
    });
    let image = spec
        .images
        .as_ref()
        .is_some_and(|images| images.postgres.is_some());
    let image = (image && mode != DatabaseMode::Managed)
        .then(|| "spec.images.postgres can only be set with spec.database.mode Managed".to_owned());
    let ours = matches!(mode, DatabaseMode::Embedded | DatabaseMode::Managed);
    let backup = (database.backup.is_some() && !ours).then(|| {
        "spec.database.backup can only be set with spec.database.mode Embedded or Managed; back up \
         an External database where it runs, and a CloudNativePG one with its own settings"
            .to_owned()
    });
    let embedded = database.embedded.unwrap_or_default();
    let lost = embedded.ephemeral.is_some() && embedded.bootstrap.is_some();
    let bootstrap = lost.then(|| {
        "spec.database.embedded.bootstrap cannot be set with ephemeral, because each new pod begins \
         with an empty volume"
            .to_owned()
    });
    let network = network_out_of_place(spec, mode);
    let alone = image.into_iter().chain(backup).chain(bootstrap);
    shared.chain(alone).chain(network).collect()
}

/// Fields of network policies that have no effect in the mode at hand.
fn network_out_of_place(spec: &ReportsServerSpec, mode: DatabaseMode) -> Vec<String> {
    let policy = spec.network_policy.clone().unwrap_or_default();
    let external = mode == DatabaseMode::External;
    let embedded = mode == DatabaseMode::Embedded && has_jobs(spec);
    let monitoring = spec.monitoring.as_ref();
    let traced = monitoring.is_some_and(|monitoring| monitoring.tracing.is_some());
    let fields = [
        (
            policy.database_cidrs.is_some() && !external,
            "spec.networkPolicy.databaseCIDRs can only be set with spec.database.mode External",
        ),
        (
            policy.additional_ports.is_some()
                && !external
                && !embedded
                && mode != DatabaseMode::Managed
                && !traced,
            "spec.networkPolicy.additionalPorts can only be set with spec.database.mode External, \
             or Managed or Embedded for a bucket, or with spec.monitoring.tracing",
        ),
    ];
    let given = fields.into_iter().filter(|(given, _)| *given);
    given.map(|(_, why)| why.to_owned()).collect()
}

/// Returns whether backups are made of an embedded database, or it starts with one.
fn has_jobs(spec: &ReportsServerSpec) -> bool {
    let database = spec.database.as_ref();
    database.is_some_and(|database| {
        let embedded = database.embedded.as_ref();
        database.backup.is_some() || embedded.is_some_and(|own| own.bootstrap.is_some())
    })
}

pub(super) fn pods(spec: &ReportsServerSpec, names: &Names) -> Result<(), Refusal> {
    let Some(server) = &spec.server else {
        return Ok(());
    };
    let account = server.service_account.as_ref();
    if account.is_some_and(|account| account.name.is_some() && account.annotations.is_some()) {
        return refuse(
            reasons::INVALID_SPEC,
            "spec.server.serviceAccount.annotations: only for a ServiceAccount that the operator \
             creates; annotate the one in serviceAccount.name yourself"
                .to_owned(),
        );
    }
    match &server.pod_template {
        Some(template) => template::check(template, &names.selector()),
        None => Ok(()),
    }
}

/// The reports in a database carry the identity with which they were written: under another one the
/// server would find none of them.
pub(super) fn identity(object: &ReportsServer, database: &Database) -> Result<(), Refusal> {
    let status = object.status.as_ref();
    let in_force = status
        .and_then(|status| status.database.as_ref())
        .and_then(|database| database.cluster_identity.as_deref());
    let wanted = database
        .postgres()
        .map(|postgres| postgres.cluster_identity.as_str());
    let (Some(in_force), Some(wanted)) = (in_force, wanted) else {
        return Ok(());
    };
    if in_force == wanted {
        return Ok(());
    }
    refuse(
        reasons::INVALID_SPEC,
        format!(
            "spec.clusterIdentity.id: the reports in the database belong to {in_force}, not to \
             {wanted}; set it to {in_force}"
        ),
    )
}

/// Groups that the kube-apiserver or this project needs itself.
pub(super) fn groups(spec: &ReportsServerSpec) -> Result<(), Refusal> {
    for (index, api) in spec.apis.iter().enumerate() {
        let group = api.group.as_str();
        let why = if group == control::GROUP || group == crd_names::API_GROUP {
            "belongs to this project and cannot be served as a report API"
        } else if !group.contains('.')
            || group.ends_with(".k8s.io")
            || group.ends_with(".kubernetes.io")
        {
            "belongs to Kubernetes and cannot be served as a report API"
        } else {
            continue;
        };
        let message = format!("spec.apis[{index}].group: {group} {why}; name a report API");
        return refuse(reasons::INVALID_SPEC, message);
    }
    Ok(())
}

/// The groups whose reports kyverno/reports-server keeps.
const OF_PREDECESSORS: [&str; 3] = ["openreports.io", "reports.kyverno.io", "wgpolicyk8s.io"];

/// A group is taken over from another server than its own, or from the database of one that has had
/// it.
pub(super) fn sources(spec: &ReportsServerSpec, names: &Names) -> Result<(), Refusal> {
    for (index, api) in spec.apis.iter().enumerate() {
        let from = match api.from.as_ref().map(|from| (&from.server, &from.database)) {
            None => continue,
            Some((Some(server), None)) => server,
            Some((None, Some(_))) if OF_PREDECESSORS.contains(&api.group.as_str()) => continue,
            Some((None, Some(_))) => {
                let message = format!(
                    "spec.apis[{index}].from.database: kyverno/reports-server does not store \
                     reports of {}, only of {}; remove this field",
                    api.group,
                    OF_PREDECESSORS.join(", ")
                );
                return refuse(reasons::INVALID_SPEC, message);
            }
            // The CRD's rule says the same; a cluster may hold objects from before it.
            Some((None, None) | (Some(_), Some(_))) => {
                let message =
                    format!("spec.apis[{index}].from: set exactly one of server and database");
                return refuse(reasons::INVALID_SPEC, message);
            }
        };
        if from.namespace == spec.target_namespace && from.name == names.server() {
            let message = format!(
                "spec.apis[{index}].from.server: {}/{} is the Service of this ReportsServer; name \
                 the one that the APIServices of {} point to now",
                from.namespace, from.name, api.group
            );
            return refuse(reasons::INVALID_SPEC, message);
        }
    }
    Ok(())
}

pub(super) fn lifetimes(effective: &Effective) -> Result<(), Refusal> {
    let (ca, leaf) = (effective.ca_validity, effective.cert_validity);
    if ca < leaf * 2 {
        return refuse(
            reasons::INVALID_SPEC,
            format!(
                "spec.tls.operator.caValidity: must be at least twice certValidity ({}s), so that \
                 a new certificate authority can be introduced in time",
                leaf.as_secs()
            ),
        );
    }
    if effective.renew_before >= leaf {
        return refuse(
            reasons::INVALID_SPEC,
            format!(
                "spec.tls.operator.renewBefore: must be shorter than certValidity ({}s)",
                leaf.as_secs()
            ),
        );
    }
    Ok(())
}

/// The CRD's rule says the same; a cluster may hold objects from before it.
pub(super) fn drain_window(effective: &Effective) -> Result<(), Refusal> {
    if effective.drain_window <= MAX_DRAIN_WINDOW {
        return Ok(());
    }
    refuse(
        reasons::INVALID_SPEC,
        "spec.migration.drainWindow: must not be longer than 1h, because the CRDs keep an additional \
         version for that long"
            .to_owned(),
    )
}

/// The oldest `ReportsServer` wins, by name where two are equally old. The control API is one for
/// the cluster, so in this version there is one at work even where the groups differ.
pub(super) fn claims(name: &str, object: &ReportsServer, claims: &[Claim]) -> Result<(), Refusal> {
    let own = Claim::of(object);
    let rank = |claim: &Claim| (claim.created, claim.name.clone());
    let older = claims
        .iter()
        .filter(|claim| claim.name != name && rank(claim) < rank(&own));
    let Some(winner) = older.min_by_key(|claim| rank(claim)) else {
        return Ok(());
    };
    let shared: Vec<&str> = own
        .groups
        .iter()
        .filter(|g| winner.groups.contains(g))
        .map(String::as_str)
        .collect();
    let message = if shared.is_empty() {
        format!(
            "the older ReportsServer {} holds {}, and this version supports one ReportsServer per \
             cluster: move spec.apis there, or delete it",
            winner.name,
            control::GROUP
        )
    } else {
        format!(
            "spec.apis: {} claimed by the older ReportsServer {}: remove it from one of the two",
            shared.join(", "),
            winner.name
        )
    };
    refuse(reasons::API_GROUP_CLAIMED, message)
}

/// A namespace that is being deleted takes the server of `owner` along, whatever is tried.
pub(super) fn namespace(owner: &str, name: &str, state: NamespaceState) -> Result<(), Refusal> {
    let message = match state {
        NamespaceState::Active => return Ok(()),
        NamespaceState::Missing => format!(
            "spec.targetNamespace: namespace {name} does not exist; create and label it \
             (kubectl create namespace {name}; kubectl label namespace {name} {LABEL_TARGET}=true)"
        ),
        NamespaceState::Terminating => format!(
            "spec.targetNamespace: namespace {name} is being deleted, and the server with it; \
             kubectl delete reportsserver {owner} gives the API groups back to their CRDs with the \
             reports that etcd has, and lets the deletion of the namespace end \
             (docs/install.md, \"When the namespace went first\")"
        ),
    };
    refuse(reasons::TARGET_NAMESPACE_MISSING, message)
}
