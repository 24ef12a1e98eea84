//! Groups go to the server, back, and there again, on a control plane without nodes: watchers of a
//! busy group and of an idle one, among them client-go's `RetryWatchers`, see every event and no 410.
//! And the harness finds nothing where nothing is switched, whatever happens to the kube-apiservers.

use std::time::Duration;

use async_trait::async_trait;
use e2e::chaos::{
    self, ChaosError, ChaosOptions, Direction, Driver, Fault, Harness, Note, Outcome,
    ProcessDriver, Window, at_cluster,
};
use e2e::processes::Processes;
use e2e::takeover::GROUPS;
use testcluster::Cluster;
use testreports::ReportKind;

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
    // Those of the CRDs end when the group goes to the server; on the way back they go on.
    assert_eq!(tally.noted(Note::WatchesEnded), 0, "{outcome}");
}

/// Leaves the groups with their CRDs.
struct Still(Processes);

#[async_trait]
impl Driver for Still {
    fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    async fn forward(&self, _prune: bool) -> Result<(), ChaosError> {
        Ok(())
    }

    async fn back(&self) -> Result<(), ChaosError> {
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::ApiServerFrozen(0),
            Fault::ApiServerRestarted(1),
            Fault::CrdTouched,
        ]
    }

    fn usual(&self) -> Duration {
        Duration::from_secs(3)
    }

    async fn strike(&self, fault: Fault, length: Duration) -> Result<Option<Window>, ChaosError> {
        at_cluster(self.cluster(), fault, length).await?;
        Ok(None)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_switched_nothing_is_found() {
    let driver = Still(Processes::start(&GROUPS, REPORTS, false).await.unwrap());
    let options = ChaosOptions {
        rounds: Some(4),
        seed: 3,
        ..ChaosOptions::default()
    };
    let say = |text: &str| println!("{text}");
    let outcome = chaos::run(&driver, &options, &say).await.unwrap();
    println!("{outcome}");
    assert!(!outcome.faults.is_empty(), "{outcome}");
    assert!(outcome.writes > 200, "{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
}
