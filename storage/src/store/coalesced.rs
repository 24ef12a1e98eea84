//! One question to the database for all who wait for the answer.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Asks a question that takes a while. An answer serves all who came before the question was
/// asked, and nobody who came later.
#[derive(Default)]
pub(super) struct Coalesced<T> {
    /// Number of the newest question.
    asked: AtomicU64,
    answered: Mutex<Answer<T>>,
}

struct Answer<T> {
    /// Number of the question.
    number: u64,
    answer: Option<Result<T, String>>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self {
            number: 0,
            answer: None,
        }
    }
}

impl<T: Clone> Coalesced<T> {
    /// Returns the number of questions so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the answer to a question that is asked from now on.
    pub async fn get<E: Display>(
        &self,
        ask: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, String> {
        let before = self.asked.load(Ordering::SeqCst);
        // Whoever holds this asks for all who wait for it.
        let mut answered = self.answered.lock().await;
        if answered.number > before
            && let Some(answer) = &answered.answer
        {
            return answer.clone();
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = ask().await.map_err(|error| error.to_string());
        answered.number = number;
        answered.answer = Some(answer.clone());
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;
    use tokio::sync::{Notify, oneshot};

    use super::*;

    #[tokio::test]
    async fn those_who_wait_share_the_next_question() {
        let question = Arc::new(Coalesced::<u64>::default());
        let count = Arc::new(AtomicU64::new(0));
        let (begun, has_begun) = oneshot::channel();
        let finish = Arc::new(Notify::new());
        let first = tokio::spawn({
            let (question, count, finish) = (question.clone(), count.clone(), finish.clone());
            async move {
                let ask = async || {
                    begun.send(()).unwrap();
                    finish.notified().await;
                    Ok::<_, String>(count.fetch_add(1, Ordering::SeqCst))
                };
                question.get(ask).await
            }
        });
        has_begun.await.unwrap();
        let ask = async || Ok::<_, String>(count.fetch_add(1, Ordering::SeqCst));
        let late = join_all((0..20).map(|_| question.get(ask)));
        finish.notify_one();
        let (first, late) = tokio::join!(first, late);
        assert_eq!(first.unwrap(), Ok(0));
        assert_eq!(late, vec![Ok(1); 20], "one more for all who came later");
        assert_eq!(question.asked(), 2);
    }

    #[tokio::test]
    async fn an_answer_is_not_kept_for_who_comes_later() {
        let question = Coalesced::<u64>::default();
        assert_eq!(
            question.get(async || Err::<u64, _>("down")).await,
            Err("down".to_owned())
        );
        assert_eq!(question.get(async || Ok::<_, String>(7)).await, Ok(7));
        assert_eq!(question.get(async || Ok::<_, String>(8)).await, Ok(8));
    }
}
