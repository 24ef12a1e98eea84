//! Leader election by a Lease, so that two operators never carry out the same migration.
//!
//! The rule is client-go's: a candidate never compares another machine's clock with its own. It
//! takes the Lease only after it has itself seen the record unchanged for the record's
//! `leaseDurationSeconds`. Every write carries the `resourceVersion` that was read, so of two
//! candidates that find the Lease free one gets a conflict.

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
    let elector = Elector {
        api,
        config,
        observed: None,
    };
    Candidate {
        leading,
        task: tokio::spawn(elector.run(tx, release)),
    }
}

/// The Lease as this candidate last saw it change.
struct Observed {
    lease: Lease,
    /// Local time at which the record was first seen like this.
    since: Instant,
}

/// The term of a leader, by the record that it wrote last.
#[derive(Clone, Copy)]
struct Term {
    /// Local time before the record was sent.
    since: Instant,
    /// The time that the leader goes on with this record.
    length: Duration,
}

impl Term {
    fn left(&self) -> Duration {
        self.length.saturating_sub(self.since.elapsed())
    }

    /// Returns the one of two terms that ends first.
    fn sooner(self, other: Self) -> Self {
        if other.left() < self.left() {
            other
        } else {
            self
        }
    }
}

struct Elector {
    api: Api<Lease>,
    config: Config,
    observed: Option<Observed>,
}

impl Elector {
    async fn run(
        mut self,
        leading: watch::Sender<bool>,
        release: CancellationToken,
    ) -> Result<(), Error> {
        let mut held: Option<Term> = None;
        loop {
            let times = self.config.times();
            let next = Term {
                since: Instant::now(),
                length: times.renew_deadline,
            };
            let patience = held.map_or(times.renew_deadline, |term| term.left());
            match self.try_acquire_or_renew(times, patience).await {
                Ok(true) => {
                    if held.replace(next).is_none() {
                        info!(identity = %self.config.identity, "leading");
                        leading.send_replace(true);
                    }
                }
                // Somebody else holds it: what we held is gone at once, not after the deadline.
                Ok(false) if held.is_some() => return lost(&leading, times),
                Ok(false) => {}
                Err(error) => {
                    warn!(%error, "the Lease could not be read or written; trying again");
                    // It may have been written all the same, for a shorter time than before.
                    held = held.map(|term| term.sooner(next));
                }
            }
            let left = held.map_or(Duration::MAX, |term| term.left());
            if left.is_zero() {
                return lost(&leading, times);
            }
            tokio::select! {
                () = release.cancelled() => {
                    leading.send_replace(false);
                    if held.is_some() {
                        self.release().await;
                    }
                    return Ok(());
                }
                () = tokio::time::sleep(times.retry_period.min(left)) => {}
                () = self.config.changed(times), if held.is_some() => {}
            }
        }
    }

    /// Makes one attempt; returns true when this candidate holds the Lease afterwards. One that
    /// outlives `patience`, which is what is left of the term, counts as failed: no hanging
    /// connection prolongs a term, however late the attempt began.
    async fn try_acquire_or_renew(
        &mut self,
        times: Times,
        patience: Duration,
    ) -> Result<bool, kube::Error> {
        match tokio::time::timeout(patience, self.attempt(times)).await {
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

/// Tells that this candidate does not lead any more.
fn lost(leading: &watch::Sender<bool>, times: Times) -> Result<(), Error> {
    leading.send_replace(false);
    Err(Error::Lost(times.renew_deadline))
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
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Server, pair};

    fn record(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(3),
            acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            ..LeaseSpec::default()
        }
    }

    #[rstest]
    #[case::free("", 0, true)]
    #[case::own("me", 0, true)]
    #[case::held("other", 14, false)]
    #[case::expired("other", 15, true)]
    fn claims_only_what_is_free(#[case] holder: &str, #[case] seen: u64, #[case] expected: bool) {
        let unchanged = Duration::from_secs(seen);
        assert_eq!(may_claim(Some(&record(holder)), "me", unchanged), expected);
    }

    #[tokio::test]
    async fn a_lease_is_short_while_requests_are_held() {
        let (holder, holding) = watch::channel(None);
        let config = Config {
            holding: Some(holding),
            ..Config::new("ns", "lease", "me")
        };
        let seconds = || {
            let record = claim(None, "me", config.times(), Timestamp::UNIX_EPOCH);
            record.lease_duration_seconds
        };
        assert_eq!(seconds(), Some(15));
        tokio::join!(config.changed(config.times()), async {
            holder.send_replace(Some("g.io".to_owned()));
        });
        assert_eq!(seconds(), Some(8));
        // A change that came during an attempt is not missed.
        config.changed(Config::new("ns", "lease", "me").times()).await;
    }

    #[test]
    fn a_renewal_keeps_the_time_of_acquisition_and_a_takeover_counts() {
        let times = Config::new("ns", "lease", "me").times();
        let now = Timestamp::from_second(1_000).unwrap();
        let renewed = claim(Some(&record("me")), "me", times, now);
        assert_eq!(renewed.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
        assert_eq!(renewed.lease_transitions, Some(3));
        let taken = claim(Some(&record("other")), "me", times, now);
        assert_eq!(taken.acquire_time, Some(MicroTime(now)));
        assert_eq!(taken.lease_transitions, Some(4));
    }

    fn start(release: CancellationToken) -> (Candidate, Server) {
        let (client, server) = pair();
        let config = Config {
            renew_deadline: Duration::from_millis(200),
            retry_period: Duration::from_millis(10),
            ..Config::new("ns", "lease", "me")
        };
        (campaign(client, config, release), server)
    }

    fn lease(version: &str, holder: &str) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "lease", "namespace": "ns", "resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        })
    }

    #[tokio::test]
    async fn leads_after_creating_the_lease_and_releases_it_on_request() {
        let release = CancellationToken::new();
        let (mut candidate, mut server) = start(release.clone());
        let read = server.next().await;
        assert_eq!(read.method, "GET");
        read.refuse(404, "NotFound");
        let create = server.next().await;
        assert_eq!(create.method, "POST");
        assert_eq!(create.body["spec"]["holderIdentity"], "me");
        release.cancel();
        create.answer(201, &lease("1", "me"));
        let give_up = server.next().await;
        assert_eq!(give_up.method, "PUT");
        assert_eq!(give_up.body["spec"]["holderIdentity"], "");
        assert_eq!(give_up.body["metadata"]["resourceVersion"], "1");
        give_up.answer(200, &lease("2", ""));
        candidate.task.await.unwrap().unwrap();
        assert!(!*candidate.leading.borrow_and_update());
    }

    #[tokio::test]
    async fn waits_while_another_holds_the_lease_and_gets_a_conflict_when_too_late() {
        let release = CancellationToken::new();
        let (candidate, mut server) = start(release.clone());
        server.next().await.answer(200, &lease("1", "other"));
        // Held by another: no write follows, the next request is a read again.
        let read = server.next().await;
        assert_eq!(read.method, "GET");
        read.answer(200, &lease("2", ""));
        let take = server.next().await;
        assert_eq!(take.method, "PUT");
        assert_eq!(take.body["metadata"]["resourceVersion"], "2");
        take.refuse(409, "Conflict");
        let read = server.next().await;
        assert_eq!(read.method, "GET");
        assert!(!*candidate.leading.borrow());
        release.cancel();
        read.answer(200, &lease("3", "other"));
        candidate.task.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn stops_leading_when_renewals_fail_for_the_deadline() {
        let (mut candidate, mut server) = start(CancellationToken::new());
        server.next().await.answer(200, &lease("1", ""));
        server.next().await.answer(200, &lease("2", "me"));
        candidate
            .leading
            .wait_for(|leading| *leading)
            .await
            .unwrap();
        let refuse = tokio::spawn(async move { server.refuse_all(500, "InternalError").await });
        let ended = tokio::time::timeout(Duration::from_secs(10), &mut candidate.task).await;
        assert!(matches!(ended.unwrap().unwrap(), Err(Error::Lost(_))));
        assert!(!*candidate.leading.borrow());
        refuse.abort();
    }

    /// Others count from the last renewal that they saw, however late the leader tries again.
    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_begins_late_does_not_prolong_the_term() {
        let (client, mut server) = pair();
        let config = Config::new("ns", "lease", "me");
        let Candidate { leading: _, task } = campaign(client, config, CancellationToken::new());
        server.next().await.answer(200, &lease("1", ""));
        let began = Instant::now();
        server.next().await.answer(200, &lease("2", "me"));
        while began.elapsed() < Duration::from_secs(5) {
            server.next().await.refuse(500, "InternalError");
        }
        // The next attempt has no answer.
        let _unanswered = server.next().await;
        let ended = task.await.unwrap();
        assert!(matches!(ended, Err(Error::Lost(_))));
        let term = began.elapsed();
        assert!(term <= Duration::from_millis(10_100), "{term:?}");
    }

    /// The record in the cluster says for how long others wait, whatever holds from now on.
    #[tokio::test(start_paused = true)]
    async fn a_short_lease_stays_short_until_a_longer_one_is_written() {
        let (client, mut server) = pair();
        let (holder, holding) = watch::channel(Some("g.io".to_owned()));
        let config = Config {
            holding: Some(holding),
            ..Config::new("ns", "lease", "me")
        };
        let Candidate { leading: _, task } = campaign(client, config, CancellationToken::new());
        server.next().await.answer(200, &lease("1", ""));
        let began = Instant::now();
        let take = server.next().await;
        assert_eq!(take.body["spec"]["leaseDurationSeconds"], 8);
        take.answer(200, &lease("2", "me"));
        holder.send_replace(None);
        let _unanswered = server.next().await;
        let ended = task.await.unwrap();
        assert!(matches!(ended, Err(Error::Lost(_))));
        let term = began.elapsed();
        assert!(term <= Duration::from_millis(7_100), "{term:?}");
    }

    #[tokio::test]
    async fn stops_leading_at_once_when_another_has_taken_over() {
        let (mut candidate, mut server) = start(CancellationToken::new());
        server.next().await.answer(200, &lease("1", ""));
        server.next().await.answer(200, &lease("2", "me"));
        server.next().await.answer(200, &lease("3", "other"));
        let ended = tokio::time::timeout(Duration::from_secs(10), &mut candidate.task).await;
        assert!(matches!(ended.unwrap().unwrap(), Err(Error::Lost(_))));
        assert!(!*candidate.leading.borrow_and_update());
    }
}
