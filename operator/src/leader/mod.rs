//! Leader election by a Lease, so that two operators never carry out the same migration.
//!
//! The rule is client-go's: a candidate never compares another machine's clock with its own. It
//! takes the Lease only after it has itself seen the record unchanged for the record's
//! `leaseDurationSeconds`. Every write carries the `resourceVersion` that was read, so of two
//! candidates that find the Lease free one gets a conflict.
//!
//! A leader that stood still does not know yet that others have waited for long enough. So it has a
//! [`Term`], and a client of that term sends no write once it is over.
//!
//! Another installation has another Lease. So whoever claims this one looks for leaders of the others
//! before and after it does: of two that claim at the same time, one sees the other.

mod connection;
mod rivals;
mod term;

use std::collections::BTreeMap;
use std::time::Duration;

use crds::names::ANNOTATION_OPERATOR_ACCOUNT;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::rivals::{Rivals, View};
use self::term::Moment;
pub use self::term::{Expired, Term};

/// The reason why the leadership ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another operator may lead from now on; this one must stop at once.
    #[error(
        "the Lease could not be renewed for {0:?}: leadership is lost and the operator ends; \
         its replacement takes over"
    )]
    Lost(Duration),
    /// An operator of another installation leads.
    #[error(
        "an operator in namespace {0} leads, too: this one ends, and waits when it starts again; \
         uninstall one of the two"
    )]
    Rival(String),
}

/// The time between two looks of a leader for those of other installations.
const LOOK: Duration = Duration::from_secs(10);
/// The time that such a look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The times of a leader while clients' requests are held on its word: should it die or hang,
/// others take its place before the requests are refused.
const HOLDING: Times = Times {
    lease_duration: Duration::from_secs(8),
    renew_deadline: Duration::from_secs(7),
    retry_period: Duration::from_secs(1),
};

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// The configuration of a candidate. The defaults are those of the Kubernetes components.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Name of this candidate; no other candidate may have it (the name of the pod).
    pub identity: String,
    /// Name of the operator's `ServiceAccount`, by which other installations know its rights.
    pub account: String,
    /// The time that others wait after the last renewal that they saw; whole seconds.
    pub lease_duration: Duration,
    /// The time that the leader goes on without a renewal; below `lease_duration`.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry_period: Duration,
    /// The group whose requests are held on the leader's word. While there is one, the Lease lasts
    /// 8 s.
    pub holding: Option<watch::Receiver<Option<String>>>,
}

impl Config {
    /// Returns a configuration with the usual 15 s, 10 s and 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            account: name.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            holding: None,
        }
    }

    /// Returns the times in force.
    fn times(&self) -> Times {
        let holding = self.holding.as_ref();
        if holding.is_some_and(|holding| holding.borrow().is_some()) {
            return HOLDING;
        }
        Times {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }

    /// Waits until other times than these are in force, also where that has come meanwhile.
    async fn changed(&self, times: Times) {
        let Some(holding) = &self.holding else {
            return std::future::pending().await;
        };
        let mut holding = holding.clone();
        let before = times == HOLDING;
        if holding
            .wait_for(|now| now.is_some() != before)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

/// A running candidate.
pub struct Candidate {
    /// True while this process leads.
    pub leading: watch::Receiver<bool>,
    /// True while this process leads, or waits for one of its own installation: not before it has looked
    /// for others, nor while it waits for one of them.
    pub ready: watch::Receiver<bool>,
    /// The time for which it may write as the leader.
    pub term: Term,
    /// The task of the candidate. It ends with [`Error::Lost`] when the leadership is lost, with
    /// `Ok` after a release.
    pub task: JoinHandle<Result<(), Error>>,
}

/// Starts to take part in the election. Cancel `release` only after all work has stopped: it gives
/// the Lease up, so that the next candidate starts without waiting for it to expire.
#[must_use]
pub fn campaign(client: Client, config: Config, release: CancellationToken) -> Candidate {
    let (tx, leading) = watch::channel(false);
    let (ready_tx, ready) = watch::channel(false);
    let term = Term::over();
    let elector = Elector {
        api: Api::namespaced(client.clone(), &config.namespace),
        rivals: Rivals::new(client, &config.namespace, &config.name),
        rival: None,
        ready: ready_tx,
        looked: Instant::now(),
        config,
        observed: None,
        term: term.clone(),
    };
    Candidate {
        leading,
        ready,
        term,
        task: tokio::spawn(elector.run(tx, release)),
    }
}

/// The Lease as this candidate last saw it change.
struct Observed {
    lease: Lease,
    /// Local time at which the record was first seen like this.
    since: Instant,
}

struct Elector {
    api: Api<Lease>,
    rivals: Rivals,
    /// Namespace of the operator of another installation for which this one waits.
    rival: Option<String>,
    /// See [`Candidate::ready`].
    ready: watch::Sender<bool>,
    /// The last look for leaders of other installations.
    looked: Instant,
    config: Config,
    observed: Option<Observed>,
    term: Term,
}

impl Elector {
    async fn run(
        mut self,
        leading: watch::Sender<bool>,
        release: CancellationToken,
    ) -> Result<(), Error> {
        // The end of the term, by the record that was written last; none before the first.
        let mut end: Option<Instant> = None;
        loop {
            let times = self.config.times();
            // The same by two clocks: that of the timers stands still while the machine sleeps.
            let by = Moment::after(times.renew_deadline);
            let next = Instant::now() + times.renew_deadline;
            match self.try_acquire_or_renew(times, end, next).await {
                Ok(true) => {
                    self.term.renew(by);
                    if end.replace(next).is_none() {
                        self.looked = Instant::now();
                        info!(identity = %self.config.identity, "leading");
                        leading.send_replace(true);
                    }
                }
                // Somebody else holds it: what we held is gone at once, not after the deadline.
                Ok(false) if end.is_some() => return self.lost(&leading, times),
                Ok(false) => {}
                Err(error) => {
                    warn!(%error, "the Lease could not be read or written; trying again");
                    // It may have been written all the same, for a shorter time than before.
                    end = end.map(|end| end.min(next));
                    self.term.shorten(by);
                }
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return self.lost(&leading, times);
            }
            if let Some(end) = end {
                self.stands_alone(end, &leading).await?;
            }
            let retry = Instant::now() + self.pause(times);
            tokio::select! {
                () = release.cancelled() => {
                    leading.send_replace(false);
                    self.term.end();
                    if end.is_some() {
                        self.release().await;
                    }
                    return Ok(());
                }
                () = tokio::time::sleep_until(end.map_or(retry, |end| end.min(retry))) => {}
                () = self.config.changed(times), if end.is_some() => {}
            }
        }
    }

    /// Makes one attempt; returns true when this candidate holds the Lease afterwards. One that
    /// outlives the term counts as failed: no hanging connection prolongs it, however late the
    /// attempt began.
    async fn try_acquire_or_renew(
        &mut self,
        times: Times,
        end: Option<Instant>,
        next: Instant,
    ) -> Result<bool, kube::Error> {
        let attempt = self.attempt(times, end.is_some());
        match tokio::time::timeout_at(end.unwrap_or(next), attempt).await {
            Ok(result) => result,
            Err(_elapsed) => Err(kube::Error::Service(
                "no answer within the renew deadline".into(),
            )),
        }
    }

    /// Writes this candidate into the Lease, where that is free or its own. One that does not lead yet
    /// does so only where no operator of another installation leads, before and after it. It holds
    /// nothing while it waits: two that wait for each other would wait for ever.
    async fn attempt(&mut self, times: Times, leads: bool) -> Result<bool, kube::Error> {
        let lease = self.api.get_opt(&self.config.name).await?;
        if lease.as_ref().is_some_and(|lease| !self.may_claim(lease)) {
            self.behind(None);
            return Ok(false);
        }
        if !leads && self.waits(View::Any).await? {
            return Ok(false);
        }
        self.write(lease, times).await?;
        if !leads && self.waits(View::Newest).await? {
            self.release().await;
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns whether an operator of another installation leads, and tells so.
    async fn waits(&mut self, view: View) -> Result<bool, kube::Error> {
        let rival = self.rivals.any(view).await?;
        self.behind(rival);
        Ok(self.rival.is_some())
    }

    /// Notes the operator of another installation for which this one waits, if it waits for one.
    fn behind(&mut self, rival: Option<String>) {
        if let Some(namespace) = rival.as_ref().filter(|_| self.rival != rival) {
            warn!(
                namespace,
                "an operator in another namespace leads; this one waits: uninstall one of the two"
            );
        }
        self.ready.send_replace(rival.is_none());
        self.rival = rival;
    }

    /// Looks now and then whether another operator leads, too: one of a release that looks for nobody,
    /// or one whose rights have come back. A look that fails, or is not over by the end of the term, says
    /// nothing.
    async fn stands_alone(
        &mut self,
        end: Instant,
        leading: &watch::Sender<bool>,
    ) -> Result<(), Error> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        let limit = end.min(self.looked + LOOK_LIMIT);
        match tokio::time::timeout_at(limit, self.rivals.renewing()).await {
            Ok(Ok(Some(namespace))) => {
                self.term.end();
                leading.send_replace(false);
                Err(Error::Rival(namespace))
            }
            _ => Ok(()),
        }
    }

    /// Returns the pause between two attempts: of two that have seen each other, one is first.
    fn pause(&self, times: Times) -> Duration {
        let rival = self.rival.as_ref();
        let later = rival.is_some_and(|rival| *rival < self.config.namespace);
        times.retry_period * if later { 2 } else { 1 }
    }

    /// Writes this candidate into the Lease as it was read.
    async fn write(&mut self, lease: Option<Lease>, times: Times) -> Result<(), kube::Error> {
        let (identity, now) = (&self.config.identity, Timestamp::now());
        let account = (
            ANNOTATION_OPERATOR_ACCOUNT.to_owned(),
            self.config.account.clone(),
        );
        let params = PostParams::default();
        let written = if let Some(mut lease) = lease {
            // The metadata goes back as read: its resourceVersion makes the write conditional.
            lease.annotations_mut().extend([account]);
            lease.spec = Some(claim(lease.spec.as_ref(), identity, times, now));
            // A conflict is an error like any other: the next attempt reads who was faster.
            self.api.replace(&self.config.name, &params, &lease).await?
        } else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.config.name.clone()),
                    annotations: Some(BTreeMap::from([account])),
                    ..ObjectMeta::default()
                },
                spec: Some(claim(None, identity, times, now)),
            };
            self.api.create(&params, &lease).await?
        };
        self.observed = Some(Observed {
            lease: written,
            since: Instant::now(),
        });
        Ok(())
    }

    /// Returns whether this candidate may write itself into the Lease, which it notes.
    fn may_claim(&mut self, lease: &Lease) -> bool {
        let since = self.observe(lease);
        may_claim(lease.spec.as_ref(), &self.config.identity, since.elapsed())
    }

    /// Notes the record, and returns the time at which it was first seen as it is.
    fn observe(&mut self, lease: &Lease) -> Instant {
        match &self.observed {
            Some(seen) if seen.lease.spec == lease.spec => seen.since,
            _ => {
                let since = Instant::now();
                self.observed = Some(Observed {
                    lease: lease.clone(),
                    since,
                });
                since
            }
        }
    }

    /// Tells that this candidate does not lead any more.
    fn lost(&self, leading: &watch::Sender<bool>, times: Times) -> Result<(), Error> {
        self.term.end();
        leading.send_replace(false);
        Err(Error::Lost(times.renew_deadline))
    }

    async fn release(&mut self) {
        let Some(Observed { lease, .. }) = self.observed.take() else {
            return;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let lease = Lease {
            spec: Some(released(spec)),
            ..lease
        };
        match self
            .api
            .replace(&self.config.name, &PostParams::default(), &lease)
            .await
        {
            Ok(_) => info!("the Lease is released"),
            Err(error) => warn!(%error, "the Lease could not be released; it expires by itself"),
        }
    }
}

/// Returns whether `identity` may write itself into the record that has been seen unchanged for
/// `unchanged`.
fn may_claim(record: Option<&LeaseSpec>, identity: &str, unchanged: Duration) -> bool {
    let Some(record) = record else { return true };
    let holder = record.holder_identity.as_deref().unwrap_or_default();
    if holder.is_empty() || holder == identity {
        return true;
    }
    let seconds = u64::try_from(record.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    unchanged >= Duration::from_secs(seconds)
}

/// Returns the record with `identity` as holder, renewed at `now`.
fn claim(record: Option<&LeaseSpec>, identity: &str, times: Times, now: Timestamp) -> LeaseSpec {
    let held = record.filter(|r| r.holder_identity.as_deref() == Some(identity));
    let transitions = record.and_then(|r| r.lease_transitions).unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(times.lease_duration.as_secs()).ok(),
        acquire_time: held
            .and_then(|r| r.acquire_time.clone())
            .or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(match (record, held) {
            (Some(_), None) => transitions.saturating_add(1),
            _ => transitions,
        }),
        ..LeaseSpec::default()
    }
}

/// Returns the record without a holder. The API refuses a duration of 0, so 1 s stays, as in
/// client-go.
fn released(record: LeaseSpec) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        ..record
    }
}

#[cfg(test)]
mod tests;
