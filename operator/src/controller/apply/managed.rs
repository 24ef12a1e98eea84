//! Applies a PostgreSQL that the operator runs.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::{CronJob, Job},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
};
use tracing::info;

use super::{Error, Volume, inside, one, pods, volume};
use crate::{controller::workload, database::managed::Children};

/// What the status is computed from.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The database.
    pub stateful_set: StatefulSet,
    /// Its volume.
    pub data: Volume,
    /// Its pods, read only while it is not ready.
    pub pods: Vec<Pod>,
    /// The Job that fills it from a backup, while it does.
    pub recovery: Option<Recovery>,
    /// The volume for backups.
    pub backups: Option<Volume>,
    /// The Jobs that made backups, or are about to.
    pub backup_jobs: Vec<Job>,
}

/// The Job that fills a database from a backup.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The Job.
    pub job: Job,
    /// Its pods, newest first.
    pub pods: Vec<Pod>,
}

/// Applies every child.
///
/// # Errors
/// At the first child that is refused; what comes before it is applied.
pub async fn apply(client: &Client, children: Children) -> Result<Managed, Error> {
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
    Ok(Managed {
        stateful_set,
        data,
        pods,
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

async fn recover(client: &Client, job: &Job) -> Result<Recovery, Error> {
    let api = inside(client, job);
    let job = match one(&api, job).await {
        // A Job cannot be changed: one of another image goes on as it is.
        Err(Error::Apply {
            kind,
            name,
            source: kube::Error::Api(status),
        }) if status.code == 422 => {
            let failed = |source| Error::Apply { kind, name, source };
            api.get(&job.name_any()).await.map_err(failed)?
        }
        applied => applied?,
    };
    let namespace = job.namespace().unwrap_or_default();
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let pods = pods(client, &namespace, selector).await?;
    Ok(Recovery { job, pods })
}

/// The Jobs of a `CronJob`, those that a user has made from it included.
async fn backup_jobs(client: &Client, cron_job: &CronJob) -> Result<Vec<Job>, Error> {
    let labels = cron_job.labels().iter();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let selector = ListParams::default().labels(&labels.join(","));
    let api = Api::<Job>::namespaced(client.clone(), &cron_job.namespace().unwrap_or_default());
    let found = api.list(&selector).await;
    Ok(found.map_err(|source| Error::Backups { source })?.items)
}
