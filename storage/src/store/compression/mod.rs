//! The dictionaries with which objects are compressed in memory: trained from the objects that are
//! stored, trained again when these change their shape, and never stored themselves.
//!
//! All of it happens in one task beside the requests, one resource after another. A new dictionary
//! is used for new objects at once; those that are there are compressed anew in small steps.

mod decide;
mod early;
mod rewriting;
mod training;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use self::decide::{Trainings, is_worth_rewriting};
pub(super) use self::early::Early;
use super::handle::WeakStore;
use crate::cache::Resource;
use crate::model::GroupResource;

/// Pause between two rounds.
const PAUSE: Duration = Duration::from_secs(5);

/// Looks after the dictionaries of `store` until it is closed.
pub(super) fn start(store: WeakStore, stop: CancellationToken) {
    let rounds = async move {
        let mut dictionaries = Dictionaries::default();
        loop {
            tokio::time::sleep(PAUSE).await;
            // The store is not kept open for the length of a round.
            let Some(resources) = store.upgrade().map(|store| store.resources()) else {
                break;
            };
            dictionaries.round(&resources).await;
        }
    };
    tokio::spawn(stop.run_until_cancelled_owned(rounds));
}

/// The dictionaries of all resources.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    trainings: HashMap<GroupResource, Trainings>,
}

impl Dictionaries {
    /// Trains the dictionaries that are due, and compresses objects with them.
    pub async fn round(&mut self, resources: &[Arc<Resource>]) {
        for resource in resources {
            let name = &resource.def().resource;
            let trainings = self.trainings.entry(name.clone()).or_default();
            if trainings.is_due(Instant::now(), &resource.compression()) {
                let taken = train(resource).await;
                trainings.trained(Instant::now(), &resource.compression(), taken);
            }
            if is_worth_rewriting(&resource.compression())
                && let Err(error) = rewriting::rewrite(resource).await
            {
                tracing::warn!(resource = %name, %error, "compressing objects anew");
            }
            trainings.settle(&resource.compression());
        }
    }
}

/// Trains a dictionary for `resource`; returns whether it is used from now on.
async fn train(resource: &Resource) -> bool {
    let name = &resource.def().resource;
    let present = resource.compression();
    let snapshot = resource.snapshot();
    resource.count_training();
    let trained = tokio::task::spawn_blocking(move || {
        let objects = training::select(snapshot.range(None, None), present.all);
        // What is written meanwhile need not be copied for it.
        drop(snapshot);
        training::train(&objects, present.generation + 1)
    });
    match trained.await {
        Ok(Ok(Some(dictionary))) => {
            let (generation, bytes) = (dictionary.generation(), dictionary.memory());
            tracing::info!(resource = %name, generation, bytes, "trained a dictionary");
            resource.set_dictionary(Arc::new(dictionary));
            true
        }
        Ok(Ok(None)) => {
            tracing::debug!(resource = %name, "a trained dictionary gains too little");
            false
        }
        Ok(Err(error)) => {
            tracing::debug!(resource = %name, %error, "no dictionary can be trained");
            false
        }
        Err(error) => {
            tracing::warn!(resource = %name, %error, "training a dictionary");
            false
        }
    }
}
