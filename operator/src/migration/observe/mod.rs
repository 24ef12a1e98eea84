//! Reading what is known about a group from the cluster and the server.

pub mod bypass;
pub mod notes;
pub mod origin;
pub mod state;

use crds::control::StoredResource;
use crds::v1alpha1::reasons;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::ListParams;

use self::notes::{NoteBook, reverted};
use self::state::{Crd, Notes, Observed, Resource, Version};
use crate::apiservice::{self, ETCD_BYTES, Holder, PRUNED_AT, SWITCHED_AT, TAKEN_FROM, TAKEN_SPEC};
use crate::migration::cluster::control::Control;
use crate::migration::cluster::wire::WireError;
use crate::migration::plan::target::{GroupTarget, Predecessor};
use crate::migration::report::status::Problem;
use crate::migration::steps::import;
use crate::said::{is_forbidden, said};

/// The reason why the state of a group cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A request to the cluster fails.
    #[error("cannot read {what}: {}", said(.source))]
    Cluster {
        /// The kind of object that was read.
        what: &'static str,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// The control API refuses.
    #[error("the control API refuses: {0}")]
    Control(#[source] WireError),
}

impl ObserveError {
    /// Returns the problem for the status.
    #[must_use]
    pub fn problem(&self) -> Problem {
        if let Self::Cluster { source, .. } = self
            && is_forbidden(source)
        {
            return Problem::forbidden(self);
        }
        Problem {
            reason: reasons::PROGRESSING,
            message: self.to_string(),
            stalled: false,
        }
    }
}

/// Reads a group. The facts that only the process knows (mirrors, verification, rights) are left at
/// their default.
///
/// # Errors
/// See [`ObserveError`]. A control API that is away is not an error but observed as such.
pub async fn observe(
    client: &kube::Client,
    control: &Control,
    notes: &NoteBook,
    target: &GroupTarget,
) -> Result<Observed, ObserveError> {
    let group = target.group.as_str();
    let (crds, api_services, stored, reverted, copied_from) = tokio::try_join!(
        crds(client, group),
        api_services(client, group),
        stored(control, group),
        async {
            notes
                .get(&reverted(group))
                .await
                .map_err(cluster("the operator's notes"))
        },
        async {
            let copied_from = notes.get(&origin::key(group)).await;
            copied_from.map_err(cluster("the operator's notes"))
        },
    )?;
    let import = imported(notes, target).await?;
    let control_available = stored.is_some() && target.control_available;
    let known = stored.is_some();
    let stored = stored.unwrap_or_default();
    let (resources, others) = join(stored, crds);
    let wanted = versions(&resources, &others, known, &api_services, target);
    let strangers = if known {
        strangers(&others, &wanted)
    } else {
        Vec::new()
    };
    let mut notes = notes_of(&wanted);
    notes.pruned_at = origin::pruned_at(copied_from.as_deref(), &notes);
    notes.was_pruned |= origin::is_pruning(copied_from.as_deref());
    let predecessor = predecessor(&wanted, target);
    let unassigned = if known { Vec::new() } else { others };
    Ok(Observed {
        resources,
        versions: wanted,
        strangers,
        unassigned,
        predecessor,
        notes,
        import,
        reverted,
        control_available,
        now: Timestamp::now(),
        ..Observed::default()
    })
}

/// Returns the note of an earlier import from the predecessor's database.
async fn imported(
    notes: &NoteBook,
    target: &GroupTarget,
) -> Result<Option<import::Note>, ObserveError> {
    if target.database.is_none() {
        return Ok(None);
    }
    let note = notes.get(&notes::import(&target.group)).await;
    let note = note.map_err(cluster("the operator's notes"))?;
    Ok(note.and_then(|text| import::Note::parse(&text)))
}

/// Returns the CRDs of a group: found by name with a metadata list, because schemas are large.
async fn crds(client: &kube::Client, group: &str) -> Result<Vec<Crd>, ObserveError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let failed = || cluster("CustomResourceDefinitions");
    let all = api
        .list_metadata(&ListParams::default())
        .await
        .map_err(failed())?;
    let suffix = format!(".{group}");
    let names = all.items.into_iter().filter_map(|m| m.metadata.name);
    // A name is `<plural>.<group>`, and a plural has no dot.
    let ours = names.filter(|n| n.strip_suffix(&suffix).is_some_and(|p| !p.contains('.')));
    let read = ours.map(|name| {
        let api = api.clone();
        async move { api.get_opt(&name).await }
    });
    let found = futures::future::try_join_all(read)
        .await
        .map_err(failed())?;
    Ok(found.into_iter().flatten().map(Crd::new).collect())
}

async fn api_services(client: &kube::Client, group: &str) -> Result<Vec<APIService>, ObserveError> {
    let api: Api<APIService> = Api::all(client.clone());
    let all = api
        .list(&ListParams::default())
        .await
        .map_err(cluster("APIServices"))?;
    let of_group = |a: &APIService| {
        a.spec
            .as_ref()
            .and_then(|s| s.group.as_deref())
            .is_some_and(|g| g == group)
    };
    Ok(all.items.into_iter().filter(of_group).collect())
}

async fn stored(
    control: &Control,
    group: &str,
) -> Result<Option<Vec<StoredResource>>, ObserveError> {
    match control.list(group).await {
        Ok(all) => Ok(Some(all)),
        // Not registered yet, or away.
        Err(e) if e.is_transient() || e.code() == Some(404) => Ok(None),
        Err(e) => Err(ObserveError::Control(e)),
    }
}

/// Joins each stored resource with its CRD; the rest are CRDs that the server does not store.
fn join(stored: Vec<StoredResource>, mut crds: Vec<Crd>) -> (Vec<Resource>, Vec<Crd>) {
    let resources = stored
        .into_iter()
        .map(|stored| {
            let name = stored.metadata.name.clone().unwrap_or_default();
            let at = crds.iter().position(|c| c.name() == name);
            Resource {
                stored,
                crd: at.map(|n| crds.swap_remove(n)),
            }
        })
        .collect();
    (resources, crds)
}

/// Returns the versions to switch: those that the CRDs of the stored resources serve, or without
/// any CRD those that the server serves; and those that are ours already.
fn versions(
    resources: &[Resource],
    others: &[Crd],
    known: bool,
    api_services: &[APIService],
    target: &GroupTarget,
) -> Vec<Version> {
    let of_crds = resources.iter().filter_map(|r| r.crd.as_ref());
    let mut names: Vec<String> = of_crds
        .flat_map(|c| c.served().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    if !known {
        names.extend(
            others
                .iter()
                .flat_map(|c| c.served().map(str::to_owned).collect::<Vec<_>>()),
        );
    } else if names.is_empty() {
        names.extend(
            resources
                .iter()
                .flat_map(|r| r.stored.status.versions.clone()),
        );
    }
    let version_of = |a: &APIService| a.spec.as_ref().and_then(|s| s.version.clone());
    let ours = |a: &&APIService| apiservice::holder(Some(a), &target.service) == Holder::Ours;
    names.extend(api_services.iter().filter(ours).filter_map(version_of));
    let theirs = target.predecessor.as_ref().map(Predecessor::service);
    let of_theirs = |a: &&APIService| {
        let holder = apiservice::holder(Some(a), &target.service);
        matches!(holder, Holder::Foreign(service) if Some(&service) == theirs.as_ref())
    };
    if api_services.iter().any(|a| of_theirs(&a)) {
        names.extend(api_services.iter().filter(of_theirs).filter_map(version_of));
        // It answers for the versions that it has.
        names.retain(|name| {
            let mut served = api_services.iter().filter_map(version_of);
            served.any(|served| served == *name)
        });
    }
    names.sort();
    names.dedup();
    let find = |version: &str| {
        api_services
            .iter()
            .find(|a| version_of(a).as_deref() == Some(version))
            .cloned()
    };
    names
        .into_iter()
        .map(|version| {
            let api_service = find(&version);
            let holder = apiservice::holder(api_service.as_ref(), &target.service);
            let outdated = holder == Holder::Ours
                && api_service.as_ref().is_some_and(|a| {
                    apiservice::is_outdated(a, &target.service, &target.ca_bundle)
                });
            Version {
                name: version,
                api_service,
                holder,
                outdated,
            }
        })
        .collect()
}

/// Returns the server that the user lets us take the group over from, where it answers for a
/// version.
fn predecessor(versions: &[Version], target: &GroupTarget) -> Option<String> {
    let service = target.predecessor.as_ref()?.service();
    let foreign = Holder::Foreign(service.clone());
    versions
        .iter()
        .any(|v| v.holder == foreign)
        .then_some(service)
}

fn strangers(others: &[Crd], versions: &[Version]) -> Vec<String> {
    let shares = |crd: &&Crd| crd.served().any(|v| versions.iter().any(|w| w.name == v));
    others
        .iter()
        .filter(shares)
        .map(|c| c.name().to_owned())
        .collect()
}

fn notes_of(versions: &[Version]) -> Notes {
    let annotation = |key: &str| {
        versions
            .iter()
            .filter(|v| v.holder == Holder::Ours)
            .filter_map(|v| {
                v.api_service
                    .as_ref()?
                    .metadata
                    .annotations
                    .as_ref()?
                    .get(key)
                    .cloned()
            })
            .max()
    };
    let time = |key: &str| annotation(key).and_then(|v| v.parse().ok());
    Notes {
        taken_from: annotation(TAKEN_FROM),
        can_return: annotation(TAKEN_SPEC).is_some(),
        switched_at: time(SWITCHED_AT),
        pruned_at: time(PRUNED_AT),
        was_pruned: annotation(PRUNED_AT).is_some(),
        etcd_bytes: annotation(ETCD_BYTES)
            .and_then(|v| v.parse().ok())
            .unwrap_or_default(),
    }
}

fn cluster(what: &'static str) -> impl FnOnce(kube::Error) -> ObserveError {
    move |source| ObserveError::Cluster {
        what,
        source: Box::new(source),
    }
}
