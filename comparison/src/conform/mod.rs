//! Comparison of our server with the CRDs that it replaces: the same requests go through the
//! kube-apiservers of two clusters, and the answers, events and stored objects have to be the same.
//! `docs/development/conform.md` explains how cases are written.

mod body;
pub mod case;
mod client;
mod collector;
pub mod compare;
pub mod deviations;
pub mod docs;
mod error;
mod foreign;
mod form;
pub mod ground;
pub mod normalise;
pub mod observed;
pub mod plan;
mod protobuf;
pub mod random;
pub mod releases;
pub mod report;
pub mod run;
mod session;
mod step;
mod stream;
pub mod target;
mod texts;
pub mod timing;
mod variables;

use std::collections::BTreeMap;
use std::time::Instant;

use futures::StreamExt as _;
use futures::future::join_all;
use tokio::sync::Semaphore;

pub use error::ConformError;

use self::case::{CaseFile, Scope};
use self::deviations::Deviation;
use self::ground::Ground;
use self::report::Report;
use self::run::{Outcome, Sides, Variant};

/// Cases that run beside each other.
const BESIDE: usize = 5;
/// Cases on kinds in namespaces among them.
const IN_NAMESPACES: usize = 3;

/// The cases to run.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    /// All cases that exist.
    pub files: &'a [CaseFile],
    /// Names of those to run; all where none is named.
    pub asked: &'a [String],
    /// True when each case runs in one of its variants alone, by turns.
    pub thin: bool,
    /// The known differences on the ground's release of Kubernetes.
    pub deviations: &'a [Deviation],
}

/// Runs cases on every kind of the ground that they are meant for, if they are for its release of
/// Kubernetes. `told` is called with each run as it ends.
///
/// # Errors
/// If a case cannot be run, or one does not exist.
pub async fn run(
    ground: &Ground,
    selection: Selection<'_>,
    told: &(dyn Fn(&Outcome) + Sync),
) -> Result<Report, ConformError> {
    let begun = Instant::now();
    let deviations = selection.deviations;
    let rows = plan::rows(selection.files, selection.asked, ground.release)?;
    let mut variants = plan::variants(&rows, &ground.targets, ground.all_groups);
    if selection.thin {
        variants = plan::thinned(&variants);
    }
    let sides = ground.sides();
    let mut lanes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, variant) in variants.iter().enumerate() {
        let lane = match variant.target.scope {
            Scope::Namespaced => "",
            Scope::Cluster => &variant.target.plural,
        };
        lanes.entry(lane).or_default().push(index);
    }
    let slots = Semaphore::new(if sides.apart { 1 } else { BESIDE });
    let lanes = lanes.into_iter().map(|(name, lane)| {
        // Those on a kind of the whole cluster would disturb each other.
        let width = if name.is_empty() { IN_NAMESPACES } else { 1 };
        run_lane(&variants, lane, width, &slots, sides, told)
    });
    let mut outcomes: Vec<_> = join_all(lanes).await.into_iter().flatten().collect();
    outcomes.sort_by_key(|(index, _)| *index);
    let mut report = Report::default();
    for (index, outcome) in outcomes {
        report.add(&variants[index].row.name, outcome, deviations);
    }
    report.close(deviations);
    report.took = begun.elapsed();
    Ok(report)
}

/// Runs some of the variants, `width` beside each other.
async fn run_lane(
    variants: &[Variant<'_>],
    lane: Vec<usize>,
    width: usize,
    slots: &Semaphore,
    sides: &Sides,
    told: &(dyn Fn(&Outcome) + Sync),
) -> Vec<(usize, Outcome)> {
    let run = |index: usize| async move {
        let _slot = slots.acquire().await;
        let outcome = variants[index].run(sides).await;
        told(&outcome);
        (index, outcome)
    };
    let running = futures::stream::iter(lane).map(run);
    running.buffer_unordered(width).collect().await
}
