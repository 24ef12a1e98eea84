//! A cluster with clients at work, and the groups that go there and back on it.

use std::time::Duration;

use crds::control::{GateState, StoredResource, stored_resource_name};
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::MigrationPhase;
use e2e::chaos::{ChaosOptions, Direction, Driver as _, Harness, Moment, NodeDriver, Outcome};
use e2e::takeover::{Database, NAME, OPERATOR_NAMESPACE, Takeover};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_deleted;
use serde_json::json;
use testcluster::Signal;
use testreports::Input;

use crate::common::{full, options, say};
use crate::kill_matrix::point::{Deed, Point};

const LIMIT: Duration = Duration::from_mins(5);
const REPORTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);
const OPERATOR: &str = "deployment/reports-server-operator";
/// The `ConfigMap` in which the operator writes down which points have fired.
const NOTES: &str = "reports-server-operator-notes";

/// The whole of one database.
pub struct Matrix {
    driver: NodeDriver,
    harness: Harness,
}

impl Matrix {
    pub async fn start(database: Database) -> Self {
        let mut options = options(Input::detect(), REPORTS);
        options.cluster.apiservers = if full() { 2 } else { 1 };
        options.database = database;
        let line = Takeover::prepare(options, say).await.unwrap();
        let driver = NodeDriver::start(line).await.unwrap();
        // One that dies alone, in the step that it is told: of two, the other might pass it by before.
        driver.line().scale_operator(1).await.unwrap();
        let options = ChaosOptions::default();
        let harness = Harness::start(driver.cluster(), &options).await.unwrap();
        Self { driver, harness }
    }

    fn line(&self) -> &Takeover {
        self.driver.line()
    }

    /// The groups go one way, and somebody dies on it.
    pub async fn go(&mut self, round: u32, direction: Direction, point: Point, prune: bool) {
        println!("=== round {round}, {direction:?}: {point:?}");
        self.arm(point.fault()).await;
        self.begin(round, direction, point.servers_die());
        tokio::join!(self.way(direction, prune), self.strike(point));
        self.check().await;
        if let Some(fault) = point.fault() {
            let fired = self.noted().await;
            assert!(has_fired(Some(&fired), fault), "{fault}: {fired:?}");
        }
    }

    /// The groups go one way, the operator dies after a step, and a user does something before it is
    /// there again.
    pub async fn meddle(
        &mut self,
        round: u32,
        direction: Direction,
        step: &str,
        deed: Deed,
        prune: bool,
    ) {
        println!("=== round {round}, {direction:?}: {deed:?} at {step}");
        self.arm(Some(step)).await;
        self.begin(round, direction, false);
        let way = self.way(direction, prune);
        let meddled = async {
            let fired = await_condition(self.notes(), NOTES, |notes: Option<&ConfigMap>| {
                has_fired(notes, step)
            });
            let fired = tokio::time::timeout(LIMIT, fired).await;
            fired.expect("the operator dies").unwrap();
        };
        tokio::select! {
            biased;
            () = meddled => {}
            () = way => panic!("{step} is passed by"),
        }
        match deed {
            Deed::Suspend => self.suspend().await,
            Deed::Delete => self.delete().await,
            Deed::Flip => {
                let other = match direction {
                    Direction::Back => Direction::Forward,
                    _ => Direction::Back,
                };
                self.way(other, prune).await;
            }
        }
        println!("  {deed:?} is over");
        self.way(direction, prune).await;
        self.check().await;
    }

    /// Suspends the `ReportsServer`, looks whether clients are served when it rests, and lets it go
    /// on.
    async fn suspend(&mut self) {
        let suspend = |suspend: bool| json!({"suspend": suspend.then_some(true)});
        self.line().patch_spec(suspend(true)).await.unwrap();
        let rests = self
            .line()
            .follow("a suspended ReportsServer", LIMIT, |server| {
                let status = server.status.as_ref();
                let ready = status
                    .filter(|status| status.observed_generation == server.metadata.generation)
                    .and_then(|status| status.conditions.iter().find(|c| c.type_ == "Ready"));
                ready.is_some_and(|c| {
                    c.reason == "Suspended" && c.message.contains("not carried out")
                })
            });
        rests.await.unwrap();
        self.harness.check().await.unwrap();
        self.line().patch_spec(suspend(false)).await.unwrap();
    }

    /// Deletes the `ReportsServer`, looks at what it leaves, and applies it again.
    async fn delete(&mut self) {
        let servers: Api<ReportsServer> = Api::all(self.line().client.clone());
        let uid = servers.get(NAME).await.unwrap().metadata.uid.unwrap();
        servers
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
        let gone = await_condition(servers, NAME, is_deleted(&uid));
        let gone = tokio::time::timeout(LIMIT, gone).await;
        gone.expect("the ReportsServer goes").unwrap();
        self.harness.check().await.unwrap();
        self.line().apply_as("CRD").await.unwrap();
    }

    fn begin(&self, round: u32, direction: Direction, disturbed: bool) {
        self.harness.tally.go(|moment| {
            *moment = Moment {
                round,
                direction,
                disturbed,
                restarted: None,
                disputed: false,
            };
        });
    }

    async fn way(&self, direction: Direction, prune: bool) {
        match direction {
            Direction::Back => self.driver.back().await.unwrap(),
            _ => self.driver.forward(prune).await.unwrap(),
        }
    }

    async fn check(&mut self) {
        self.harness.going(Direction::Rest);
        self.harness.check().await.unwrap();
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
            // Few reports are mirrored in a moment; the mirrors go on while they are verified.
            Point::ServersInMirror => self.phase(mirrors).await,
            Point::ServersInWriteback => self.phase(|p| p == MigrationPhase::RollingBack).await,
            Point::ServersInHold(_) => {
                tokio::time::timeout(LIMIT, self.held()).await.unwrap();
            }
            Point::ServersAfterSwitch => self.phase(MigrationPhase::is_settled).await,
        }
        let cluster = &self.line().cluster;
        let killed = cluster.signal_program("reports-server", Signal::Kill).await;
        assert!(killed.unwrap(), "no reports-server to kill");
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

    /// Reads which faults have fired. A request on a connection that the kube-apiserver closes at that
    /// moment has no answer, and is made again.
    async fn noted(&self) -> ConfigMap {
        let maps = self.notes();
        let found = match maps.get(NOTES).await {
            Err(kube::Error::Service(_)) => maps.get(NOTES).await,
            found => found,
        };
        found.unwrap()
    }

    fn notes(&self) -> Api<ConfigMap> {
        Api::namespaced(self.line().client.clone(), OPERATOR_NAMESPACE)
    }

    pub async fn finish(self) -> Outcome {
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

fn mirrors(phase: MigrationPhase) -> bool {
    matches!(phase, MigrationPhase::Mirroring | MigrationPhase::Verifying)
}

/// Key of the operator's notes that tells of a point that has fired.
fn fired_key(fault: &str) -> String {
    format!("fault.{}", fault.replace(':', "_"))
}

/// Returns whether the operator has died at a point.
fn has_fired(notes: Option<&ConfigMap>, fault: &str) -> bool {
    let data = notes.and_then(|notes| notes.data.as_ref());
    data.is_some_and(|data| data.contains_key(&fired_key(fault)))
}

/// Returns whether it was done, or there was nothing to do it to.
fn is_or_missing(done: &kube::Result<()>) -> bool {
    match done {
        Err(kube::Error::Api(status)) => status.code == 404,
        done => done.is_ok(),
    }
}
