//! The state that only this process has: the running mirrors and the results of their verification.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::control::GateState;
use crds::v1alpha1::spec::Verification;
use futures::FutureExt;
use futures::future::select_all;
use tokio::time::Instant;

use super::looks::Looks;
use super::refused::Refused;
use crate::migration::cluster::endpoints::{self, EndpointsError};
use crate::migration::cluster::rights::Right;
use crate::migration::cluster::wire::WireError;
use crate::migration::context::Cx;
use crate::migration::observe::state::{Crd, MirrorStage, Observed, Resource};

use crate::migration::plan::verified::Verified;
use crate::migration::report::status::{Counted, GroupStatus, ResourceProgress};
use crate::migration::steps::mirror::{self, Mirror, Progress, Source};
use crate::migration::steps::predecessor::{self, Copier};
use crate::migration::steps::settle::Reported;
use crate::migration::steps::verify::{self, VerifyError};

/// The time between two reports of the progress while a list is copied.
const SHOW: Duration = Duration::from_millis(500);

/// The reason why the mirrors do not follow.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kube-apiservers are not known.
    #[error(transparent)]
    Endpoints(#[from] EndpointsError),
    /// A copy of what etcd does not have any more cannot be dropped.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A mirror has ended before its time.
    #[error("the mirror of {resource} has ended: {why}; the operator starts it again")]
    Ended {
        /// Plural name.
        resource: String,
        /// The reason.
        why: String,
    },
}

/// One running mirror.
pub struct Running {
    /// The resource that it mirrors.
    pub source: Source,
    /// The task.
    pub mirror: Mirror,
    /// The copier where it copies from a predecessor, for what only that can do.
    pub copier: Option<Copier>,
    /// The result of the verification, once it is done.
    pub verified: Option<Verified>,
}

impl Running {
    fn is_verified(&self, asked: Verification) -> bool {
        self.verified
            .as_ref()
            .is_some_and(|verified| verified.as_asked.covers(asked))
    }
}

/// All mirrors of a group, by name of the stored resource.
#[derive(Default)]
pub struct Live {
    /// The mirrors.
    pub running: BTreeMap<String, Running>,
    /// The time at which the server was last seen not to be ready.
    pub server_away: Option<Instant>,
    /// The number of times in a row that the side door was found closed by somebody else.
    pub closed_doors: u32,
    /// Late writes to etcd that were reported already.
    pub reported: Reported,
    /// Rights that the operator is known to have.
    pub held: Vec<Right>,
    /// See [`Looks`].
    pub bypass: Looks,
    /// See [`Refused`].
    pub refused: Refused,
    /// The time at which the server began to answer for a group that was taken over from a
    /// predecessor.
    pub opened: Option<Instant>,
}

impl Live {
    /// Returns the progress of the mirrors of `o`'s resources.
    #[must_use]
    pub fn stage(&self, o: &Observed) -> MirrorStage {
        o.sources()
            .into_iter()
            .map(|(resource, _)| match self.running.get(resource.name()) {
                Some(running) => {
                    let progress = running.mirror.progress();
                    match (progress.finished, progress.listed) {
                        (true, _) => MirrorStage::Missing,
                        (false, false) => MirrorStage::Copying,
                        (false, true) => MirrorStage::Following,
                    }
                }
                None => MirrorStage::Missing,
            })
            .chain(o.leftovers().map(|_| MirrorStage::Missing))
            .min()
            .unwrap_or_default()
    }

    /// Ends the mirrors of a group that is not to be moved to the server. Those that take over the
    /// last writes to a predecessor go on while the group is `served`.
    pub fn stop(&mut self, served: bool) {
        let goes_on = |opened: Instant| opened.elapsed() <= predecessor::switch::UNDER_WAY;
        if !(served && self.opened.is_some_and(goes_on)) {
            self.running.clear();
        }
    }

    /// Ends the mirrors of resources that are not copied any more: somebody has deleted the CRD.
    pub fn forget_others(&mut self, o: &Observed) {
        if !self.running.is_empty() && !o.resources.is_empty() {
            let sources = o.sources();
            let is_source = |name: &String| sources.iter().any(|(r, _)| r.name() == name);
            self.running.retain(|name, _| is_source(name));
        }
    }

    /// Returns whether every resource was verified since its mirror began, at least to the depth of
    /// `asked`.
    #[must_use]
    pub fn is_verified(&self, o: &Observed, asked: Verification) -> bool {
        o.sources().into_iter().all(|(resource, _)| {
            self.running
                .get(resource.name())
                .is_some_and(|running| running.is_verified(asked))
        })
    }

    /// Returns the number of objects that were listed, and their size as JSON, in bytes.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        let progress = self.running.values().map(|r| r.mirror.progress());
        progress.fold((0, 0), |(objects, bytes), p| {
            (objects + p.total.unwrap_or_default(), bytes + p.bytes)
        })
    }

    /// Returns the progress of each resource, for the status.
    #[must_use]
    pub fn progress(&self) -> Vec<ResourceProgress> {
        let one = |running: &Running| {
            let Progress {
                total,
                copied,
                position,
                ..
            } = running.mirror.progress();
            ResourceProgress {
                version: running.source.version.clone(),
                resource: running.source.plural.clone(),
                total,
                copied,
                source_resource_version: position.to_string(),
                ..ResourceProgress::default()
            }
            .with(running.verified.as_ref())
        };
        self.running.values().map(one).collect()
    }

    /// Starts the mirrors that do not run, and waits until every list is copied.
    ///
    /// # Errors
    /// See [`LiveError`]; mirrors that run go on.
    pub async fn mirror(&mut self, cx: &Cx, o: &Observed) -> Result<(), LiveError> {
        self.running
            .retain(|_, running| !running.mirror.progress().finished);
        for resource in o.leftovers() {
            mirror::reset(&cx.control, resource.name(), None).await?;
        }
        let endpoints = endpoints::discover(&cx.deps).await?;
        for (resource, version) in o.sources() {
            if self.running.contains_key(resource.name()) {
                continue;
            }
            let source = Source {
                group: cx.target.group.clone(),
                version,
                plural: resource.plural().to_owned(),
                stored: resource.name().to_owned(),
                endpoints: endpoints.clone(),
                control: cx.control.clone(),
                page_size: cx.target.settings.page_size,
                pacer: cx.pacer.clone(),
                metrics: cx.deps.metrics.clone(),
            };
            let running = start(source, resource, o.predecessor.is_some());
            self.running.insert(resource.name().to_owned(), running);
        }
        self.until_following(cx).await
    }

    async fn until_following(&self, cx: &Cx) -> Result<(), LiveError> {
        let mut all: Vec<_> = self
            .running
            .values()
            .map(|r| r.mirror.subscribe())
            .collect();
        let mut shown = None::<Instant>;
        let mut copied = 0;
        loop {
            let states: Vec<Progress> = all
                .iter_mut()
                .map(|p| p.borrow_and_update().clone())
                .collect();
            if shown.is_none_or(|at| at.elapsed() > SHOW) {
                let now = states.iter().map(|p| p.copied).sum();
                cx.report.update(|status| {
                    if now > copied {
                        status.goes_on();
                    }
                    status.resources = self.progress();
                    status.progress = Counted::of(&status.resources, |r| r.copied);
                });
                (copied, shown) = (now, Some(Instant::now()));
            }
            for (running, progress) in self.running.values().zip(&states) {
                if progress.finished {
                    let resource = running.source.plural.clone();
                    let why = progress.failure.clone();
                    let why = why.unwrap_or_else(|| "its watch has ended".to_owned());
                    return Err(LiveError::Ended { resource, why });
                }
            }
            if states.iter().all(|p| p.listed) {
                cx.report
                    .update(|status| status.resources = self.progress());
                return Ok(());
            }
            let changes = all.iter_mut().map(|p| p.changed().boxed());
            // A closed channel means a task that has ended, which its state tells as well.
            let _ = select_all(changes).await;
        }
    }

    /// Verifies every resource that is not verified yet.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub async fn verify(&mut self, cx: &Cx) -> Result<(), VerifyError> {
        let asked = cx.target.settings.verification;
        cx.report.update(show_verified);
        for running in self.running.values_mut() {
            if running.is_verified(asked) {
                continue;
            }
            let result = match &running.copier {
                Some(copier) => copier.verify().await,
                None => verify::verify(&running.source, &running.mirror, asked).await,
            };
            let plural = &running.source.plural;
            if let Err(VerifyError::Differs { count, .. }) = &result {
                let failed = Some(*count as u64);
                show(cx, plural, |resource| resource.failed = failed);
            }
            let verified = result?;
            show(cx, plural, |resource| {
                *resource = std::mem::take(resource).with(Some(&verified));
            });
            running.verified = Some(verified);
        }
        Ok(())
    }
}

/// Starts to copy a resource: from etcd, or from the predecessor that serves it.
fn start(source: Source, resource: &Resource, from_predecessor: bool) -> Running {
    let (copier, mirror) = if from_predecessor {
        let stored = &resource.stored.status;
        let (copier, mirror) = Copier::start(predecessor::Source {
            common: source.clone(),
            kind: stored.kind.clone(),
            namespaced: stored.namespaced,
        });
        (Some(copier), mirror)
    } else {
        let resume = resource
            .crd
            .as_ref()
            .and_then(|crd| resume_at(resource, crd));
        (None, Mirror::start(source.clone(), resume))
    };
    Running {
        source,
        mirror,
        copier,
        verified: None,
    }
}

/// Changes the progress of one resource in the status.
fn show(cx: &Cx, plural: &str, change: impl Fn(&mut ResourceProgress)) {
    cx.report.update(|status| {
        let of_plural = status.resources.iter_mut().filter(|r| r.resource == plural);
        of_plural.for_each(change);
        show_verified(status);
    });
}

/// Shows how many reports are compared.
fn show_verified(status: &mut GroupStatus) {
    status.progress = Counted::of(&status.resources, |resource| resource.verified);
}

/// Returns the version from which a mirror can go on: the one that the server has durably, unless
/// the server was in charge meanwhile (then etcd and the server have parted) or has nothing.
fn resume_at(resource: &Resource, crd: &Crd) -> Option<u64> {
    let status = &resource.stored.status;
    if status.settled || status.gate == GateState::Open || crd.door.is_open() {
        return None;
    }
    status
        .mirrored_resource_version
        .parse()
        .ok()
        .filter(|position| *position > 0)
}
