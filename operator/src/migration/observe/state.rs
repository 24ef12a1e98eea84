//! The facts about one API group, from which every decision is made.

use std::collections::BTreeSet;

use crds::control::{GateState, StoredResource};
use crds::names::ANNOTATION_CLAIMED_BY;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use sha2::{Digest as _, Sha256};

use super::bypass::Bypass;
use super::bypass::rules::Requests;
use crate::apiservice::{Holder, TAKEN_FROM};
use crate::grant::Rule;
use crate::migration::cluster::door::objects::{self, CLOSE_ANNOTATION, Door, VERSION};
use crate::migration::plan::estimate::Plan;
use crate::migration::plan::target::GroupTarget;
use crate::migration::report::status::Problem;
use crate::migration::steps::import::note::Note;

/// The time by which clocks may differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// A CRD of the group, and its relevant parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Crd {
    /// The object as it was read.
    pub object: CustomResourceDefinition,
    /// State of the side door.
    pub door: Door,
}

impl Crd {
    /// Reads a CRD.
    #[must_use]
    pub fn new(object: CustomResourceDefinition) -> Self {
        let door = objects::state(&object);
        Self { object, door }
    }

    /// Returns whether nobody is deleting it. With one that goes, everything goes that is written to it.
    #[must_use]
    pub fn stays(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_none()
    }

    /// Returns the name: `<plural>.<group>`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the served versions without the side door, in the CRD's order.
    pub fn served(&self) -> impl Iterator<Item = &str> {
        let versions = self.object.spec.versions.iter();
        versions
            .filter(|v| v.served && v.name != VERSION)
            .map(|v| v.name.as_str())
    }

    /// Returns the version to read through: the storage version where it is served, because any
    /// other may prune fields that only the storage version knows.
    #[must_use]
    pub fn read_version(&self) -> Option<&str> {
        let storage = self
            .object
            .spec
            .versions
            .iter()
            .find(|v| v.storage && v.served);
        storage
            .map(|v| v.name.as_str())
            .or_else(|| self.served().next())
    }

    /// Returns whether the kube-apiserver serves it.
    #[must_use]
    pub fn is_established(&self) -> bool {
        let conditions = self
            .object
            .status
            .as_ref()
            .and_then(|s| s.conditions.as_ref());
        conditions.is_some_and(|c| {
            c.iter()
                .any(|c| c.type_ == "Established" && c.status == "True")
        })
    }

    /// Returns whether versions are converted by a webhook.
    #[must_use]
    pub fn converts_by_webhook(&self) -> bool {
        self.object
            .spec
            .conversion
            .as_ref()
            .is_some_and(|c| c.strategy == "Webhook")
    }

    /// Returns whether a user asks to close the door.
    #[must_use]
    pub fn asks_to_close(&self) -> bool {
        let annotations = self.object.metadata.annotations.as_ref();
        annotations.is_some_and(|a| a.contains_key(CLOSE_ANNOTATION))
    }
}

/// One resource that the server stores.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The server's view.
    pub stored: StoredResource,
    /// The CRD behind it, where there is one.
    pub crd: Option<Crd>,
}

impl Resource {
    /// Returns the name of the stored resource and of the CRD.
    #[must_use]
    pub fn name(&self) -> &str {
        self.stored.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the plural name.
    #[must_use]
    pub fn plural(&self) -> &str {
        &self.stored.status.resource
    }

    /// Returns the state of the gate.
    #[must_use]
    pub fn gate(&self) -> GateState {
        self.stored.status.gate
    }

    /// Returns whether the server has objects of it that it does not serve: copies.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.gate() == GateState::Closed && self.stored.status.objects > 0
    }

    /// Returns whether the server was never given anything of it: not even what a mirror of an empty
    /// collection tells.
    #[must_use]
    pub fn is_unknown_to_server(&self) -> bool {
        let status = &self.stored.status;
        let horizon = status.horizon.parse::<u64>().unwrap_or_default();
        status.objects == 0 && status.mirrored_resource_version.is_empty() && horizon <= 1
    }

    /// Returns whether its gate is not open but was, so that it only has to be opened again: there
    /// is nothing in etcd that the server would still have to copy.
    #[must_use]
    pub fn is_to_reopen(&self) -> bool {
        let status = &self.stored.status;
        match status.gate {
            GateState::Open => false,
            GateState::Held => status.opened,
            GateState::Closed => status.settled,
        }
    }
}

/// One version that our server should serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Name of the version.
    pub name: String,
    /// APIService of the version.
    pub api_service: Option<APIService>,
    /// The server that answers for it.
    pub holder: Holder,
    /// True when it is ours, but with another port or CA bundle than wanted.
    pub outdated: bool,
}

impl Version {
    /// Returns whether the APIService carries the mark of one that was put into our server's charge.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.annotation(ANNOTATION_CLAIMED_BY).is_some()
    }

    /// Returns whether such an APIService leads to `service` by now, and was not taken over from
    /// there.
    #[must_use]
    pub fn is_led_away_to(&self, service: &str) -> bool {
        self.is_claimed() && self.annotation(TAKEN_FROM) != Some(service)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.api_service.as_ref()?.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }
}

/// The progress of the group's mirrors; known to this process only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirrorStage {
    /// At least one resource has no running mirror.
    #[default]
    Missing,
    /// All run, at least one is still copying its list.
    Copying,
    /// All lists are copied and all watches are followed.
    Following,
}

/// The facts in the annotations of our APIServices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The time at which our server was put in charge.
    pub switched_at: Option<Timestamp>,
    /// The time at which the copies in etcd were deleted.
    pub pruned_at: Option<Timestamp>,
    /// True when their prune has begun since the switch. It may not have ended, or a way back that was
    /// given up has made some again: what etcd has is not all there was.
    pub was_pruned: bool,
    /// Size of the objects in etcd at the switch.
    pub etcd_bytes: u64,
    /// The server that the group was taken over from, as `namespace/name` of its Service.
    pub taken_from: Option<String>,
    /// True when the APIServices can still be led back to it.
    pub can_return: bool,
}

/// Everything known about a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The resources of the group that the server stores, sorted by name.
    pub resources: Vec<Resource>,
    /// The versions to switch, sorted.
    pub versions: Vec<Version>,
    /// CRDs of the group that the server does not store, with a version that should be switched.
    pub strangers: Vec<String>,
    /// The CRDs of the group while the control API does not say which resources the server stores;
    /// else none.
    pub unassigned: Vec<Crd>,
    /// The server that answers for a version now and that the group may be taken over from, as
    /// `namespace/name` of its Service.
    pub predecessor: Option<String>,
    /// See [`Notes`].
    pub notes: Notes,
    /// The imports from the predecessor's database; none where nothing is imported, or no database
    /// was named.
    pub import: Option<Note>,
    /// The reason why the group was given back although the server should own it, if it was.
    pub reverted: Option<String>,
    /// True when the control API answers and is Available through the aggregator.
    pub control_available: bool,
    /// Rights that the operator lacks, in words; empty when all are there or were not asked.
    pub missing_rights: Vec<String>,
    /// The rules of RBAC that would give these rights.
    pub missing_rules: Vec<Rule>,
    /// The objects without effect on reports while the server answers for them, or the problem
    /// because of which they are not known; none before the first look.
    pub bypass: Option<Result<Bypass, Problem>>,
    /// See [`MirrorStage`].
    pub mirrors: MirrorStage,
    /// True when this process has verified everything since its mirrors began.
    pub verified: bool,
    /// The time of the next look for late writes to etcd, where this process has looked.
    pub next_look: Option<Timestamp>,
    /// The plan of a switch, once everything is verified.
    pub plan: Option<Plan>,
    /// True when the server was not ready a moment ago: clients that it cut off are still coming
    /// back.
    pub server_just_started: bool,
    /// The present time.
    pub now: Timestamp,
}

impl Observed {
    /// Returns whether any resource has a CRD.
    #[must_use]
    pub fn has_crds(&self) -> bool {
        self.resources.iter().any(|r| r.crd.is_some())
    }

    /// Returns whether there is a CRD that the group can go back to, or that was copied. Known also
    /// while the control API does not answer.
    #[must_use]
    pub fn may_have_crds(&self) -> bool {
        self.has_crds() || !self.unassigned.is_empty()
    }

    /// Returns the CRDs of the stored resources.
    ///
    /// The iterator is a plain one that can be held over an await.
    pub fn crds(&self) -> std::vec::IntoIter<(&Resource, &Crd)> {
        let with_crd = self
            .resources
            .iter()
            .filter_map(|r| r.crd.as_ref().map(|c| (r, c)));
        with_crd.collect::<Vec<_>>().into_iter()
    }

    /// Returns the resources to copy, and the version that each is read through: from the
    /// predecessor where there is one, else from etcd.
    #[must_use]
    pub fn sources(&self) -> Vec<(&Resource, String)> {
        let Some(theirs) = &self.predecessor else {
            let read = |(r, crd): (_, &Crd)| (r, crd.read_version().unwrap_or_default().to_owned());
            return self.crds().map(read).collect();
        };
        let foreign = Holder::Foreign(theirs.clone());
        let versions: Vec<&str> = self
            .versions
            .iter()
            .filter(|v| v.holder == foreign)
            .map(|v| v.name.as_str())
            .collect();
        let read = |r: &Resource| {
            let mut served = r.stored.status.versions.iter();
            let version = served.find(|v| versions.contains(&v.as_str()));
            version.cloned().unwrap_or_default()
        };
        self.resources.iter().map(|r| (r, read(r))).collect()
    }

    /// Returns the resources that the server has copied from CRDs that are gone by now, beside
    /// others that are there, and does not serve.
    pub fn leftovers(&self) -> impl Iterator<Item = &Resource> {
        let copied = self.predecessor.is_none() && self.has_crds();
        let resources = self.resources.iter();
        resources.filter(move |r| copied && r.crd.is_none() && r.is_copy())
    }

    /// Returns the writes of reports that the server would answer.
    #[must_use]
    pub fn writes(&self, group: &str) -> Requests {
        let mut requests = Requests::new(group);
        for resource in &self.resources {
            let status = &resource.stored.status;
            let versions = status.versions.iter().filter(|v| *v != VERSION);
            requests.add(&status.resource, status.namespaced, versions);
        }
        requests
    }

    /// Returns whether every version is ours; false when there is none.
    #[must_use]
    pub fn all_ours(&self) -> bool {
        !self.versions.is_empty() && self.versions.iter().all(|v| v.holder == Holder::Ours)
    }

    /// Returns whether some version is ours.
    #[must_use]
    pub fn any_ours(&self) -> bool {
        self.ours().next().is_some()
    }

    /// Returns the versions that are ours.
    pub fn ours(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|v| v.holder == Holder::Ours)
    }

    /// Returns whether somebody else answers for some version.
    #[must_use]
    pub fn any_elsewhere(&self) -> bool {
        let mut versions = self.versions.iter();
        versions.any(|v| !matches!(v.holder, Holder::Ours | Holder::Absent))
    }

    /// Returns whether every gate is in `state`.
    #[must_use]
    pub fn gates_are(&self, state: GateState) -> bool {
        self.resources.iter().all(|r| r.gate() == state)
    }

    /// Returns whether some gate is in `state`.
    #[must_use]
    pub fn any_gate(&self, state: GateState) -> bool {
        self.resources.iter().any(|r| r.gate() == state)
    }

    /// Returns whether the server may have something of a resource that etcd lacks: it serves it,
    /// or the operator that held its requests on the way back is gone.
    #[must_use]
    pub fn is_ahead_of_etcd(&self) -> bool {
        self.resources.iter().any(|r| match r.gate() {
            GateState::Open => true,
            GateState::Held => r.stored.status.opened && !r.stored.status.released,
            GateState::Closed => false,
        })
    }

    /// Returns whether the server holds requests for a resource that it has not served yet: a switch
    /// was cut off.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.crds()
            .any(|(r, _)| r.gate() == GateState::Held && !r.stored.status.opened)
    }

    /// Returns whether the last switch has begun to drain the CRDs. Their caches begin there, above
    /// versions that clients hold: who is led back to them gets 410.
    #[must_use]
    pub fn has_drained(&self) -> bool {
        let token = self.notes.switched_at.map(|at| at.to_string());
        token.is_some_and(|token| self.crds().any(|(_, crd)| crd.door.is_open_for(&token)))
    }

    /// Returns whether the noted time of the switch is later than now: the clock was set back, and
    /// everything that follows the switch by some time would be late by as much.
    #[must_use]
    pub fn is_dated_ahead(&self) -> bool {
        let latest = self.now.checked_add(CLOCK_SKEW).unwrap_or(Timestamp::MAX);
        self.notes.switched_at.is_some_and(|at| at > latest)
    }

    /// Returns whether etcd has everything of some resource, so that its way leads to the CRD only.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.resources.iter().any(|r| r.stored.status.released)
    }

    /// Returns whether some CRD has the side door open.
    #[must_use]
    pub fn door_open(&self) -> bool {
        self.crds().any(|(_, crd)| crd.door.is_open())
    }

    /// Returns whether some CRD of the group has the side door open, or may have. Known also while
    /// the control API does not answer.
    #[must_use]
    pub fn may_have_door_open(&self) -> bool {
        self.door_open() || self.unassigned.iter().any(|crd| crd.door.is_open())
    }

    /// Returns the hash of what `approval: Manual` asks the user to approve: which CRDs (by uid)
    /// and versions go to which Service, and what becomes of the copies. Counts are left out; they
    /// move.
    #[must_use]
    pub fn plan_hash(&self, target: &GroupTarget) -> String {
        let mut lines = BTreeSet::new();
        for (resource, crd) in self.crds() {
            let uid = crd.object.metadata.uid.as_deref().unwrap_or_default();
            lines.insert(format!("resource {} {uid}", resource.name()));
        }
        for version in &self.versions {
            lines.insert(format!("version {}", version.name));
        }
        if let Some(predecessor) = &self.predecessor {
            lines.insert(format!("taken from {predecessor}"));
        }
        if let Some(database) = &target.database {
            lines.insert(format!("imported from {}", database.source()));
        }
        let service = &target.service;
        lines.insert(format!(
            "service {}/{}:{}",
            service.namespace, service.name, service.port
        ));
        lines.insert(match target.settings.prune_after {
            None => "source keep".to_owned(),
            Some(after) => format!("source prune {}", after.as_secs()),
        });
        let mut hasher = Sha256::new();
        hasher.update(target.group.as_bytes());
        for line in lines {
            hasher.update(b"\n");
            hasher.update(line.as_bytes());
        }
        format!("sha256:{}", hex::encode(hasher.finalize()))
    }
}
