//! Groups go to the server, back, and there again, on a control plane without nodes: watchers of a
//! busy group and of an idle one, among them client-go's `RetryWatchers`, see every event and no 410.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

use e2e::{
    chaos::{ChaosOptions, Direction, Driver as _, Harness, Outcome, ProcessDriver},
    processes::Processes,
    reports::ReportKind,
    takeover::GROUPS,
};

const REPORTS: usize = 200;
/// Objects that have nothing to do with reports, written while the server serves.
const UNRELATED: u64 = 2000;

#[tokio::test(flavor = "multi_thread")]
async fn no_watcher_notices_the_way_there_and_back() {
    let processes = Processes::start(&GROUPS, REPORTS, false).await.unwrap();
    let driver = ProcessDriver::start(processes).await.unwrap();
    let options = ChaosOptions {
        busy: vec![ReportKind::PolicyReport, ReportKind::ClusterPolicyReport],
        idle: vec![
            ReportKind::EphemeralReport,
            ReportKind::ClusterEphemeralReport,
        ],
        ..ChaosOptions::default()
    };
    let mut harness = Harness::start(driver.cluster(), &options).await.unwrap();
    let tally = harness.tally.clone();
    for (round, direction) in (1..).zip([Direction::Forward, Direction::Back, Direction::Forward]) {
        println!("{:.1} s: {direction:?}", tally.seconds());
        tally.go(|moment| moment.round = round);
        harness.going(direction);
        match direction {
            Direction::Back => driver.back().await.unwrap(),
            _ => driver.forward(true).await.unwrap(),
        }
        harness.going(Direction::Rest);
        if round == 1 {
            harness.unrelated(UNRELATED).await;
        }
        harness.check().await.unwrap();
    }
    let ledger = harness.ledger.clone();
    harness.finish().await.unwrap();
    let mut outcome = Outcome {
        writes: ledger.acknowledged(),
        ..Outcome::default()
    };
    outcome.count(&tally);
    println!("{outcome}");
    assert!(outcome.writes > 200, "{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
}
