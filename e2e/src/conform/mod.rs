//! Compares our server with the CRDs that it replaces: the same requests go through the
//! kube-apiservers of two clusters, and what is answered, watched and stored has to be the same.
//! `docs/development/conform.md` says how cases are written.

mod body;
pub mod case;
mod collector;
pub mod compare;
pub mod deviations;
pub mod docs;
mod error;
mod form;
pub mod ground;
pub mod normalise;
pub mod observed;
pub mod plan;
mod protobuf;
pub mod random;
pub mod report;
pub mod run;
mod session;
mod step;
mod stream;
pub mod target;
mod texts;
pub mod timing;
mod variables;

use std::{collections::HashMap, sync::Arc, time::Instant};

use futures::StreamExt as _;
use tokio::sync::RwLock;

pub use error::ConformError;

use self::{
    case::CaseFile,
    deviations::Deviation,
    ground::Ground,
    report::Report,
    run::{Outcome, Variant},
};

/// Cases that run beside each other.
const BESIDE: usize = 4;

/// Runs the cases that were asked for, all where none was named, on every kind of the ground that
/// they are meant for.
///
/// # Errors
/// When a case cannot be run, or one does not exist.
pub async fn run(
    ground: &Ground,
    files: &[CaseFile],
    asked: &[String],
    deviations: &[Deviation],
) -> Result<Report, ConformError> {
    let begun = Instant::now();
    let rows = plan::rows(files, asked)?;
    let variants = plan::variants(&rows, &ground.targets, ground.all_groups);
    let sides = ground.sides();
    let kinds: HashMap<String, Arc<RwLock<()>>> = ground
        .targets
        .iter()
        .map(|target| (target.plural.clone(), Arc::default()))
        .collect();
    let outcomes: Vec<Outcome> = futures::stream::iter(&variants)
        .map(|variant| guarded(variant, &sides, &kinds))
        .buffered(BESIDE)
        .collect()
        .await;
    let mut report = Report::default();
    for (variant, outcome) in variants.iter().zip(outcomes) {
        report.add(&variant.row.name, outcome, deviations);
    }
    report.close(deviations);
    report.took = begun.elapsed();
    Ok(report)
}

/// Keeps those apart that would disturb each other.
async fn guarded(
    variant: &Variant<'_>,
    sides: &run::Sides,
    kinds: &HashMap<String, Arc<RwLock<()>>>,
) -> Outcome {
    let Some(lock) = kinds.get(&variant.target.plural) else {
        return variant.run(sides).await;
    };
    if variant.alone() {
        let _alone = lock.write().await;
        variant.run(sides).await
    } else {
        let _beside = lock.read().await;
        variant.run(sides).await
    }
}
