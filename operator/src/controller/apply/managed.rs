//! Applies a PostgreSQL that the operator runs.

use crds::names::FIELD_MANAGER;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use tracing::info;

use super::child::{inside, one, pods, refused_to};
use super::error::Error;
use super::placement;
use super::volume::{self, Volume};
use crate::controller::workload;
use crate::database::managed::Children;
use crate::database::managed::upgrade::{self, Run};

/// The children of a managed database from which the status is computed.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The database.
    pub stateful_set: StatefulSet,
    /// The volume of the database.
    pub data: Volume,
    /// The pods of the database, read only while it is not ready.
    pub pods: Vec<Pod>,
    /// The Job of an upgrade, while there is one.
    pub upgrade: Option<Recovery>,
    /// The Job that fills it from a backup, while it does.
    pub recovery: Option<Recovery>,
    /// The volume for backups.
    pub backups: Option<Volume>,
    /// The Jobs that made backups, or are about to.
    pub backup_jobs: Vec<Job>,
}

/// A Job that fills a database.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The Job.
    pub job: Job,
    /// The pods of the Job, newest first.
    pub pods: Vec<Pod>,
}

/// Applies every child. The database follows `server`, which is applied later, to another place.
///
/// # Errors
/// At the first child that is refused; what comes before it is applied.
pub async fn apply(
    client: &Client,
    children: Children,
    server: &Deployment,
) -> Result<Managed, Error> {
    // Taken apart without `..`: a new child cannot be forgotten here.
    let Children {
        password,
        tls,
        client: certificate,
        config,
        data,
        service,
        pods: headless,
        stateful_set,
        upgrade,
        recovery,
        backups,
        backup,
    } = children;
    one(&inside(client, &password), &password).await?;
    one(&inside(client, &tls), &tls).await?;
    one(&inside(client, &certificate), &certificate).await?;
    one(&inside(client, &config), &config).await?;
    let data = volume::apply(client, data).await?;
    one(&inside(client, &service), &service).await?;
    one(&inside(client, &headless), &headless).await?;
    let stateful_set = placement::reached(client, stateful_set, server).await?;
    let stateful_set = one(&inside(client, &stateful_set), &stateful_set).await?;
    let pods = if workload::is_database_ready(&stateful_set) {
        Vec::new()
    } else {
        let namespace = stateful_set.namespace().unwrap_or_default();
        let selector = stateful_set.spec.as_ref().map(|spec| &spec.selector);
        let pods = pods(client, &namespace, selector).await?;
        if let Some(pod) = workload::in_the_way(&stateful_set, &pods) {
            give_way(client, pod).await?;
        }
        pods
    };
    let upgrade = match upgrade {
        Some(upgrade) => run_upgrade(client, upgrade).await?,
        None => None,
    };
    let saved = Box::pin(saved(client, recovery, backups, backup));
    let (recovery, backups, backup_jobs) = saved.await?;
    Ok(Managed {
        stateful_set,
        data,
        pods,
        upgrade,
        recovery,
        backups,
        backup_jobs,
    })
}

/// Deletes a pod that keeps a corrected template from its turn. It cannot start, so nothing ends.
///
/// # Errors
/// If it cannot be deleted; that it is gone already is as good.
pub async fn give_way(client: &Client, pod: &Pod) -> Result<(), Error> {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = pod.name_any();
    match inside(client, pod).delete(&name, &params).await {
        Ok(_) => info!(
            pod = name,
            "deleted a pod of an old template that cannot start"
        ),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(source) => return Err(Error::InTheWay { pod: name, source }),
    }
    Ok(())
}

async fn run_upgrade(
    client: &Client,
    children: upgrade::Children,
) -> Result<Option<Recovery>, Error> {
    let upgrade::Children {
        data,
        config,
        run,
        jobs: _,
    } = children;
    let data = volume::apply(client, data).await?;
    one(&inside(client, &config), &config).await?;
    let jobs = Api::namespaced(client.clone(), &data.claim.namespace().unwrap_or_default());
    let job = match run {
        Some(Run::Begin(job)) => Some(begin(&jobs, &job).await?),
        Some(Run::Follow(name)) => follow(&jobs, name).await?,
        None => None,
    };
    match job {
        Some(job) => Ok(Some(with_pods(client, job).await?)),
        None => Ok(None),
    }
}

/// Made, not applied: one that was there and is gone must not be made again by itself.
async fn begin(jobs: &Api<Job>, job: &Job) -> Result<Job, Error> {
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    jobs.create(&params, job)
        .await
        .map_err(|source| Error::Apply {
            kind: Job::kind(&()).into_owned(),
            name: job.name_any(),
            source,
        })
}

async fn follow(jobs: &Api<Job>, name: String) -> Result<Option<Job>, Error> {
    jobs.get_opt(&name).await.map_err(|source| Error::Apply {
        kind: Job::kind(&()).into_owned(),
        name,
        source,
    })
}

/// Applies what fills a database from a backup, the volume for backups, and what makes them, of any
/// database; returns the first two, and the Jobs of the third.
///
/// # Errors
/// At the first that is refused; what comes before it is applied.
pub(super) async fn saved(
    client: &Client,
    recovery: Option<Job>,
    backups: Option<PersistentVolumeClaim>,
    backup: Option<CronJob>,
) -> Result<(Option<Recovery>, Option<Volume>, Vec<Job>), Error> {
    let recovery = match recovery {
        Some(job) => Some(recover(client, &job).await?),
        None => None,
    };
    let backups = match backups {
        Some(claim) => Some(volume::apply(client, claim).await?),
        None => None,
    };
    let backup_jobs = match backup {
        Some(cron_job) => {
            let cron_job = one(&inside(client, &cron_job), &cron_job).await?;
            backup_jobs(client, &cron_job).await?
        }
        None => Vec::new(),
    };
    Ok((recovery, backups, backup_jobs))
}

async fn recover(client: &Client, job: &Job) -> Result<Recovery, Error> {
    let api = inside(client, job);
    let job = match one(&api, job).await {
        // A Job cannot be changed: one of another image goes on as it is.
        Err(refused) if refused.is_invalid() => {
            let found = api.get(&job.name_any()).await;
            found.map_err(|source| refused_to(job, source))?
        }
        applied => applied?,
    };
    with_pods(client, job).await
}

async fn with_pods(client: &Client, job: Job) -> Result<Recovery, Error> {
    let namespace = job.namespace().unwrap_or_default();
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let pods = pods(client, &namespace, selector).await?;
    Ok(Recovery { job, pods })
}

/// Returns the Jobs of a `CronJob`, those that a user has made from it included.
///
/// # Errors
/// If they cannot be listed.
pub(super) async fn backup_jobs(client: &Client, cron_job: &CronJob) -> Result<Vec<Job>, Error> {
    let labels = cron_job.labels().clone().into_iter().collect();
    let selector = ListParams::default().labels_from(&labels);
    let api = Api::<Job>::namespaced(client.clone(), &cron_job.namespace().unwrap_or_default());
    let found = api.list(&selector).await;
    Ok(found.map_err(|source| Error::Backups { source })?.items)
}
