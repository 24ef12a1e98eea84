//! Following the other servers on the database.
//!
//! Whatever tells that there is something new (a notification, a read that learned of it, the
//! clock) only wakes this task; it looks what is there and has the committer apply it. So a lost
//! notification costs time and nothing else.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{Store, committer::unavailable, engine::EngineError, handle::WeakStore};

/// Pause between looks while other servers write, and its bound while they do not.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// Pause while notifications tell what is new.
const LISTENING_PAUSE: Duration = Duration::from_secs(1);
/// Pause while the database does not answer.
const DOWN_PAUSE: Duration = Duration::from_millis(500);
/// How long our own committer is given to apply what may be its own commit.
const OWN_COMMIT: Duration = Duration::from_millis(3);

/// What the task is told.
#[derive(Default)]
pub(super) struct Follower {
    /// The newest seq that somebody wants to see.
    wanted: watch::Sender<u64>,
    look: Notify,
}

impl Follower {
    /// Wants the cache to have `seq` soon.
    pub fn want(&self, seq: u64) {
        self.wanted.send_if_modified(|wanted| {
            let newer = seq > *wanted;
            *wanted = seq.max(*wanted);
            newer
        });
    }

    /// Has the database looked at now.
    pub fn look(&self) {
        self.look.notify_one();
    }

    /// Waits for a reason to look; gives the seq that is known to be there.
    async fn reason(
        &self,
        wanted: &mut watch::Receiver<u64>,
        announced: Option<&mut watch::Receiver<u64>>,
        pause: Duration,
    ) -> u64 {
        let announcement = async {
            if let Some(announced) = announced
                && announced.changed().await.is_ok()
            {
                return *announced.borrow_and_update();
            }
            std::future::pending().await
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => 0,
            () = self.look.notified() => 0,
            seq = announcement => seq,
            changed = wanted.changed() => match changed {
                Ok(()) => *wanted.borrow_and_update(),
                // The sender lives as long as `self`.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// Follows until the store is closed.
pub(super) fn start(follower: Arc<Follower>, store: WeakStore, stop: CancellationToken) {
    let following = async move {
        let mut wanted = follower.wanted.subscribe();
        let Some(mut announced) = store.upgrade().map(|s| s.engine().announcements()) else {
            return;
        };
        let mut pause = PAUSE.1;
        loop {
            let known = follower
                .reason(&mut wanted, announced.as_mut(), pause)
                .await;
            let Some(store) = store.upgrade() else { break };
            let listening = store.engine().is_listening();
            pause = match store.look(known).await {
                Ok(Seen::NoOthers) => return,
                Ok(Seen::New) => PAUSE.0,
                Ok(Seen::Nothing) if listening => LISTENING_PAUSE,
                Ok(Seen::Nothing) => (pause * 2).clamp(PAUSE.0, PAUSE.1),
                Err(error) => {
                    tracing::debug!(%error, "looking for what other servers wrote");
                    DOWN_PAUSE
                }
            };
        }
    };
    tokio::spawn(stop.run_until_cancelled_owned(following));
}

/// What a look at the database showed.
enum Seen {
    /// No other server can write to it.
    NoOthers,
    Nothing,
    New,
}

impl Store {
    /// Applies what is new in the database, which has at least `known`.
    async fn look(&self, known: u64) -> Result<Seen, EngineError> {
        let mut position = self.position();
        let seq = if known > position.borrow().seq {
            known
        } else {
            let newest = self.engine().newest_seq().await;
            let reachable = matches!(newest, Ok(_) | Err(EngineError::Parted));
            let was = self.counters().reachable.swap(reachable, Ordering::Relaxed);
            match newest {
                Ok(None) => return Ok(Seen::NoOthers),
                // After a failure nobody knows what became of the last transaction.
                Ok(Some(_)) if !was => u64::MAX,
                Ok(Some(seq)) if seq <= position.borrow().seq => return Ok(Seen::Nothing),
                Ok(Some(seq)) => seq,
                Err(EngineError::Parted) => u64::MAX,
                Err(error) => return Err(error),
            }
        };
        let own = position.wait_for(|position| position.seq >= seq);
        if timeout(OWN_COMMIT, own).await.is_ok() {
            return Ok(Seen::Nothing);
        }
        let followed = self.order(|committer| {
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
