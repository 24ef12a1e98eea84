//! The state that the controller asks the migration of one API group to reach.

use std::time::Duration;

use crds::v1alpha1::spec::{
    ApiOwner, Approval, ExternalSpec, LocalReference, OnFailure, Verification, WorkloadKind,
};
use database::parameters::key;
use k8s_openapi::api::core::v1::ObjectReference;
use serde::{Deserialize, Serialize};

use crate::apiservice::ServiceRef;
use crate::database::external;
use crate::database::place::{Connection, Source};

/// The `ReportsServer` on whose behalf a group is moved; events are published about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the (cluster-scoped) `ReportsServer`; the key of everything that the supervisor
    /// holds.
    pub name: String,
    /// uid of the `ReportsServer`.
    pub uid: String,
    /// apiVersion of the `ReportsServer`, for events.
    pub api_version: String,
    /// Kind of the `ReportsServer`, for events.
    pub kind: String,
}

impl Owner {
    /// Returns the reference that events carry.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// An aggregated API server that a group may be taken over from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Namespace of its Service.
    pub namespace: String,
    /// Name of its Service.
    pub name: String,
    /// The user name that the kube-apiserver knows it by. It may not lead the APIServices back to
    /// itself.
    pub user: String,
}

impl Predecessor {
    /// Returns its Service as `namespace/name`.
    #[must_use]
    pub fn service(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The PostgreSQL of an aggregated API server that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredecessorDatabase {
    /// Namespace of the Secrets that `connection` names.
    pub namespace: String,
    /// The connection to the database.
    pub connection: Connection,
    /// The cluster whose rows are meant: `cluster_id` of the tables, a UUID.
    pub cluster_id: String,
}

impl PredecessorDatabase {
    /// Returns the rows of `cluster_id`, in the database that is reached with the keys of one
    /// Secret: those of [`ExternalSpec::connection_secret_ref`]. A standby will do unless the
    /// Secret says otherwise.
    #[must_use]
    pub fn new(namespace: &str, secret: &str, cluster_id: &str) -> Self {
        let mut connection = external::connection(&ExternalSpec {
            connection_secret_ref: LocalReference {
                name: secret.to_owned(),
            },
            ..ExternalSpec::default()
        });
        let any = (key::TARGET_SESSION_ATTRS, "any".to_owned());
        connection.parameters.extend([any]);
        Self {
            namespace: namespace.to_owned(),
            connection,
            cluster_id: cluster_id.to_owned(),
        }
    }

    /// Returns the Secret as `namespace/name`.
    #[must_use]
    pub fn secret(&self) -> String {
        let source = self.connection.sources.first();
        let name = source.map(Source::name).unwrap_or_default();
        format!("{}/{name}", self.namespace)
    }

    /// Returns the identity of this source of reports.
    #[must_use]
    pub fn source(&self) -> String {
        format!("secret {}, cluster {}", self.secret(), self.cluster_id)
    }
}

/// A workload that is restarted where watches were lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.as_str();
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// Effective values of `spec.migration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Objects a page of a list or of an import, 1 to [`crds::control::MAX_IMPORT_ITEMS`].
    pub page_size: u32,
    /// Bound on list pages, imports and deletions a second; none when absent.
    pub max_requests_per_second: Option<u32>,
    /// Deletions in a prune, and writes on the way back, at once; 1 to 64.
    pub concurrency: u32,
    /// See [`Approval`].
    pub approval: Approval,
    /// True when nothing is switched and nothing is deleted from etcd.
    pub dry_run: bool,
    /// True when a group is not switched while something would have no effect on its reports; see
    /// [`crate::migration::Bypass`].
    pub require_admission: bool,
    /// The plan hash that the user approved.
    pub approved_plan: Option<String>,
    /// The time for which a switched group is observed before it counts as done.
    pub soak: Duration,
    /// See [`OnFailure`].
    pub on_failure: OnFailure,
    /// The time after the switch before the verified copies in etcd are deleted, zero for right after
    /// the soak; they are kept where it is absent.
    pub prune_after: Option<Duration>,
    /// See [`Verification`].
    pub verification: Verification,
    /// The time after the switch in which late writes to etcd are looked for; with zero there is
    /// one look.
    pub drain_window: Duration,
    /// Workloads that are restarted where watches were lost.
    pub restart: Vec<Workload>,
}

/// The default of [`Settings::soak`]: long enough for several availability probes of the
/// kube-aggregator, and short enough to wait for.
pub const DEFAULT_SOAK: Duration = Duration::from_secs(10);

impl Default for Settings {
    fn default() -> Self {
        Self {
            page_size: 250,
            max_requests_per_second: None,
            concurrency: 16,
            approval: Approval::Automatic,
            dry_run: false,
            require_admission: false,
            approved_plan: None,
            soak: DEFAULT_SOAK,
            on_failure: OnFailure::Revert,
            prune_after: Some(Duration::from_hours(24)),
            verification: Verification::Full,
            drain_window: Duration::ZERO,
            restart: Vec::new(),
        }
    }
}

/// The wanted state of one API group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct GroupTarget {
    /// API group, for example `wgpolicyk8s.io`.
    pub group: String,
    /// The party that should serve it. For a deletion with `apis: Restore` this is
    /// [`ApiOwner::Crd`], kept until the status says
    /// [`crds::v1alpha1::status::MigrationPhase::RolledBack`].
    pub owner: ApiOwner,
    /// The server that may answer for the group now, where that is not the CRD.
    pub predecessor: Option<Predecessor>,
    /// The database of a server that is gone, where reports have to be imported from it.
    pub database: Option<PredecessorDatabase>,
    /// The Service of our server.
    pub service: ServiceRef,
    /// CA bundle (PEM) with which the kube-aggregator verifies our server.
    pub ca_bundle: Vec<u8>,
    /// True when the server's Deployment is ready.
    pub server_ready: bool,
    /// True when the control API is Available through the aggregator.
    pub control_available: bool,
    /// False when the database would not survive its pod: then nothing is ever pruned.
    pub persistent: bool,
    /// True when nothing new is begun: what clients would notice comes to its end, all else waits.
    pub suspended: bool,
    /// See [`Settings`].
    pub settings: Settings,
}
