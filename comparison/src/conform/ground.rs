//! Both sides: a control plane that serves the CRDs, and one on which our servers took over.

use apimachinery::mutation::{Mutation, VARIABLE};
use kube::Client;

use super::run::Sides;
use super::target::{self, Target};
use super::{ConformError, client, collector, foreign};
use crate::serving::request::Outgoing;
use crate::serving::{Serving, ServingError, ServingOptions, Storage};
use testcluster::{ClusterOptions, Release};

/// Options of both sides.
#[derive(Clone, Debug, Default)]
pub struct GroundOptions {
    /// True for every group, false for the standard one alone.
    pub all_groups: bool,
    /// The storage of our servers.
    pub storage: Storage,
    /// Number of servers.
    pub servers: usize,
    /// A behaviour of ours that is broken.
    pub mutation: Option<Mutation>,
    /// True when one request is sent at a time, for its time to be the side's own.
    pub apart: bool,
}

/// Both sides, as long as this value lives.
pub struct Ground {
    _crd: Serving,
    ours: Serving,
    sides: Sides,
    /// The release of Kubernetes of both sides.
    pub release: Release,
    /// Every kind that is served.
    pub targets: Vec<Target>,
    /// True when every group takes part in the cases for all.
    pub all_groups: bool,
}

impl Ground {
    /// Starts both sides.
    ///
    /// # Errors
    /// If a part does not get ready.
    pub async fn start(options: &GroundOptions) -> Result<Self, ConformError> {
        // Two clusters make a large future.
        Box::pin(Self::start_both(options)).await
    }

    async fn start_both(options: &GroundOptions) -> Result<Self, ConformError> {
        let mut crds = target::crds(options.all_groups)?;
        if options.all_groups {
            crds.extend(foreign::crds().await?);
        }
        let targets = target::targets(&crds);
        let mut serving = ServingOptions::new(crds);
        // It writes into every new namespace, of which there are thousands.
        let controllers = "--controllers=*,-root-ca-certificate-publisher-controller";
        serving.cluster.controller_args = vec![controllers.to_owned()];
        // Our database waits for the disk.
        serving.cluster.fsync = options.apart;
        let crd = Serving::start(serving.clone());
        serving.cluster.name = ClusterOptions::default().name;
        serving.storage = options.storage;
        serving.servers = options.servers.max(1);
        let mutation = options
            .mutation
            .map(|broken| (VARIABLE.to_owned(), broken.name().to_owned()));
        serving.env = mutation.into_iter().collect();
        let (crd, mut ours) = tokio::try_join!(crd, Serving::start(serving))?;
        ours.switch().await?;
        let sides = Sides {
            crd: direct(&crd).await?,
            ours: direct(&ours).await?,
            apart: options.apart,
        };
        tokio::try_join!(
            collector::follows(&sides.crd, &targets),
            collector::follows(&sides.ours, &targets)
        )?;
        let release = crd.cluster.release().await.map_err(ServingError::from)?;
        Ok(Self {
            release,
            _crd: crd,
            ours,
            sides,
            targets,
            all_groups: options.all_groups,
        })
    }

    /// Starts our servers again with one behaviour broken, or with none.
    ///
    /// # Errors
    /// If they do not serve again.
    pub async fn break_ours(&mut self, mutation: Option<Mutation>) -> Result<(), ConformError> {
        self.ours.options.env.retain(|(name, _)| name != VARIABLE);
        if let Some(mutation) = mutation {
            let value = mutation.name().to_owned();
            self.ours.options.env.push((VARIABLE.to_owned(), value));
        }
        for server in self.ours.servers() {
            server.kill().await.map_err(ServingError::from)?;
        }
        self.ours.run_servers()?;
        let target = self
            .targets
            .first()
            .map(|target| target.collection("default"));
        let request = Outgoing::get(target.unwrap_or_default());
        self.ours
            .until("our servers serve again", async || {
                let answer = self.ours.send(&request).await;
                answer.is_ok_and(|answer| answer.code == 200)
            })
            .await?;
        Ok(())
    }

    /// Returns clients of both sides.
    #[must_use]
    pub fn sides(&self) -> &Sides {
        &self.sides
    }
}

async fn direct(serving: &Serving) -> Result<Client, ServingError> {
    let config = serving.cluster.config(0).await?;
    Ok(client::direct(config).map_err(Box::new)?)
}
