//! Everything by Argo CD or Flux, with self-heal and prune: the operator, the CRDs of the reports and
//! the `ReportsServer`. While the groups move, the tool is made to apply all of it again.

mod again;
mod orders;
mod tree;
mod writes;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use testcluster::{Cluster, Process};
use tokio::time::Instant;
use uuid::Uuid;

pub use again::Again;
pub use orders::Order;
pub use tree::Tree;
pub use writes::{Writes, Written};

use super::error::MatrixError;
use super::way::Way;
use super::{argocd, flux};
use crate::takeover::TakeoverError;

/// Longest time until everything was applied again.
const LIMIT: Duration = Duration::from_mins(3);
/// Time after which the tool is asked again: an order that meets another one is lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at it.
const PAUSE: Duration = Duration::from_millis(200);

/// The tool that applies everything, with its parts, which `hack/gitops` builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Argo CD.
    ArgoCd(PathBuf),
    /// Flux.
    Flux(PathBuf),
}

impl Tool {
    fn way(&self) -> Way {
        match self {
            Self::ArgoCd(parts) => Way::ArgoCd(parts.clone()),
            Self::Flux(parts) => Way::Flux(parts.clone()),
        }
    }

    /// Returns the field manager of the tool's writes.
    #[must_use]
    pub fn manager(&self) -> &'static str {
        match self {
            Self::ArgoCd(_) => argocd::MANAGER,
            Self::Flux(_) => flux::MANAGER,
        }
    }

    /// Starts the tool; it ends when it is dropped.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn begin(&self, cluster: &Cluster) -> Result<Vec<Process>, MatrixError> {
        self.way().begin(cluster).await
    }

    /// Installs the operator by the tool's example.
    ///
    /// # Errors
    /// If the tool fails or the operator does not run.
    pub async fn own_operator(&self, cluster: &Cluster, tree: &Tree) -> Result<(), MatrixError> {
        self.way().install(cluster, tree.manifests()).await
    }

    /// Gives the tool the CRDs of the reports, with the lines that the page has for them.
    ///
    /// # Errors
    /// If the tool fails.
    pub async fn own_crds(&self, cluster: &Cluster, tree: &Tree) -> Result<(), MatrixError> {
        match self {
            Self::ArgoCd(_) => argocd::own_crds(cluster, tree.manifests(), Tree::CRDS).await,
            Self::Flux(_) => flux::own_crds(cluster, tree.manifests(), Tree::CRDS).await,
        }
    }

    /// Takes these lines away.
    ///
    /// # Errors
    /// If the tool's object cannot be changed.
    pub async fn stop_ignoring(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        match self {
            Self::ArgoCd(_) => argocd::stop_ignoring(cluster).await,
            Self::Flux(_) => flux::stop_ignoring(cluster).await,
        }
    }

    /// Gives the tool the `ReportsServer` as it is in `tree` now, by the tool's example; waits until
    /// it is applied, or is being applied.
    ///
    /// # Errors
    /// If the tool fails.
    pub async fn own_server(&self, cluster: &Cluster, tree: &Tree) -> Result<(), MatrixError> {
        match self {
            Self::ArgoCd(_) => argocd::own_server(cluster, tree.manifests()).await,
            Self::Flux(_) => flux::own_server(cluster, tree.manifests()).await,
        }
    }

    /// Has the tool let the `ReportsServer` go, as docs/uninstall.md says.
    ///
    /// # Errors
    /// If that fails.
    pub async fn let_server_go(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        match self {
            Self::ArgoCd(_) => argocd::let_server_go(cluster).await,
            Self::Flux(_) => flux::let_server_go(cluster).await,
        }
    }

    /// Waits until the tool says that the `ReportsServer` is not ready yet.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn server_progresses(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        match self {
            Self::ArgoCd(_) => argocd::server_progresses(cluster).await,
            Self::Flux(_) => flux::server_progresses(cluster).await,
        }
    }

    /// Waits until the tool says that the `ReportsServer` is ready.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn server_is_healthy(&self, cluster: &Cluster) -> Result<(), MatrixError> {
        match self {
            Self::ArgoCd(_) => argocd::server_is_healthy(cluster).await,
            Self::Flux(_) => flux::server_is_healthy(cluster).await,
        }
    }

    /// Orders the tool to apply everything again, and does not wait for it.
    ///
    /// # Errors
    /// If an object of the tool cannot be changed.
    pub async fn order(&self, client: &Client) -> Result<Order, MatrixError> {
        let token = Uuid::new_v4().to_string();
        let api = self.objects(client);
        let mut objects = BTreeSet::new();
        for object in list(&api).await? {
            let patch = match self {
                Self::ArgoCd(_) => argocd::order(&object.data, &token),
                Self::Flux(_) => flux::order(&token),
            };
            let name = object.metadata.name.unwrap_or_default();
            let params = PatchParams::default();
            let patched = api.patch(&name, &params, &Patch::Merge(&patch)).await;
            patched.map_err(testcluster::Error::from)?;
            objects.insert(name);
        }
        Ok(Order { token, objects })
    }

    /// Orders the tool to apply everything again, and waits until it has.
    ///
    /// # Errors
    /// If it has not in time.
    pub async fn apply_again(&self, client: &Client) -> Result<(), MatrixError> {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            let Order { token, .. } = self.order(client).await?;
            let ordered = Instant::now();
            while ordered.elapsed() < PATIENCE {
                if self.has_obeyed(client, &token).await? {
                    return Ok(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        let objects = list(&self.objects(client)).await?;
        let last: Vec<_> = objects
            .iter()
            .map(|object| &object.data["status"])
            .collect();
        Err(MatrixError::Takeover(TakeoverError::NotReached {
            what: "the application of everything again".to_owned(),
            waited: begun.elapsed(),
            last: format!("{last:?}"),
        }))
    }

    /// Returns whether everything was applied for `token`.
    async fn has_obeyed(&self, client: &Client, token: &str) -> Result<bool, MatrixError> {
        let objects = list(&self.objects(client)).await?;
        let mut objects = objects.iter();
        Ok(objects.all(|object| self.object_has_obeyed(object, token)))
    }

    /// Returns whether one of the tool's objects was applied for `token`.
    fn object_has_obeyed(&self, object: &DynamicObject, token: &str) -> bool {
        match self {
            Self::ArgoCd(_) => argocd::has_obeyed(&object.data, token),
            Self::Flux(_) => flux::has_obeyed(&object.data, token),
        }
    }

    /// Returns whether the tool waits, in its object of this name, until the `ReportsServer` is
    /// ready, and obeys no order meanwhile.
    fn waits_in(&self, name: &str) -> bool {
        matches!(self, Self::Flux(_)) && flux::SERVER.ends_with(&format!("/{name}"))
    }

    /// Returns the tool's own objects, which say what it applies.
    fn objects(&self, client: &Client) -> Api<DynamicObject> {
        let (namespace, resource) = match self {
            Self::ArgoCd(_) => argocd::kind(),
            Self::Flux(_) => flux::kind(),
        };
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

async fn list(objects: &Api<DynamicObject>) -> Result<Vec<DynamicObject>, MatrixError> {
    let listed = objects.list(&ListParams::default()).await;
    Ok(listed.map_err(testcluster::Error::from)?.items)
}
