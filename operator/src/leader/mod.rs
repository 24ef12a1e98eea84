//! Leader election by a Lease, so that two operators never carry out the same migration.
//!
//! The rule is client-go's: a candidate never compares another machine's clock with its own. It
//! takes the Lease only after it has itself seen the record unchanged for the record's
//! `leaseDurationSeconds`. Every write carries the `resourceVersion` that was read, so of two
//! candidates that find the Lease free one gets a conflict.
//!
//! A leader that stood still does not know yet that others have waited for long enough. So it has a
//! [`Term`], and a client of that term sends no write once it is over.

mod connection;
mod term;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

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
}

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
    let api = Api::namespaced(client, &config.namespace);
    let term = Term::over();
    let elector = Elector {
        api,
        config,
        observed: None,
        term: term.clone(),
    };
    Candidate {
        leading,
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
            match self.try_acquire_or_renew(times, end.unwrap_or(next)).await {
                Ok(true) => {
                    self.term.renew(by);
                    if end.replace(next).is_none() {
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
            let now = Instant::now();
            if end.is_some_and(|end| end <= now) {
                return self.lost(&leading, times);
            }
            let retry = now + times.retry_period;
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
        end: Instant,
    ) -> Result<bool, kube::Error> {
        match tokio::time::timeout_at(end, self.attempt(times)).await {
            Ok(result) => result,
            Err(_elapsed) => Err(kube::Error::Service(
                "no answer within the renew deadline".into(),
            )),
        }
    }

    async fn attempt(&mut self, times: Times) -> Result<bool, kube::Error> {
        let now = Timestamp::now();
        let Some(lease) = self.api.get_opt(&self.config.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.config.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(claim(None, &self.config.identity, times, now)),
            };
            let written = self.api.create(&PostParams::default(), &lease).await?;
            return Ok(self.holds(written));
        };
        let since = self.observe(&lease);
        if !may_claim(lease.spec.as_ref(), &self.config.identity, since.elapsed()) {
            return Ok(false);
        }
        let spec = claim(lease.spec.as_ref(), &self.config.identity, times, now);
        // The metadata goes back as read: its resourceVersion makes the write conditional.
        let lease = Lease {
            spec: Some(spec),
            ..lease
        };
        let name = &self.config.name;
        // A conflict is an error like any other: the next attempt reads who was faster.
        let written = self
            .api
            .replace(name, &PostParams::default(), &lease)
            .await?;
        Ok(self.holds(written))
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

    fn holds(&mut self, written: Lease) -> bool {
        self.observed = Some(Observed {
            lease: written,
            since: Instant::now(),
        });
        true
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
