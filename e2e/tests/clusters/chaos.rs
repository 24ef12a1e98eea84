//! The operator switches the groups to the server and back, again and again, under load and faults:
//! two rounds with a fixed seed, half an hour on each database with `E2E_FULL`. Of two rounds only
//! what no client may ever suffer fails the test; of a whole run, everything that a client notices.

use std::time::Duration;

use crate::common::{NEVER, full, options, say};
use e2e::chaos::{self, ChaosOptions, NodeDriver};
use e2e::takeover::{Database, Takeover};
use rstest::rstest;
use testreports::Input;

const REPORTS: usize = 300;
const SEED: u64 = 20;
/// Rounds that there must have been for the run to say anything.
const ROUNDS: u32 = 2;

/// Length of a whole run.
const LENGTH: Duration = Duration::from_mins(30);
/// Longest time for which requests may be held while nothing is broken; of two rounds less is asked,
/// for they share the machine with builds.
const HOLD: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(2)];

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
        time: full().then_some(LENGTH),
        rounds: (!full()).then_some(ROUNDS),
        seed: SEED,
        ..ChaosOptions::default()
    };
    let outcome = chaos::run(&driver, &options, &say).await.unwrap();
    println!("{outcome}");
    assert!(outcome.round_trips >= ROUNDS, "{outcome}");
    if full() {
        assert!(outcome.is_clean(), "{outcome}");
    }
    let hold = outcome.holds.undisturbed.map(Duration::from_millis);
    let limit = HOLD[usize::from(full())];
    assert!(hold.is_some_and(|hold| hold <= limit), "{outcome}");
    for flaw in NEVER {
        assert_eq!(outcome.flaw(flaw), 0, "{flaw:?}: {outcome}");
    }
}
