//! Random edits of the `ReportsServer`, damage to its children and restarts, with a fixed seed: five
//! minutes, forty with `E2E_FULL`, in which nearly every action has its turn. Conditions tell the truth
//! at every quiet moment, nothing is lost, and nobody is stuck.

use std::time::Duration;

use crate::common::{full, options, say};
use e2e::abuse::{self, AbuseOptions};
use e2e::takeover::{Database, Takeover};
use testreports::Input;

const REPORTS: usize = 200;
const SEED: u64 = 17;
/// Length of a usual and of a whole run.
const LENGTH: [Duration; 2] = [Duration::from_mins(5), Duration::from_mins(40)];
/// Actions that there must have been for the run to say anything.
const ACTIONS: [u64; 2] = [5, 60];
/// The same of a run in which it is deleted and made again, and the times that it must have been.
const AGAIN: [Duration; 2] = [Duration::from_mins(3), Duration::from_mins(15)];
const TIMES: [u64; 2] = [2, 8];

/// Carries out the actions whose name has the word `only`, of which there must be at least `actions`.
async fn abused(time: Duration, only: &str, actions: u64) {
    let mut options = options(Input::detect(), REPORTS);
    options.database = Database::Managed;
    let line = Takeover::prepare(options, say).await.unwrap();
    let options = AbuseOptions {
        seed: SEED,
        time,
        rate: 15.0,
        only: only.to_owned(),
    };
    let outcome = Box::pin(abuse::run(line, &options)).await.unwrap();
    println!("{outcome}");
    assert!(outcome.edits >= actions, "{outcome}");
    assert!(outcome.writes > 0, "{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_tells_the_truth_whatever_is_done_to_it() {
    let whole = usize::from(full());
    Box::pin(abused(LENGTH[whole], "", ACTIONS[whole])).await;
}

/// It begins anew as another one of its name. What was made for the one before goes with that, and
/// nothing that is made for it.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_made_again_is_another() {
    let whole = usize::from(full());
    Box::pin(abused(AGAIN[whole], "make it again", TIMES[whole])).await;
}
