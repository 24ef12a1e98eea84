//! Step 4d: the end of the old watches. It tells that no write to the CRDs is under way any more, and
//! whether the mirrors have all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crds::control::GateState;
use futures::FutureExt;
use futures::future::{join_all, try_join_all};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::mirror::{self, WatchState};
use crate::migration::cluster::door;
use crate::migration::cluster::endpoints::{Endpoint, Endpoints};
use crate::migration::cluster::pages;
use crate::migration::cluster::wire::WireError;
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;
use crate::migration::task::live::Live;

/// The least time that the drain may take before the gate opens without further waiting.
const DRAIN: Duration = Duration::from_secs(10);
/// The age of the hold until which the drain may take longer: the server lets requests wait for 30
/// s, and an open gate beside old watches shows clients what stragglers write twice.
const DRAINED_WITHIN: Duration = Duration::from_secs(25);
/// The distance by which the floor is raised in that case: an old watch may still hand out versions
/// that etcd reaches meanwhile, and there is no bound on how long.
const LATE_MARGIN: u64 = 1_000_000;
/// The distance by which the floor is raised where nothing tells when the old watches ended, or not
/// at every kube-apiserver. They end a second after the door opens, two minutes at most; few clusters
/// write so much in that time, and the way back can still burn so many revisions.
pub const UNSEEN_MARGIN: u64 = 10_000;

/// A watch beside a mirror's, which is read at once. A kube-apiserver that ends a watch drops what
/// the watcher has not taken yet; so the newest version that a probe was told of tells whether the
/// mirror has all.
pub struct Probe {
    /// Name of the stored resource.
    resource: String,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

/// The facts that a probe was told.
#[derive(Default)]
struct Told {
    /// Newest version of an event.
    newest: AtomicU64,
    /// The end of the watch, and whether the kube-apiserver has ended it cleanly.
    end: OnceLock<(Instant, bool)>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the newest version that the probes of a resource were told of. `None` where that does not
/// say what was written: there is none, or one was cut, or had ended before the door was opened.
fn newest(probes: &[Probe], resource: &str, door_opened: Instant) -> Option<u64> {
    let of = probes.iter().filter(|probe| probe.resource == resource);
    let told = of.map(|Probe { told, .. }| {
        let whole = match told.end.get() {
            Some((at, clean)) => *clean && *at >= door_opened,
            None => true,
        };
        whole.then(|| told.newest.load(Ordering::Acquire))
    });
    told.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Opens one watch for every CRD at every kube-apiserver, from the position of its mirror.
pub async fn open_probes(endpoints: &Endpoints, live: &Live) -> Result<Vec<Probe>, WireError> {
    let mut each = Vec::new();
    for (resource, running) in &live.running {
        let uri = mirror::watch_uri(&running.source.path(), running.mirror.progress().position);
        each.extend(
            endpoints
                .all
                .iter()
                .map(|endpoint| open_probe(endpoint, resource.clone(), uri.clone()).boxed()),
        );
    }
    try_join_all(each).await
}

async fn open_probe(
    endpoint: &Endpoint,
    resource: String,
    uri: String,
) -> Result<Probe, WireError> {
    let mut stream = endpoint.wire.watch(&uri).await?;
    let told = Arc::<Told>::default();
    let noted = Arc::clone(&told);
    let task = tokio::spawn(async move {
        let clean = loop {
            match stream.next().await {
                Ok(None) => break true,
                Ok(Some(event)) if event.type_ == "BOOKMARK" => {}
                Ok(Some(event)) if event.type_ != "ERROR" => {
                    let version = pages::version(&event.object).unwrap_or_default();
                    noted.newest.fetch_max(version, Ordering::AcqRel);
                }
                Ok(Some(_)) | Err(_) => break false,
            }
        };
        noted.end.get_or_init(|| (Instant::now(), clean));
    });
    Ok(Probe {
        resource,
        told,
        task,
    })
}

/// The result of the drain.
pub struct Drained {
    /// True when some mirror may lack events: it was not ended cleanly by the drain, or did not
    /// run, or no other watch tells what it had to get.
    pub lost: bool,
    /// The distance above etcd's revision at which the floor has to be.
    pub margin: u64,
}

impl Drained {
    /// Returns the reason why watches may not go on as if nothing had happened, if there is one.
    #[must_use]
    pub fn watches_lost(&self) -> Option<String> {
        let late = (self.margin == LATE_MARGIN)
            .then_some("not all watches on the CRDs had ended when the server began to answer");
        let recovered = self.lost.then_some(
            "the mirrors may not have received all, and what the server lacked was read from etcd",
        );
        let why: Vec<&str> = late.into_iter().chain(recovered).collect();
        (!why.is_empty()).then(|| why.join("; "))
    }
}

/// Returns the longest wait for a drain, in a hold that has lasted for `held`.
#[must_use]
pub fn limit(held: Duration) -> Duration {
    DRAINED_WITHIN.saturating_sub(held).max(DRAIN)
}

/// 4d: opens the side door and waits for the end of the old watches, no longer than `limit`.
pub async fn drain(
    cx: &Cx,
    o: &Observed,
    live: &Live,
    mut probes: Vec<Probe>,
    token: &str,
    limit: Duration,
) -> Result<Drained, WireError> {
    let opened = Instant::now();
    door::open(cx, o, token).await?;
    let have_probes = !probes.is_empty();
    let ends = probes
        .iter_mut()
        .map(|probe| async move { drop((&mut probe.task).await) }.boxed());
    let mirrors = live.running.values().map(|running| {
        let mut progress = running.mirror.subscribe();
        async move { progress.wait_for(|p| p.finished).await.is_ok() }
    });
    let all = async { tokio::join!(join_all(ends), join_all(mirrors)) };
    let late = tokio::time::timeout_at(opened + limit, all).await.is_err();
    let margin = match (late, have_probes) {
        (true, _) => LATE_MARGIN,
        (false, false) => UNSEEN_MARGIN,
        (false, true) => 0,
    };
    let waiting = o
        .crds()
        .filter(|(resource, _)| resource.gate() != GateState::Open);
    let mut lost = false;
    for (resource, _) in waiting {
        let progress = live
            .running
            .get(resource.name())
            .map(|r| r.mirror.progress());
        let newest = newest(&probes, resource.name(), opened);
        let whole = progress.as_ref().zip(newest);
        if whole.is_some_and(|(p, newest)| is_whole(p, opened, newest)) {
            continue;
        }
        lost = true;
        tracing::warn!(
            resource = resource.name(),
            ?progress,
            ?newest,
            "the mirror may lack events; what the server lacks is fetched from etcd"
        );
    }
    if late {
        let group = &cx.target.group;
        tracing::warn!(group, lost, "not all old watches have ended in time");
    }
    Ok(Drained { lost, margin })
}

/// Returns whether a mirror has given the server everything; other watches were told of events up to
/// `newest`.
fn is_whole(progress: &mirror::Progress, door_opened: Instant, newest: u64) -> bool {
    if progress.received < newest {
        return false;
    }
    match progress.watch {
        WatchState::Live => progress.failure.is_none() && progress.position >= progress.received,
        WatchState::Ended { clean, at } => {
            clean && at >= door_opened && progress.finished && progress.failure.is_none()
        }
        WatchState::Opening => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_gets_what_the_confirmation_has_left_of_the_hold() {
        let seconds = Duration::from_secs;
        assert_eq!(limit(seconds(1)), seconds(24));
        assert_eq!(limit(seconds(20)), seconds(10));
        assert_eq!(limit(seconds(40)), seconds(10));
    }

    #[test]
    fn watches_are_lost_by_a_late_drain_and_by_a_mirror_that_was_not_whole() {
        let drained = |lost, margin| Drained { lost, margin };
        assert_eq!(drained(false, 0).watches_lost(), None);
        assert_eq!(drained(false, UNSEEN_MARGIN).watches_lost(), None);
        let late = drained(false, LATE_MARGIN).watches_lost().unwrap();
        assert!(late.starts_with("not all watches"), "{late}");
        let both = drained(true, LATE_MARGIN).watches_lost().unwrap();
        assert!(
            both.contains("read from etcd") && both.starts_with(&late),
            "{both}"
        );
        assert!(drained(true, 0).watches_lost().is_some());
    }

    #[test]
    fn a_mirror_is_whole_when_the_drain_has_ended_it_or_it_still_follows() {
        let opened = Instant::now();
        let later = opened + Duration::from_millis(900);
        let earlier = opened.checked_sub(Duration::from_millis(1)).unwrap();
        let progress = |watch, finished| mirror::Progress {
            watch,
            finished,
            ..mirror::Progress::default()
        };
        let ended = |clean, at| WatchState::Ended { clean, at };
        assert!(is_whole(&progress(ended(true, later), true), opened, 0));
        assert!(is_whole(&progress(WatchState::Live, false), opened, 0));
        // Not yet durable, cut, or over before the door: events may be missing.
        assert!(!is_whole(&progress(ended(true, later), false), opened, 0));
        assert!(!is_whole(&progress(ended(false, later), true), opened, 0));
        assert!(!is_whole(&progress(ended(true, earlier), true), opened, 0));
        assert!(!is_whole(&progress(WatchState::Opening, false), opened, 0));
        let mut failed = progress(ended(true, later), true);
        failed.failure = Some("503".to_owned());
        assert!(!is_whole(&failed, opened, 0));
    }

    #[tokio::test]
    async fn only_probes_that_the_drain_has_ended_tell_what_was_written() {
        let opened = Instant::now();
        let earlier = opened.checked_sub(Duration::from_millis(1)).unwrap();
        let probe = |version, end: Option<(Instant, bool)>| Probe {
            resource: "a".to_owned(),
            told: Arc::new(Told {
                newest: AtomicU64::new(version),
                end: end.map(OnceLock::from).unwrap_or_default(),
            }),
            task: tokio::spawn(async {}),
        };
        let mut probes = vec![probe(7, None), probe(9, Some((opened, true)))];
        assert_eq!(newest(&probes, "a", opened), Some(9));
        assert_eq!(newest(&probes, "b", opened), None);
        for end in [(opened, false), (earlier, true)] {
            probes.push(probe(8, Some(end)));
            assert_eq!(newest(&probes, "a", opened), None);
            probes.pop();
        }
    }

    #[test]
    fn a_mirror_that_still_follows_is_whole_when_all_is_durable() {
        let opened = Instant::now();
        let mut progress = mirror::Progress {
            watch: WatchState::Live,
            received: 7,
            position: 6,
            ..mirror::Progress::default()
        };
        assert!(!is_whole(&progress, opened, 0));
        progress.position = 7;
        assert!(is_whole(&progress, opened, 0));
    }

    #[test]
    fn a_mirror_is_not_whole_when_other_watches_were_told_more() {
        let opened = Instant::now();
        let progress = mirror::Progress {
            watch: WatchState::Ended {
                clean: true,
                at: opened + Duration::from_millis(1),
            },
            finished: true,
            received: 7,
            ..mirror::Progress::default()
        };
        assert!(is_whole(&progress, opened, 7));
        assert!(!is_whole(&progress, opened, 8));
    }
}
