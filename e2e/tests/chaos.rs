//! The operator switches the groups to the server and back, again and again, under load and faults:
//! some minutes with a fixed seed, half an hour with `E2E_FULL`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod common;

use std::time::Duration;

use common::{full, options, say};
use e2e::{
    chaos::{self, ChaosOptions, NodeDriver},
    reports::Input,
    takeover::{Database, Takeover},
};
use rstest::rstest;

const REPORTS: usize = 300;
const SEED: u64 = 20;
/// Rounds that there must have been for the run to say anything.
const ROUNDS: u32 = 2;

fn length() -> Duration {
    Duration::from_mins(if full() { 30 } else { 4 })
}

#[rstest]
#[case::embedded(Database::Embedded)]
#[tokio::test(flavor = "multi_thread")]
async fn groups_go_there_and_back_unnoticed(#[case] database: Database) {
    let mut options = options(Input::detect(), REPORTS);
    options.cluster.apiservers = 2;
    options.database = database;
    let line = Takeover::prepare(options, say).await.unwrap();
    let driver = NodeDriver::start(line).await.unwrap();
    let options = ChaosOptions {
        time: Some(length()),
        seed: SEED,
        ..ChaosOptions::default()
    };
    let outcome = chaos::run(&driver, &options, &say).await.unwrap();
    println!("{outcome}");
    assert!(outcome.round_trips >= ROUNDS, "{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
}
