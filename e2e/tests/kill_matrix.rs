//! The operator dies at each step of both directions, the servers at the worst moments: each
//! direction comes to its end all the same, and nothing is lost. Two rounds drawn anew in each run,
//! all of them on both databases with `E2E_FULL`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod common;

use std::time::Duration;

use common::{NEVER, full, options, say};
use crds::{
    control::{GateState, StoredResource, stored_resource_name},
    v1alpha1::status::MigrationPhase,
};
use e2e::{
    chaos::{ChaosOptions, Direction, Driver as _, Harness, Moment, NodeDriver, Outcome},
    reports::Input,
    takeover::{Database, OPERATOR_NAMESPACE, Takeover},
};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rand::seq::SliceRandom as _;
use rstest::rstest;
use serde_json::json;

const LIMIT: Duration = Duration::from_mins(5);
const REPORTS: usize = 200;
/// Rounds of a run that is not full.
const DRAWN: usize = 2;
const PAUSE: Duration = Duration::from_millis(50);
const OPERATOR: &str = "deployment/reports-server-operator";
/// Where the operator writes down which points have fired.
const NOTES: &str = "reports-server-operator-notes";

/// Who dies when.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// The operator, right after this step of its migration, or right before it.
    Operator(&'static str),
    /// The servers while they take the copies.
    ServersInMirror,
    /// The servers while the operator writes back what they have.
    ServersInWriteback,
    /// The servers while they hold requests, and the operator after this step, which begins the
    /// hold: that leaves time for it.
    ServersInHold(&'static str),
    /// The servers as soon as they serve a group.
    ServersAfterSwitch,
}

const FORWARD: [Point; 13] = [
    Point::Operator("before:Mirror"),
    Point::Operator("Mirror"),
    Point::Operator("Verify"),
    Point::Operator("SwitchHold"),
    Point::Operator("SwitchPatch"),
    Point::Operator("SwitchConfirm"),
    Point::Operator("SwitchDrain"),
    Point::Operator("SwitchOpen"),
    Point::Operator("SwitchSettle"),
    Point::Operator("Prune"),
    Point::ServersInMirror,
    Point::ServersInHold("SwitchHold"),
    Point::ServersAfterSwitch,
];
const BACK: [Point; 9] = [
    Point::Operator("before:BackOpenDoor"),
    Point::Operator("BackOpenDoor"),
    Point::Operator("BackWrite"),
    Point::Operator("BackBurn"),
    Point::Operator("BackHold"),
    Point::Operator("BackRelease"),
    Point::Operator("BackClose"),
    Point::ServersInWriteback,
    Point::ServersInHold("BackHold"),
];

impl Point {
    /// The operator's fault point.
    fn fault(self) -> Option<&'static str> {
        match self {
            Self::Operator(step) | Self::ServersInHold(step) => Some(step),
            _ => None,
        }
    }

    /// Requests that were at a server when it died fail; a dead operator fails none.
    fn servers_die(self) -> bool {
        !matches!(self, Self::Operator(_))
    }
}

/// The whole of one database.
struct Matrix {
    driver: NodeDriver,
    harness: Harness,
}

impl Matrix {
    async fn start(database: Database) -> Self {
        let mut options = options(Input::detect(), REPORTS);
        options.cluster.apiservers = if full() { 2 } else { 1 };
        options.database = database;
        let line = Takeover::prepare(options, say).await.unwrap();
        let driver = NodeDriver::start(line).await.unwrap();
        let options = ChaosOptions::default();
        let harness = Harness::start(driver.cluster(), &options).await.unwrap();
        Self { driver, harness }
    }

    fn line(&self) -> &Takeover {
        self.driver.line()
    }

    /// The groups go one way, and somebody dies on it.
    async fn go(&mut self, round: u32, direction: Direction, point: Point, prune: bool) {
        println!("=== round {round}, {direction:?}: {point:?}");
        self.arm(point.fault()).await;
        self.harness.tally.go(|moment| {
            *moment = Moment {
                round,
                direction,
                disturbed: point.servers_die(),
                restarted: None,
            };
        });
        let way = async {
            match direction {
                Direction::Back => self.driver.back().await.unwrap(),
                _ => self.driver.forward(prune).await.unwrap(),
            }
        };
        tokio::join!(way, self.strike(point));
        self.harness.going(Direction::Rest);
        self.harness.check().await.unwrap();
        self.fired(point).await;
    }

    /// Starts the operator anew, which dies at the point, also where an earlier one did.
    async fn arm(&self, fault: Option<&str>) {
        if let Some(fault) = fault {
            let fired = json!({"data": {fired_key(fault): null}});
            let (notes, params, patch) =
                (self.notes(), PatchParams::default(), Patch::Merge(&fired));
            let forgotten = notes.patch(NOTES, &params, &patch).await.map(drop);
            assert!(is_or_missing(&forgotten), "{forgotten:?}");
        }
        let variable = format!(
            "REPORTS_SERVER_OPERATOR_FAULT={}",
            fault.unwrap_or_default()
        );
        for args in [
            &["set", "env", OPERATOR, &variable][..],
            &["rollout", "status", OPERATOR, "--timeout=120s"],
        ] {
            let args = args.iter().chain(&["-n", OPERATOR_NAMESPACE]);
            self.line().cluster.kubectl(args).await.unwrap();
        }
    }

    async fn strike(&self, point: Point) {
        match point {
            Point::Operator(_) => return,
            Point::ServersInMirror => self.phase(|p| p == MigrationPhase::Mirroring).await,
            Point::ServersInWriteback => self.phase(|p| p == MigrationPhase::RollingBack).await,
            Point::ServersInHold(_) => {
                tokio::time::timeout(LIMIT, self.held()).await.unwrap();
            }
            Point::ServersAfterSwitch => self.phase(MigrationPhase::is_settled).await,
        }
        let killed = self.line().cluster.command("pkill");
        let killed = { killed }
            .args(["-9", "-x", "reports-server"])
            .status()
            .await;
        assert!(killed.unwrap().success(), "no reports-server to kill");
    }

    /// Waits until a group is in such a phase.
    async fn phase(&self, wanted: fn(MigrationPhase) -> bool) {
        let reached = self.line().follow("the moment to strike", LIMIT, |server| {
            let status = server.status.as_ref();
            let migration = status.and_then(|status| status.migration.as_ref());
            migration.is_some_and(|migration| migration.groups.iter().any(|g| wanted(g.phase)))
        });
        reached.await.unwrap();
    }

    /// Waits until a group's gate is held.
    async fn held(&self) {
        let name = stored_resource_name("policyreports", "wgpolicyk8s.io");
        let path = format!("/apis/control.reports-server.io/v1alpha1/storedresources/{name}");
        loop {
            let request = Request::get(&path).body(Vec::new()).unwrap();
            let stored = self.line().client.request::<StoredResource>(request).await;
            if stored.is_ok_and(|stored| stored.status.gate == GateState::Held) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn notes(&self) -> Api<ConfigMap> {
        Api::namespaced(self.line().client.clone(), OPERATOR_NAMESPACE)
    }

    /// The operator has died at its point.
    async fn fired(&self, point: Point) {
        let Some(fault) = point.fault() else { return };
        let notes = self.notes().get(NOTES).await.unwrap();
        let (notes, key) = (notes.data.unwrap_or_default(), fired_key(fault));
        assert!(notes.contains_key(&key), "no {key} in {notes:?}");
    }

    async fn finish(self) -> Outcome {
        let (tally, ledger) = (self.harness.tally.clone(), self.harness.ledger.clone());
        self.harness.finish().await.unwrap();
        let mut outcome = Outcome {
            writes: ledger.acknowledged(),
            ..Outcome::default()
        };
        outcome.count(&tally);
        outcome
    }
}

/// Key of the operator's notes that tells of a point that has fired.
fn fired_key(fault: &str) -> String {
    format!("fault.{}", fault.replace(':', "_"))
}

/// Whether it was done, or there was nothing to do it to.
fn is_or_missing(done: &kube::Result<()>) -> bool {
    match done {
        Err(kube::Error::Api(status)) => status.code == 404,
        done => done.is_ok(),
    }
}

/// A point of each direction for each round; the shorter list begins anew.
fn rounds() -> Vec<(Point, Point)> {
    let (mut forward, mut back) = (FORWARD.to_vec(), BACK.to_vec());
    if !full() {
        forward.shuffle(&mut rand::rng());
        back.shuffle(&mut rand::rng());
        forward.truncate(DRAWN);
    }
    forward.into_iter().zip(back.into_iter().cycle()).collect()
}

#[rstest]
#[case::embedded(Database::Embedded)]
#[case::managed(Database::Managed)]
#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_nothing_is_lost(#[case] database: Database) {
    if !full() && !matches!(database, Database::Embedded) {
        println!("only with E2E_FULL=1");
        return;
    }
    let rounds = rounds();
    println!("points: {rounds:?}");
    let mut matrix = Matrix::start(database).await;
    for (round, (forward, back)) in (1..).zip(rounds) {
        // Pruned and kept by turns; what is not pruned cannot be interrupted.
        let prune = matches!(forward, Point::Operator("Prune")) || round % 2 == 0;
        matrix.go(round, Direction::Forward, forward, prune).await;
        matrix.go(round, Direction::Back, back, prune).await;
    }
    let outcome = matrix.finish().await;
    println!("{outcome}");
    assert!(outcome.writes > 200, "{outcome}");
    if full() {
        assert!(outcome.is_clean(), "{outcome}");
    }
    for flaw in NEVER {
        assert_eq!(outcome.flaw(flaw), 0, "{flaw:?}: {outcome}");
    }
}
