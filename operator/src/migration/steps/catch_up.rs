//! The wait before a hold: requests wait for what a mirror has received and not sent yet, so none
//! is to have much of it when they begin to.

use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::mirror::Progress;

/// The time that a mirror may need for what it has received when a hold begins.
const BEHIND: Duration = Duration::from_secs(1);
/// The longest wait for that.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(30);

/// Waits until no mirror needs longer than [`BEHIND`] for what it has received, but no longer than
/// [`CAUGHT_UP_WITHIN`].
pub async fn wait(mirrors: &[watch::Receiver<Progress>]) {
    let deadline = Instant::now() + CAUGHT_UP_WITHIN;
    loop {
        let begun = Instant::now();
        let all = join_all(mirrors.iter().cloned().map(until_sent));
        let sent = tokio::time::timeout_at(deadline, all).await.is_ok();
        if may_hold(sent.then(|| begun.elapsed())) {
            return;
        }
    }
}

/// Waits until a mirror has sent what it has received by now, or has ended.
async fn until_sent(mut mirror: watch::Receiver<Progress>) {
    let received = mirror.borrow().received;
    let sent = mirror.wait_for(|p| p.position >= received || p.finished);
    // A channel that is closed means a task that has ended.
    let _ = sent.await;
}

/// Returns whether a hold may begin after the mirrors needed `took` for what they had received;
/// `None` where they did not come to an end in the time that there was.
fn may_hold(took: Option<Duration>) -> bool {
    took.is_none_or(|took| took <= BEHIND)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    fn mirror(
        received: u64,
        position: u64,
    ) -> (watch::Sender<Progress>, watch::Receiver<Progress>) {
        watch::channel(Progress {
            position,
            received,
            ..Progress::default()
        })
    }

    /// Waits for these mirrors, and returns how long that took.
    async fn waited(mirrors: &[watch::Receiver<Progress>]) -> Duration {
        let begun = Instant::now();
        wait(mirrors).await;
        begun.elapsed()
    }

    #[test]
    fn a_hold_begins_when_less_than_a_second_is_left_or_the_time_is_up() {
        assert!(may_hold(Some(MILLIS(0))));
        assert!(may_hold(Some(MILLIS(1000))));
        assert!(!may_hold(Some(MILLIS(1001))));
        assert!(may_hold(None));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_where_no_mirror_is_behind() {
        let (_one, one) = mirror(7, 7);
        // A bookmark has come since the last event.
        let (_two, two) = mirror(7, 9);
        assert!(waited(&[]).await < MILLIS(10));
        assert!(waited(&[one, two]).await < MILLIS(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_that_has_ended_is_not_waited_for() {
        let (ended, mirror_ended) = mirror(7, 5);
        ended.send_modify(|p| p.finished = true);
        let (gone, mirror_gone) = mirror(7, 5);
        drop(gone);
        assert!(waited(&[mirror_ended, mirror_gone]).await < MILLIS(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_that_is_behind_is_waited_for_until_it_has_caught_up() {
        let (progress, behind) = mirror(100, 0);
        let (_other, other) = mirror(7, 7);
        let sends = async {
            sleep(MILLIS(10_000)).await;
            // What has come meanwhile takes more than a second as well, the rest does not.
            progress.send_modify(|p| (p.position, p.received) = (100, 120));
            sleep(MILLIS(1500)).await;
            progress.send_modify(|p| (p.position, p.received) = (120, 125));
            sleep(MILLIS(500)).await;
            progress.send_modify(|p| p.position = 125);
        };
        let mirrors = [behind, other];
        let (took, ()) = tokio::join!(waited(&mirrors), sends);
        assert!(took >= MILLIS(12_000), "{took:?}");
        assert!(took < MILLIS(12_100), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_mirror_that_stays_behind_is_not_waited_for_longer_than_the_bound() {
        let within = CAUGHT_UP_WITHIN..CAUGHT_UP_WITHIN + MILLIS(100);
        let (_stuck, stuck) = mirror(7, 5);
        let took = waited(&[stuck]).await;
        assert!(within.contains(&took), "{took:?}");

        // One that sends, and needs two seconds each time for what has come meanwhile.
        let (progress, slow) = mirror(10, 0);
        let sends = async {
            for _ in 0..20 {
                sleep(MILLIS(2000)).await;
                progress.send_modify(|p| (p.position, p.received) = (p.received, p.received + 10));
            }
        };
        let mirrors = [slow];
        let (took, ()) = tokio::join!(waited(&mirrors), sends);
        assert!(within.contains(&took), "{took:?}");
    }
}
