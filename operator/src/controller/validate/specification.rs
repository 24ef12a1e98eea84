//! The specification, checked against itself and the cluster, with every default.

use crds::names as crd_names;
use crds::v1alpha1::defaults::{self, Effective};
use crds::v1alpha1::spec::{
    DataDeletionPolicy, DatabaseMode, EmbeddedSpec, MigrationSpec, RestartSpec, RestartWhen,
    ServerSpec, SourcePolicy,
};
use crds::v1alpha1::{ReportsServer, ReportsServerSpec, reasons};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Resource, ResourceExt};

use super::certificates::Origin;
use super::refusal::{Refusal, refuse};
use super::scale::Scale;
use super::validated::{MoveProgress, PodSettings, Validated};
use super::{allowed, checks, collector, network, scale};
use crate::controller::found::Dereferenced;
use crate::database::embedded::{self, Embedded};
use crate::database::history::{self, GivenUp};
use crate::database::place::{Connection, Database, Postgres, Storage};
use crate::database::{external, managed};
use crate::names::Names;
use crate::{certs, images, migration};

/// Checks `object` against itself and the cluster and resolves every default.
///
/// # Errors
/// The first kind of [`Refusal`] that applies, with everything of that kind in its message.
pub fn specification(object: &ReportsServer, found: &Dereferenced) -> Result<Validated, Refusal> {
    let spec = &object.spec;
    let (Some(name), Some(uid)) = (object.meta().name.clone(), object.meta().uid.clone()) else {
        return refuse(
            reasons::INVALID_SPEC,
            "metadata: name and uid are missing".to_owned(),
        );
    };
    let effective = Effective::of(spec);
    checks::name(&name)?;
    checks::supported(spec)?;
    checks::groups(spec)?;
    checks::lifetimes(&effective)?;
    checks::drain_window(&effective)?;
    checks::claims(&name, object, &found.claims)?;
    checks::namespace(&name, &spec.target_namespace, found.namespace)?;
    allowed::begun(object, found)?;

    let names = Names::new(&name);
    checks::sources(spec, &names)?;
    checks::pods(spec, &names)?;
    let tracing = collector::of(spec)?;
    let confirmed = object
        .annotations()
        .get(crd_names::ANNOTATION_CONFIRM_DATA_DELETION);
    let scale = scale::of(spec, &effective, found.inside.deployment.as_ref())?;
    let database = database(spec, &effective, found, &names, &scale)?;
    checks::identity(object, &database)?;
    let certified = database_names(&database, &names, &spec.target_namespace);
    let postgres = database.postgres();
    let begun_anew = postgres.and_then(|postgres| begun_anew(object, found, postgres));
    let told = found.inside.history.as_deref();
    // What the reports were moved to comes before what the status still says.
    let moved_to = found.between.history().map(str::to_owned);
    let in_use = || history::in_use(noted(object), told, begun_anew);
    let history = postgres.and_then(|_| moved_to.or_else(in_use));
    let delete_data = effective.deletion_data == DataDeletionPolicy::Delete;
    Ok(Validated {
        uid,
        owner: object.controller_owner_ref(&()),
        namespace: spec.target_namespace.clone(),
        source: spec.clone(),
        apis: spec.apis.clone(),
        dropped: found.dropped.clone(),
        cluster_uid: found.cluster_uid.clone(),
        history,
        begun_anew: begun_anew.map(str::to_owned),
        database,
        embedded: embedded(spec, &effective, found, &name),
        postgres: None,
        moving: None,
        between: None,
        move_progress: MoveProgress::None,
        now: found.now,
        scale,
        retain_data: !(delete_data && confirmed == Some(&name)),
        network: network::of(spec, &found.api_server_ports),
        pod: pod_settings(spec, &effective, &found.default_image),
        tracing,
        certs: certs::Policy {
            ca_validity: effective.ca_validity,
            cert_validity: effective.cert_validity,
            renew_before: effective.renew_before,
            dns_names: names.dns_names(&spec.target_namespace),
            database: certified,
            serving: None,
        },
        origin: Origin::of(spec, &names),
        certificate: None,
        migration: migration_settings(spec, &effective),
        names,
    })
}

/// Returns the history that the status names.
fn noted(object: &ReportsServer) -> Option<&str> {
    let status = object.status.as_ref()?;
    status.database.as_ref()?.history.as_deref()
}

/// Returns the history that is given up on purpose, or was.
fn begun_anew<'a>(
    object: &'a ReportsServer,
    found: &'a Dereferenced,
    postgres: &'a Postgres,
) -> Option<&'a str> {
    history::given_up(GivenUp {
        asked: object.annotations().get(crd_names::ANNOTATION_BEGIN_ANEW),
        noted: noted(object),
        is_served: found.is_served(),
        identity: &postgres.cluster_identity,
        present: found.inside.verdict.as_ref(),
    })
}

fn database(
    spec: &ReportsServerSpec,
    effective: &Effective,
    found: &Dereferenced,
    names: &Names,
    scale: &Scale,
) -> Result<Database, Refusal> {
    if effective.database_mode == DatabaseMode::Embedded {
        return Ok(Database::Embedded(storage(spec, effective)));
    }
    let identity = spec.cluster_identity.clone().unwrap_or_default();
    let managed = (effective.database_mode == DatabaseMode::Managed).then(|| {
        let surroundings = managed::Surroundings {
            default_image: &found.default_postgres_image,
            transfer_image: server_image(spec, effective, found),
            cluster_uid: &found.cluster_uid,
            servers: scale.replicas.most(),
        };
        managed::settings(names.instance(), spec, effective, surroundings)
    });
    let managed = managed.transpose()?;
    Ok(Database::Postgres(Box::new(Postgres {
        mode: effective.database_mode,
        cluster_identity: identity.id.unwrap_or_else(|| found.cluster_uid.clone()),
        cluster_name: identity.display_name,
        max_connections: effective
            .max_connections
            .unwrap_or(defaults::MAX_CONNECTIONS),
        connection: match effective.database_mode {
            DatabaseMode::Managed => Connection::managed(names, &spec.target_namespace),
            mode => connection(spec, mode),
        },
        managed,
    })))
}

/// Returns the backups and the restore that an embedded database asks for.
fn embedded(
    spec: &ReportsServerSpec,
    effective: &Effective,
    found: &Dereferenced,
    name: &str,
) -> Option<Embedded> {
    if effective.database_mode != DatabaseMode::Embedded {
        return None;
    }
    let image = server_image(spec, effective, found);
    Some(embedded::settings(name, spec, image, &found.cluster_uid))
}

/// Returns the server's image, which makes and carries backups.
fn server_image(
    spec: &ReportsServerSpec,
    effective: &Effective,
    found: &Dereferenced,
) -> managed::TransferImage {
    let server = pod_settings(spec, effective, &found.default_image);
    managed::TransferImage {
        image: server.image,
        pull_policy: server.pull_policy,
    }
}

/// Whom certificates are issued for: both ends of a database that the operator runs.
fn database_names(
    database: &Database,
    names: &Names,
    namespace: &str,
) -> Option<certs::DatabaseNames> {
    database.postgres()?.managed.as_ref()?;
    let host = names.postgres_host(namespace);
    Some(certs::DatabaseNames {
        server: vec![host.clone(), format!("{host}.cluster.local")],
        role: managed::ROLE.to_owned(),
    })
}

/// Returns how the database is reached, as far as the specification says it.
fn connection(spec: &ReportsServerSpec, mode: DatabaseMode) -> Connection {
    let database = spec.database.as_ref();
    let external = database.and_then(|database| database.external.as_ref());
    let external = external.filter(|_| mode == DatabaseMode::External);
    external.map(external::connection).unwrap_or_default()
}

fn storage(spec: &ReportsServerSpec, effective: &Effective) -> Storage {
    let size = Quantity(effective.storage_size.clone());
    if effective.ephemeral.is_some() {
        return Storage::EmptyDir { size };
    }
    let embedded: Option<&EmbeddedSpec> = spec.database.as_ref().and_then(|d| d.embedded.as_ref());
    let storage = embedded.and_then(|embedded| embedded.storage.as_ref());
    Storage::Claim {
        size,
        class: storage.and_then(|s| s.storage_class_name.clone()),
    }
}

fn pod_settings(spec: &ReportsServerSpec, effective: &Effective, default: &str) -> PodSettings {
    let server: ServerSpec = spec.server.clone().unwrap_or_default();
    let images = spec.images.clone().unwrap_or_default();
    let own = images.server.unwrap_or_default();
    let account = server.service_account.unwrap_or_default();
    PodSettings {
        image: images::resolve(default, images.registry.as_deref(), &own),
        pull_policy: own.pull_policy.unwrap_or_default(),
        pull_secrets: images
            .pull_secrets
            .unwrap_or_default()
            .into_iter()
            .map(|r| r.name)
            .collect(),
        resources: server.resources,
        node_selector: server.node_selector,
        tolerations: server.tolerations,
        affinity: server.affinity,
        priority_class: server.priority_class_name,
        log_level: effective.log_level,
        log_format: effective.log_format,
        audit_direct_clients: effective.audit_direct_clients,
        service_account: account.name,
        service_account_annotations: account.annotations,
        template: server.pod_template,
    }
}

fn migration_settings(spec: &ReportsServerSpec, effective: &Effective) -> migration::Settings {
    let migration = spec.migration.as_ref();
    migration::Settings {
        page_size: effective.page_size,
        max_requests_per_second: Some(effective.max_requests_per_second),
        concurrency: effective.concurrency,
        approval: effective.approval,
        dry_run: migration.is_some_and(|m| m.dry_run == Some(true)),
        require_admission: effective.require_admission,
        approved_plan: migration.and_then(|m| m.approved_plan.clone()),
        soak: effective.soak,
        on_failure: effective.on_failure,
        prune_after: match effective.source_policy {
            SourcePolicy::Keep => None,
            SourcePolicy::Prune => Some(effective.source_after),
        },
        verification: effective.verification,
        drain_window: effective.drain_window,
        restart: migration.map(workloads).unwrap_or_default(),
    }
}

/// Returns what is restarted where it is needed, which is all that can be asked for.
fn workloads(migration: &MigrationSpec) -> Vec<migration::Workload> {
    let all = migration.restart.iter().flatten();
    let workloads = all.map(|restart| {
        let RestartSpec {
            kind,
            namespace,
            name,
            when: None | Some(RestartWhen::IfNeeded),
        } = restart;
        migration::Workload {
            kind: *kind,
            namespace: namespace.clone(),
            name: name.clone(),
        }
    });
    workloads.collect()
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::ReportsServerStatus;
    use crds::v1alpha1::status::DatabaseStatus;
    use database::inspect::{Contents, Held};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::controller::fixtures;
    use crate::controller::found::{Inside, Registered};
    use crate::database::check::{Usable, Verdict};

    /// Returns an object on the history `old`, with the annotation that gives up another or that.
    fn giving_up(history: &str) -> ReportsServer {
        let mut object = fixtures::object(json!({"database": {"mode": "External",
            "external": {"connectionSecretRef": {"name": "pg"}}}}));
        let annotation = (
            crd_names::ANNOTATION_BEGIN_ANEW.to_owned(),
            history.to_owned(),
        );
        object.metadata.annotations = Some([annotation].into());
        object.status = Some(ReportsServerStatus {
            database: Some(DatabaseStatus {
                history: Some("old".to_owned()),
                ..DatabaseStatus::default()
            }),
            ..ReportsServerStatus::default()
        });
        object
    }

    /// Returns a cluster with or without a group that is served, and a database with `history`.
    fn found(served: bool, history: &str) -> Dereferenced {
        let registered = Registered {
            group: "a.example".to_owned(),
            ca_bundle: Vec::new(),
        };
        let held = Held {
            identity: "uid-of-kube-system".to_owned(),
            history: history.to_owned(),
            cluster_uid: "uid-of-kube-system".to_owned(),
        };
        let usable = Usable {
            endpoint: "db:5432".to_owned(),
            version: "17.2".to_owned(),
            contents: Contents::default(),
            held: vec![held],
            sought: None,
        };
        Dereferenced {
            registered: served.then_some(registered).into_iter().collect(),
            inside: Inside {
                verdict: Some(Verdict::Usable(usable)),
                ..Inside::default()
            },
            ..fixtures::read()
        }
    }

    #[rstest]
    #[case::of_another("older", false, "old", Some("old"))]
    #[case::while_nothing_is_served("old", false, "old", None)]
    #[case::while_a_group_is_served("old", true, "old", Some("old"))]
    #[case::that_is_lost("old", true, "new", None)]
    fn a_history_is_given_up_by_name_and_not_while_it_serves(
        #[case] named: &str,
        #[case] served: bool,
        #[case] there: &str,
        #[case] expected: Option<&str>,
    ) {
        let spec = specification(&giving_up(named), &found(served, there)).unwrap();
        assert_eq!(spec.history.as_deref(), expected);
        let replaced = expected.is_none() || named == "older";
        assert_eq!(spec.begun_anew.is_some(), replaced);
    }
}
