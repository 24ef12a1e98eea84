//! Both sides: a control plane that serves the CRDs, and one on which our servers took over.

use std::collections::BTreeMap;

use super::{
    ConformError, collector,
    run::Sides,
    target::{self, Target},
};
use crate::{
    cluster::ClusterOptions,
    serving::{Serving, ServingOptions, Storage},
};

/// What both sides are made of.
#[derive(Clone, Debug, Default)]
pub struct GroundOptions {
    /// Every group, or the standard one alone.
    pub all_groups: bool,
    /// Where our servers keep the reports.
    pub storage: Storage,
    /// How many servers.
    pub servers: usize,
    /// Environment of our servers.
    pub env: BTreeMap<String, String>,
}

/// Both sides, as long as this value lives.
pub struct Ground {
    crd: Serving,
    ours: Serving,
    /// Every kind that is served.
    pub targets: Vec<Target>,
    /// Whether every group takes part in what is for all.
    pub all_groups: bool,
}

impl Ground {
    /// Starts both sides.
    ///
    /// # Errors
    /// When a part does not get ready.
    pub async fn start(options: &GroundOptions) -> Result<Self, ConformError> {
        let crds = target::crds(options.all_groups)?;
        let targets = target::targets(&crds);
        let mut serving = ServingOptions::new(crds);
        // It writes into every new namespace, of which there are thousands.
        let controllers = "--controllers=*,-root-ca-certificate-publisher-controller";
        serving.cluster.controller_args = vec![controllers.to_owned()];
        let crd = Serving::start(serving.clone());
        serving.cluster.name = ClusterOptions::default().name;
        serving.storage = options.storage;
        serving.servers = options.servers.max(1);
        serving.env = options.env.clone().into_iter().collect();
        let (crd, mut ours) = tokio::try_join!(crd, Serving::start(serving))?;
        ours.switch().await?;
        let ground = Self {
            crd,
            ours,
            targets,
            all_groups: options.all_groups,
        };
        let sides = ground.sides();
        tokio::try_join!(
            collector::follows(&sides.crd, &ground.targets),
            collector::follows(&sides.ours, &ground.targets)
        )?;
        Ok(ground)
    }

    /// Clients of both sides.
    #[must_use]
    pub fn sides(&self) -> Sides {
        Sides {
            crd: self.crd.client.clone(),
            ours: self.ours.client.clone(),
        }
    }
}
