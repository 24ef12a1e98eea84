//! The state of the cache of the APIServices, which decides about trust and about letting go: neither
//! an empty cache nor one that is not kept up may be taken for an answer.

use std::time::Duration;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use crate::said::said;

/// Time for which the refusal of a filled cache counts. The watch is tried again in it at least once,
/// and says nothing when it succeeds.
const REFUSAL: Duration = Duration::from_secs(90);

/// A refusal of the watch.
#[derive(Clone, Debug)]
struct Refusal {
    said: String,
    time: Instant,
    /// True when the attempt before was refused, too. A kube-apiserver that has just started refuses
    /// once, and the watch is no longer refused when it is tried again.
    is_repeated: bool,
}

/// The state of the cache.
#[derive(Clone, Debug, Default)]
pub struct Cached {
    is_filled: bool,
    /// The last refusal.
    refused: Option<Refusal>,
}

impl Cached {
    /// Notes an event of the watch that the cache has taken in.
    pub fn note(&mut self, event: &watcher::Result<Event<APIService>>) {
        match event {
            Ok(Event::InitDone) => {
                self.is_filled = true;
                self.refused = None;
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => self.refused = None,
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) => {
                if let Some(said) = refusal(error) {
                    let time = Instant::now();
                    let before = self.refused.take();
                    let is_repeated = before.is_some_and(|before| time - before.time < REFUSAL);
                    self.refused = Some(Refusal {
                        said,
                        time,
                        is_repeated,
                    });
                }
            }
        }
    }

    /// Returns the words with which the kube-apiserver refuses the watch, while it does: at once where
    /// the cache is empty, and where it is filled, from the second refusal in a row.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        let refused = self.refused.as_ref()?;
        let stays = refused.is_repeated && refused.time.elapsed() < REFUSAL;
        (!self.is_filled || stays).then_some(refused.said.as_str())
    }

    /// Returns whether the APIServices were listed once.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// Returns whether there is something to go by: the APIServices, or a refusal.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_filled || self.refusal().is_some()
    }
}

/// Returns what the kube-apiserver says where it refuses a watch for want of a right.
fn refusal(error: &watcher::Error) -> Option<String> {
    match error {
        watcher::Error::InitialListFailed(source)
        | watcher::Error::WatchStartFailed(source)
        | watcher::Error::WatchFailed(source) => {
            crate::said::is_forbidden(source).then(|| said(source))
        }
        watcher::Error::WatchError(status) => (status.code == 403).then(|| status.message.clone()),
        watcher::Error::NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    const SAID: &str = "apiservices.apiregistration.k8s.io is forbidden: User \"operator\" cannot \
                        list resource \"apiservices\" in API group \"apiregistration.k8s.io\" at \
                        the cluster scope";

    fn answer(code: u16) -> kube::Error {
        let status = Status::failure(SAID, "Any").with_code(code);
        kube::Error::Api(status.boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_is_known_when_it_is_filled_or_refused() {
        let mut cached = Cached::default();
        cached.note(&Ok(Event::Init));
        assert!(!cached.is_known());
        cached.note(&Err(watcher::Error::InitialListFailed(answer(503))));
        assert!(!cached.is_known());
        cached.note(&Err(watcher::Error::InitialListFailed(answer(403))));
        assert!(cached.is_known());
        tokio::time::advance(2 * REFUSAL).await;
        assert_eq!(cached.refusal(), Some(SAID));
        cached.note(&Ok(Event::InitDone));
        assert!(cached.is_known());
        assert_eq!(cached.refusal(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_later_is_told_until_it_has_not_been_for_long() {
        let mut cached = Cached::default();
        cached.note(&Ok(Event::InitDone));
        let refused: [fn() -> watcher::Error; 3] = [
            || watcher::Error::WatchStartFailed(answer(403)),
            || watcher::Error::WatchFailed(answer(403)),
            || {
                watcher::Error::WatchError(
                    Status::failure(SAID, "Forbidden").with_code(403).boxed(),
                )
            },
        ];
        for refused in refused {
            cached.note(&Err(refused()));
            assert_eq!(cached.refusal(), None, "once may pass");
            tokio::time::advance(REFUSAL / 2).await;
            cached.note(&Err(refused()));
            assert_eq!(cached.refusal(), Some(SAID));
            tokio::time::advance(REFUSAL).await;
            assert_eq!(cached.refusal(), None);
            assert!(cached.is_known());
        }
        for _ in 0..2 {
            cached.note(&Err(refused[0]()));
        }
        cached.note(&Ok(Event::Apply(APIService::default())));
        assert_eq!(cached.refusal(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_a_filled_cache_that_are_not_in_a_row_do_not_count() {
        let mut cached = Cached::default();
        cached.note(&Ok(Event::InitDone));
        let refused = || Err(watcher::Error::WatchStartFailed(answer(403)));
        cached.note(&refused());
        tokio::time::advance(REFUSAL).await;
        cached.note(&refused());
        assert_eq!(cached.refusal(), None, "long after the first");
        cached.note(&Ok(Event::Apply(APIService::default())));
        cached.note(&refused());
        assert_eq!(cached.refusal(), None, "the watch went on between them");
        // Another error is neither: nothing was heard of the APIServices.
        cached.note(&Err(watcher::Error::WatchStartFailed(answer(503))));
        cached.note(&refused());
        assert_eq!(cached.refusal(), Some(SAID));
    }
}
