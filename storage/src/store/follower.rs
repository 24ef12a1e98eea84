//! Following the other servers on the database.
//!
//! Every sign of something new (a notification, a read that learned of it, the clock) only wakes
//! this task; it looks for commits and has the committer apply them. So a lost notification costs
//! time and nothing else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Store;
use super::committer::unavailable;
use super::engine::EngineError;
use super::handle::{LEFT_BEHIND, WeakStore};

/// Pause between looks while other servers write, and its bound while they do not.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// Pause while notifications announce commits.
const LISTENING_PAUSE: Duration = Duration::from_secs(1);
/// Pause while the database does not answer.
const DOWN_PAUSE: Duration = Duration::from_millis(500);
/// Time that our own committer has to apply a commit that may be its own.
const OWN_COMMIT: Duration = Duration::from_millis(3);

/// The signals to the task.
#[derive(Default)]
pub(super) struct Follower {
    /// The seq that somebody last wanted to see.
    wanted: watch::Sender<u64>,
    look: Notify,
    /// The signal that others can write from now on, or do so to another database.
    others: Notify,
}

impl Follower {
    /// Asks that the cache has `seq` soon.
    pub fn want(&self, seq: u64) {
        self.wanted.send_replace(seq);
    }

    /// Asks for a look at the database now.
    pub fn look(&self) {
        self.look.notify_one();
    }

    /// Begins to follow where nobody else could write until now, or who writes was elsewhere.
    pub fn begin(&self) {
        self.others.notify_one();
    }

    /// Waits for a reason to look, until `due` at the latest.
    async fn reason(
        &self,
        wanted: &mut watch::Receiver<u64>,
        announced: Option<&mut watch::Receiver<u64>>,
        due: Instant,
    ) -> Reason {
        let announcement = async {
            if let Some(announced) = announced
                && announced.changed().await.is_ok()
            {
                return *announced.borrow_and_update();
            }
            std::future::pending().await
        };
        tokio::select! {
            // The clock goes first: however much is told, it is looked what is there.
            biased;
            () = sleep_until(due) => Reason::Due,
            () = self.look.notified() => Reason::Due,
            () = self.others.notified() => Reason::Elsewhere,
            seq = announcement => Reason::Told(seq),
            changed = wanted.changed() => match changed {
                Ok(()) => Reason::Wanted(*wanted.borrow_and_update()),
                // The sender lives as long as `self`.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// The reason for a look at the database. A number is a hint that is worth one look, and nobody
/// waits for it: a database that was put back to an earlier state may not have it any more.
#[derive(Clone, Copy)]
enum Reason {
    /// The time has come.
    Due,
    /// Another server has told of a commit.
    Told(u64),
    /// A read has seen that there is a commit.
    Wanted(u64),
    /// The database is another one from now on, and so is who announces commits.
    Elsewhere,
}

/// Follows until the store is closed.
pub(super) fn start(follower: Arc<Follower>, store: WeakStore, stop: CancellationToken) {
    let following = async move {
        let mut wanted = follower.wanted.subscribe();
        let mut ended: Option<Instant> = None;
        loop {
            let Some(mut announced) = store.upgrade().map(|s| s.engine().announcements()) else {
                return;
            };
            let mut pause = PAUSE.1;
            let mut due = Instant::now() + pause;
            loop {
                let reason = follower.reason(&mut wanted, announced.as_mut(), due).await;
                if matches!(reason, Reason::Elsewhere) {
                    break;
                }
                let Some(store) = store.upgrade() else {
                    return;
                };
                if store.has(reason) {
                    continue;
                }
                pause = match store.look(reason).await {
                    Ok(Seen::NoOthers) => {
                        drop(store);
                        follower.others.notified().await;
                        break;
                    }
                    Ok(Seen::New) => PAUSE.0,
                    Ok(Seen::Nothing) if store.engine().is_listening() => LISTENING_PAUSE,
                    Ok(Seen::Nothing) => (pause * 2).clamp(PAUSE.0, PAUSE.1),
                    Err(error) => {
                        tracing::debug!(%error, "looking for what other servers wrote");
                        DOWN_PAUSE
                    }
                };
                // Clients find a server that goes on: this one is not ready, and has no news for them.
                if store.is_left_behind() && ended.is_none_or(|at| at.elapsed() >= LEFT_BEHIND) {
                    tracing::error!("others go on without this server; its watches are ended");
                    store.end_watches();
                    ended = Some(Instant::now());
                }
                due = Instant::now() + pause;
            }
        }
    };
    tokio::spawn(stop.run_until_cancelled_owned(following));
}

/// The result of a look at the database.
enum Seen {
    /// No other server can write to it.
    NoOthers,
    Nothing,
    New,
}

impl Store {
    /// Returns whether the cache already has the commit that is the reason to look.
    fn has(&self, reason: Reason) -> bool {
        match reason {
            Reason::Due | Reason::Elsewhere => false,
            Reason::Told(seq) | Reason::Wanted(seq) => seq <= self.position().borrow().seq,
        }
    }

    /// Applies new commits of the database.
    async fn look(&self, reason: Reason) -> Result<Seen, EngineError> {
        let own = match reason {
            Reason::Told(_) => None,
            Reason::Wanted(seq) => Some(seq),
            Reason::Due | Reason::Elsewhere => match self.newest().await? {
                None => return Ok(Seen::NoOthers),
                Some(seq) => {
                    self.vouch().await;
                    Some(seq)
                }
            },
        };
        // What is new may be a commit of our own that is being applied.
        if let Some(seq) = own {
            let mut position = self.position();
            let applied = position.wait_for(|position| position.seq >= seq);
            if timeout(OWN_COMMIT, applied).await.is_ok() {
                return Ok(Seen::Nothing);
            }
        }
        self.follow().await
    }

    /// Returns the newest commit of the database; [`u64::MAX`] where it has to be followed in any
    /// case, `None` where no other server can write to it.
    async fn newest(&self) -> Result<Option<u64>, EngineError> {
        let newest = self.engine().newest_seq().await;
        let reachable = matches!(newest, Ok(_) | Err(EngineError::Parted));
        let was = self.counters().reachable.swap(reachable, Ordering::Relaxed);
        match newest {
            // After a failure nobody knows what became of the last transaction.
            Ok(Some(_)) if !was => Ok(Some(u64::MAX)),
            Err(EngineError::Parted) => Ok(Some(u64::MAX)),
            other => other,
        }
    }

    /// Notes soon, where the connection is a new one, that the history that this server has seen is
    /// in the database behind it: a server that starts now cannot know, and would have clients list
    /// again.
    async fn vouch(&self) {
        if self.engine().is_unprepared()
            && let Err(error) = self.prepare().await
        {
            tracing::debug!(%error, "looking at the database behind a new connection");
        }
    }

    /// Has the committer apply a page of new commits.
    async fn follow(&self) -> Result<Seen, EngineError> {
        let followed = self.command(|committer| {
            async move {
                let before = committer.position.seq;
                committer.follow().await.map_err(unavailable)?;
                committer.counters.recovered();
                Ok(committer.position.seq != before)
            }
            .boxed()
        });
        Ok(match followed.await {
            Ok(true) => Seen::New,
            Ok(false) => Seen::Nothing,
            Err(error) => {
                tracing::warn!(%error, "following what other servers wrote");
                Seen::Nothing
            }
        })
    }
}
