//! Step 5 of a reconciliation: server-side apply of every child, and removal of what is no child
//! any more.

mod account;
mod budget;
mod certificate;
mod child;
mod cluster;
mod embedded;
mod error;
mod keep;
mod managed;
mod monitoring;
mod placement;
mod probe;
mod refused;
mod release;
mod untyped;
mod upgrade;
mod volume;

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tracing::info;

use self::child::{forced, inside, maybe, named, one, pods};
use super::build::{
    self, Children, Kept, MonitoringKind, ServiceAccountRef, control_api_name, operand_binding,
};
use super::validate::{MoveProgress, Validated};
use super::workload;

#[cfg(test)]
pub use certificate::remove_unasked as remove_unasked_certificate;
pub use embedded::Embedded;
pub use error::Error;
pub use keep::{keep, order};
#[cfg(test)]
pub use managed::give_way;
pub use managed::{Managed, Recovery};
pub use probe::probe;
pub use release::release;
pub use upgrade::note;
pub use volume::Volume;
#[cfg(test)]
pub use volume::{apply as volume, probe as probe_volume};

/// Longest time that a binding may take to reach every kube-apiserver's authorizer.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two questions whether it has.
const ACCESS_POLL: Duration = Duration::from_millis(200);

/// The children whose state the status is computed from, as the kube-apiserver returned them.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The server.
    pub deployment: Deployment,
    /// The volume of an embedded database.
    pub data: Option<Volume>,
    /// A PostgreSQL that the operator runs.
    pub managed: Option<Managed>,
    /// Backups of an embedded database, and its restore.
    pub embedded: Option<Embedded>,
    /// The control API.
    pub control_api: APIService,
    /// Kinds of the Prometheus operator that are asked for and have no CRD.
    pub unmonitored: Vec<MonitoringKind>,
    /// The server's pods, read only while the server is not ready.
    pub pods: Vec<Pod>,
}

/// Applies every child.
///
/// # Errors
/// At the first child that is refused; what comes before it is applied.
pub async fn apply(client: &Client, children: Box<Children>) -> Result<Box<Applied>, Error> {
    // Taken apart without `..`: a new child cannot be forgotten here.
    let Children {
        operand_binding,
        service_account,
        auth_delegator,
        auth_reader,
        cluster_reader,
        config_reader,
        config_reader_binding,
        ca,
        serving_cert,
        network_policies,
        config,
        managed,
        cluster,
        embedded,
        connection,
        database_move,
        data,
        service,
        deployment,
        disruption_budget,
        autoscaler,
        dashboard,
        monitored,
        control_api,
        certificate,
        accepted,
        move_name: _,
    } = *children;
    one(&inside(client, &operand_binding), &operand_binding).await?;
    let account = maybe(client, service_account.as_ref()).await?;
    named(&Api::all(client.clone()), &auth_delegator).await?;
    named(&inside(client, &auth_reader), &auth_reader).await?;
    named(&Api::all(client.clone()), &cluster_reader).await?;
    one(&inside(client, &config_reader), &config_reader).await?;
    one(
        &inside(client, &config_reader_binding),
        &config_reader_binding,
    )
    .await?;
    one(&inside(client, &ca), &ca).await?;
    one(&inside(client, &serving_cert), &serving_cert).await?;
    for policy in &network_policies {
        one(&inside(client, policy), policy).await?;
    }
    one(&inside(client, &config), &config).await?;
    let managed = match managed {
        Some(managed) => Some(Box::pin(managed::apply(client, managed, &deployment)).await?),
        None => None,
    };
    if let Some(cluster) = &cluster {
        cluster::apply(client, cluster, &forced()).await?;
    }
    maybe(client, connection.as_ref()).await?;
    maybe(client, database_move.as_ref()).await?;
    let data = match data {
        Some(data) => Some(volume::apply(client, data).await?),
        None => None,
    };
    let embedded = match embedded {
        Some(embedded) => Some(Box::pin(embedded::apply(client, embedded)).await?),
        None => None,
    };
    one(&inside(client, &service), &service).await?;
    let deployment = Box::pin(account::noted(client, deployment, account.as_ref())).await?;
    let deployment = one(&inside(client, &deployment), &deployment).await?;
    budget::apply(client, disruption_budget.as_ref(), &forced()).await?;
    maybe(client, autoscaler.as_ref()).await?;
    maybe(client, dashboard.as_ref()).await?;
    let control_api = one(&Api::all(client.clone()), &control_api).await?;
    certificate::apply(client, certificate.as_ref(), &forced()).await?;
    let unmonitored = monitoring::apply(client, &monitored, &forced()).await?;
    one(&inside(client, &accepted), &accepted).await?;
    let pods = pods_in_trouble(client, &deployment).await?;
    Ok(Box::new(Applied {
        deployment,
        data,
        managed,
        embedded,
        control_api,
        unmonitored,
        pods,
    }))
}

impl Applied {
    /// Returns the Jobs that made backups, or are about to, whatever the database.
    #[must_use]
    pub fn backup_jobs(&self) -> &[Job] {
        let managed = self.managed.as_ref().map(|managed| &managed.backup_jobs);
        let embedded = self.embedded.as_ref().map(|embedded| &embedded.backup_jobs);
        let jobs = managed.or(embedded).map(Vec::as_slice);
        jobs.unwrap_or_default()
    }

    /// Returns the volume for backups, where they go to one.
    #[must_use]
    pub fn backups(&self) -> Option<&Volume> {
        let managed = self.managed.as_ref().and_then(|own| own.backups.as_ref());
        let embedded = self.embedded.as_ref();
        managed.or_else(|| embedded.and_then(|own| own.backups.as_ref()))
    }
}

/// Carries out what no child's definition says: notes on volumes, and deletions that are decided.
///
/// # Errors
/// At the first that is refused.
pub async fn prepare(client: &Client, spec: &Validated) -> Result<(), Error> {
    for note in build::retired(spec) {
        upgrade::note(client, &spec.namespace, &note).await?;
    }
    if spec.managed().is_some_and(|managed| managed.present.clear) {
        upgrade::clear(client, spec).await?;
    }
    if spec.move_progress == MoveProgress::Over {
        forget_move(client, spec).await?;
    }
    Ok(())
}

/// Deletes the Secret of a move.
async fn forget_move(client: &Client, spec: &Validated) -> Result<(), Error> {
    let api = Api::<Secret>::namespaced(client.clone(), &spec.namespace);
    let name = spec.names.database_move();
    match api.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop).map_err(|source| Error::Orphans {
            kind: "Secret".to_owned(),
            source,
        }),
    }
}

/// Returns the Jobs that made backups, or are about to, where backups are made.
///
/// # Errors
/// If they cannot be listed.
pub async fn backup_jobs(client: &Client, children: &Children) -> Result<Vec<Job>, Error> {
    let managed = children.managed.as_ref();
    let managed = managed.and_then(|managed| managed.backup.as_ref());
    let embedded = children.embedded.as_ref();
    let embedded = embedded.and_then(|embedded| embedded.backup.as_ref());
    match managed.or(embedded) {
        Some(cron_job) => managed::backup_jobs(client, cron_job).await,
        None => Ok(Vec::new()),
    }
}

/// Returns the server's pods, newest first; none while it is ready.
///
/// # Errors
/// If they cannot be read.
pub async fn pods_in_trouble(client: &Client, deployment: &Deployment) -> Result<Vec<Pod>, Error> {
    if workload::is_ready(deployment) {
        return Ok(Vec::new());
    }
    let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
    let namespace = deployment.namespace().unwrap_or_default();
    pods(client, &namespace, selector).await
}

/// Binds the operator's role in the target namespace and waits until every kube-apiserver that
/// answers has heard of it. Called when a first read there was refused.
///
/// # Errors
/// If the binding has no effect in time.
pub async fn gain_access(
    client: &Client,
    spec: &Validated,
    operator: &ServiceAccountRef,
) -> Result<(), Error> {
    let binding = operand_binding(spec, operator);
    // Whether one of that name is somebody else's cannot be read yet.
    match named(&inside(client, &binding), &binding).await {
        // Whoever withholds the right to bind has bound the role already, or hears of it below.
        Ok(_) => info!(namespace = spec.namespace, "bound the operator's role"),
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error),
    }
    let wait = async {
        while !may_read_secrets(client, &spec.namespace).await? {
            tokio::time::sleep(ACCESS_POLL).await;
        }
        Ok(())
    };
    tokio::time::timeout(ACCESS_TIMEOUT, wait)
        .await
        .unwrap_or_else(|_| Err(Error::NoAccess(spec.namespace.clone())))
}

async fn may_read_secrets(client: &Client, namespace: &str) -> Result<bool, Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                resource: Some("secrets".to_owned()),
                verb: Some("get".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api
        .create(&PostParams::default(), &review)
        .await
        .map_err(|source| Error::Access {
            namespace: namespace.to_owned(),
            source,
        })?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Deletes what carries the labels of a child in the target namespace and is none, as another
/// version of the operator may have left it. A volume is never deleted here.
///
/// # Errors
/// If leftovers cannot be listed or deleted.
pub async fn remove_orphans(
    client: &Client,
    spec: &Validated,
    kept: &Kept,
) -> Result<Vec<String>, Error> {
    // Taken apart without `..`: a new kind cannot be forgotten here.
    let Kept {
        deployments,
        services,
        config_maps,
        secrets,
        roles,
        role_bindings,
        service_accounts,
        disruption_budgets,
        autoscalers,
        network_policies,
        stateful_sets,
        cron_jobs,
        jobs,
        monitored,
    } = kept;
    let mut gone = monitoring::remove_others(client, spec, monitored).await?;
    gone.extend(orphans::<HorizontalPodAutoscaler>(client, spec, autoscalers).await?);
    gone.extend(orphans::<PodDisruptionBudget>(client, spec, disruption_budgets).await?);
    gone.extend(orphans::<NetworkPolicy>(client, spec, network_policies).await?);
    gone.extend(orphans::<CronJob>(client, spec, cron_jobs).await?);
    gone.extend(orphans::<Job>(client, spec, jobs).await?);
    gone.extend(orphans::<StatefulSet>(client, spec, stateful_sets).await?);
    gone.extend(orphans::<Deployment>(client, spec, deployments).await?);
    gone.extend(orphans::<Service>(client, spec, services).await?);
    gone.extend(orphans::<ConfigMap>(client, spec, config_maps).await?);
    gone.extend(orphans::<Secret>(client, spec, secrets).await?);
    gone.extend(orphans::<RoleBinding>(client, spec, role_bindings).await?);
    gone.extend(orphans::<Role>(client, spec, roles).await?);
    gone.extend(orphans::<ServiceAccount>(client, spec, service_accounts).await?);
    gone.extend(certificate::remove_unasked(client, spec).await?);
    Ok(gone)
}

/// Deletes the `APIService` of the control API. Left to the garbage collector, it would point for
/// a while to a server that is gone, and hold up every deletion of a namespace meanwhile.
///
/// # Errors
/// If it exists, belongs to `owner_uid` and cannot be deleted.
pub async fn remove_control_api(client: &Client, owner_uid: &str) -> Result<(), Error> {
    let api = Api::<APIService>::all(client.clone());
    let failed = |source| Error::Orphans {
        kind: "APIService".to_owned(),
        source,
    };
    let name = control_api_name();
    let Some(found) = api.get_metadata_opt(&name).await.map_err(failed)? else {
        return Ok(());
    };
    if !found
        .owner_references()
        .iter()
        .any(|owner| owner.uid == owner_uid)
    {
        return Ok(());
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.uid(),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match api.delete(&name, &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        deleted => deleted.map(|_| ()).map_err(failed),
    }
}

async fn orphans<K>(
    client: &Client,
    spec: &Validated,
    keep: &[String],
) -> Result<Vec<String>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    let api = Api::<K>::namespaced(client.clone(), &spec.namespace);
    let failed = |source| Error::Orphans {
        kind: K::kind(&()).into_owned(),
        source,
    };
    let selector = ListParams::default().labels(&spec.names.label_selector());
    let mut gone = Vec::new();
    for found in api.list_metadata(&selector).await.map_err(failed)? {
        let name = found.name_any();
        // Endpoints and the like inherit a Service's labels but have another owner.
        let owned = found
            .owner_references()
            .iter()
            .any(|owner| owner.uid == spec.uid);
        if keep.contains(&name) || !owned {
            continue;
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&name, &params).await {
            Ok(_) => gone.push(format!("{} {name}", K::kind(&()))),
            // Somebody else was faster, or it is a new object of that name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(gone)
}
