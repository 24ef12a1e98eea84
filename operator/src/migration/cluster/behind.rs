//! Facts that have to hold at every kube-apiserver where several are behind one address.
//!
//! No answer tells which of them it comes from, and a connection that is kept stays with one. So the
//! question is asked on a new connection each time, until enough answers in a row are as they should
//! be.

use std::time::Duration;

use tokio::time::Instant;

/// The fewest answers in a row.
const FEWEST: u32 = 20;
/// Answers for each kube-apiserver. Of n that connections are spread over at random, 8 n connections
/// miss a given one with a probability of less than 0.04 %.
const EACH: u32 = 8;
/// Most answers in a row, whatever is counted: clients wait for them.
const MOST: u32 = 160;
/// The time over which the answers are spread: a kube-apiserver that has just answered may be led
/// elsewhere by an APIService that it learns of later.
const SPAN: Duration = Duration::from_secs(3);

/// Returns the number of new connections by which all of `alive` kube-apiservers are taken to be
/// reached; 0 are an unknown number.
#[must_use]
pub fn connections(alive: usize) -> u32 {
    let alive = u32::try_from(alive).unwrap_or(u32::MAX);
    alive.saturating_mul(EACH).clamp(FEWEST, MOST)
}

/// Asks until enough answers in a row are as they should be. Returns whether they were: the last row
/// begins when `patience` is over, and is ended while it goes on.
///
/// # Errors
/// Those of `ask`, which has to use a new connection each time.
pub async fn confirmed<F, Fut, E>(alive: usize, patience: Duration, mut ask: F) -> Result<bool, E>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<bool, E>>,
{
    let wanted = connections(alive);
    let deadline = Instant::now() + patience;
    let mut row = 0;
    loop {
        // Looked at before the question: whoever stood still asks once more.
        let is_over = Instant::now() >= deadline;
        row = if ask().await? { row + 1 } else { 0 };
        if row >= wanted {
            return Ok(true);
        }
        if is_over && row == 0 {
            return Ok(false);
        }
        tokio::time::sleep(SPAN / wanted).await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use super::*;

    /// The time for which the tests have a question asked.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Asks about `alive` kube-apiservers, with the answer that `good` gives for the number of the
    /// question. Returns whether it was confirmed, and the number of questions.
    async fn asked(alive: usize, good: impl Fn(u32) -> bool) -> (bool, u32) {
        let mut count = 0;
        let ask = || {
            count += 1;
            ready(Ok::<_, Infallible>(good(count)))
        };
        let confirmed = confirmed(alive, PATIENCE, ask).await.unwrap();
        (confirmed, count)
    }

    #[test]
    fn more_kube_apiservers_are_reached_by_more_connections() {
        let all = [0, 1, 2, 3, 5, 20, usize::MAX].map(connections);
        assert_eq!(all, [20, 20, 20, 24, 40, 160, 160]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_other_answer_begins_the_row_anew() {
        assert_eq!(asked(0, |_| true).await, (true, 20));
        assert_eq!(asked(3, |_| true).await, (true, 24));
        assert_eq!(asked(3, |count| count != 7).await, (true, 7 + 24));
    }

    #[tokio::test(start_paused = true)]
    async fn the_answers_are_spread_over_three_seconds() {
        for alive in [0, 5] {
            let begun = Instant::now();
            asked(alive, |_| true).await;
            let took = begun.elapsed();
            assert!(took > SPAN * 9 / 10 && took <= SPAN * 11 / 10, "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_was_begun_in_time_is_ended() {
        let begun = Instant::now();
        // As from a second before the end.
        let late = move |_| begun.elapsed() > PATIENCE.saturating_sub(Duration::from_secs(1));
        assert!(asked(0, late).await.0);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_never_change_are_not_waited_for_without_end() {
        let begun = Instant::now();
        assert!(!asked(0, |_| false).await.0);
        assert!(begun.elapsed() < PATIENCE * 2, "{:?}", begun.elapsed());
        // Nor those of kube-apiservers that differ.
        let begun = Instant::now();
        assert!(!asked(0, |count| count % 3 > 0).await.0);
        assert!(begun.elapsed() < PATIENCE * 2, "{:?}", begun.elapsed());
    }
}
