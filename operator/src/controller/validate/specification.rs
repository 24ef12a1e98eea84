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
use super::scale::Scale;
use super::validated::{MoveProgress, PodSettings, Refusal, Validated, refuse};
use super::{checks, scale};
use crate::controller::found::Dereferenced;
use crate::database::external;
use crate::database::managed;
use crate::database::place::{Connection, Database, Postgres, Storage};
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
    checks::namespace(&spec.target_namespace, found.namespace)?;

    let names = Names::new(&name);
    checks::sources(spec, &names)?;
    checks::pods(spec, &names)?;
    let confirmed = object
        .annotations()
        .get(crd_names::ANNOTATION_CONFIRM_DATA_DELETION);
    let scale = scale::of(spec, &effective)?;
    let database = database(spec, &effective, found, &names, &scale)?;
    checks::identity(object, &database)?;
    let certified = database_names(&database, &names, &spec.target_namespace);
    let delete_data = effective.deletion_data == DataDeletionPolicy::Delete;
    Ok(Validated {
        uid,
        owner: object.controller_owner_ref(&()),
        namespace: spec.target_namespace.clone(),
        source: spec.clone(),
        apis: spec.apis.clone(),
        dropped: found.dropped.clone(),
        cluster_uid: found.cluster_uid.clone(),
        database,
        postgres: None,
        moving: None,
        move_progress: MoveProgress::None,
        now: found.now,
        scale,
        retain_data: !(delete_data && confirmed == Some(&name)),
        pod: pod_settings(spec, &effective, &found.default_image),
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
        let server = pod_settings(spec, effective, &found.default_image);
        let transfer_image = managed::TransferImage {
            image: server.image,
            pull_policy: server.pull_policy,
        };
        let surroundings = managed::Surroundings {
            default_image: &found.default_postgres_image,
            transfer_image,
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
