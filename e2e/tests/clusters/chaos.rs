//! The operator switches the groups to the server and back, again and again, under load and faults:
//! five minutes with a fixed seed, half an hour on each database with `E2E_FULL`. Of five minutes
//! what the machine's other work can cause does not fail the test; of a whole run, everything that
//! a client notices.

use std::time::Duration;

use crate::common::{NEVER, full, options, say};
use e2e::chaos::{self, ChaosOptions, Flaw, NodeDriver};
use e2e::takeover::{Database, Takeover};
use rstest::rstest;
use testreports::Input;

const REPORTS: usize = 300;
const SEED: u64 = 20;
/// Rounds that there must have been for the run to say anything.
const ROUNDS: u32 = 2;

/// Length of a run, and of a whole one.
const LENGTH: [Duration; 2] = [Duration::from_mins(5), Duration::from_mins(30)];
/// Longest time for which requests may be held while nothing is broken; of a short run less is asked,
/// for it shares the machine with builds.
const HOLD: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(2)];
/// The flaws of which a run with nothing beside it has none either. A list again after an answer that
/// came late is not among them.
const ALONE: [Flaw; 5] = [
    Flaw::Duplicated,
    Flaw::OutOfOrder,
    Flaw::Phantom,
    Flaw::StaleRead,
    Flaw::RetryWatcherDead,
];

#[rstest]
#[case::embedded(Database::Embedded)]
#[case::managed(Database::Managed)]
#[tokio::test(flavor = "multi_thread")]
async fn groups_go_there_and_back_unnoticed(#[case] database: Database) {
    if !full() && !matches!(database, Database::Embedded) {
        println!("only with E2E_FULL=1");
        return;
    }
    let mut options = options(Input::detect(), REPORTS);
    options.cluster.apiservers = 2;
    options.database = database;
    let line = Takeover::prepare(options, say).await.unwrap();
    let driver = NodeDriver::start(line).await.unwrap();
    let options = ChaosOptions {
        time: Some(LENGTH[usize::from(full())]),
        seed: SEED,
        ..ChaosOptions::default()
    };
    let outcome = chaos::run(&driver, &options, &say).await.unwrap();
    println!("{outcome}");
    assert_eq!(outcome.stopped, None, "{outcome}");
    assert!(outcome.round_trips >= ROUNDS, "{outcome}");
    if full() {
        assert!(outcome.is_clean(), "{outcome}");
    }
    let hold = outcome.holds.undisturbed.map(Duration::from_millis);
    let limit = HOLD[usize::from(full())];
    assert!(hold.is_some_and(|hold| hold <= limit), "{outcome}");
    for flaw in NEVER.into_iter().chain(ALONE) {
        assert_eq!(outcome.flaw(flaw), 0, "{flaw:?}: {outcome}");
    }
}
