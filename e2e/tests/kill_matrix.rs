//! The operator dies after each step, the server at the worst moments: the migration ends all the
//! same, with nothing lost. Three points drawn anew in each run, all of them with `E2E_FULL`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod common;

use std::time::Duration;

use common::{full, options, say};
use crds::{
    control::{GateState, StoredResource, stored_resource_name},
    v1alpha1::status::MigrationPhase,
};
use e2e::{
    reports::Input,
    takeover::{OPERATOR_NAMESPACE, Takeover, all_groups},
};
use http::Request;
use rand::seq::SliceRandom as _;

const LIMIT: Duration = Duration::from_mins(5);
const REPORTS: usize = 200;
/// Points drawn in a run that is not full.
const DRAWN: usize = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// Who dies when.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// The operator, right after this step of its migration, or right before it.
    Operator(&'static str),
    /// The server while it takes the copies.
    ServerInMirror,
    /// The server while it holds requests.
    ServerInHold,
    /// The server as soon as it serves a group.
    ServerAfterSwitch,
}

const POINTS: [Point; 13] = [
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
    Point::ServerInMirror,
    Point::ServerInHold,
    Point::ServerAfterSwitch,
];

impl Point {
    /// The operator's fault point. A server dies in the hold of an operator that dies there, too:
    /// that leaves time for it.
    fn fault(self) -> Option<&'static str> {
        match self {
            Self::Operator(step) => Some(step),
            Self::ServerInHold => Some("SwitchHold"),
            Self::ServerInMirror | Self::ServerAfterSwitch => None,
        }
    }

    /// Requests that were at the server when it died fail; a dead operator fails none.
    fn server_dies(self) -> bool {
        !matches!(self, Self::Operator(_))
    }
}

async fn kill_server(line: &Takeover) {
    let status = line
        .cluster
        .command("pkill")
        .args(["-9", "-x", "reports-server"])
        .status()
        .await
        .unwrap();
    assert!(status.success(), "no reports-server to kill");
}

/// Waits until a group's gate is held.
async fn held(line: &Takeover) {
    let name = stored_resource_name("policyreports", "wgpolicyk8s.io");
    let path = format!("/apis/control.reports-server.io/v1alpha1/storedresources/{name}");
    loop {
        let request = Request::get(&path).body(Vec::new()).unwrap();
        let stored = line.client.request::<StoredResource>(request).await;
        match stored.map(|stored| stored.status.gate) {
            Ok(GateState::Held) => return,
            Ok(GateState::Open) => panic!("the gate opened before it was seen held"),
            Ok(GateState::Closed) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn strike(line: &Takeover, point: Point) {
    let phase = |wanted: fn(MigrationPhase) -> bool| async move {
        line.follow("the moment to strike", LIMIT, |server| {
            let groups = server
                .status
                .as_ref()
                .and_then(|status| status.migration.as_ref());
            groups.is_some_and(|migration| migration.groups.iter().any(|g| wanted(g.phase)))
        })
        .await
        .unwrap();
    };
    match point {
        Point::Operator(_) => return,
        Point::ServerInMirror => phase(|p| p == MigrationPhase::Mirroring).await,
        Point::ServerInHold => tokio::time::timeout(LIMIT, held(line)).await.unwrap(),
        Point::ServerAfterSwitch => phase(MigrationPhase::is_settled).await,
    }
    kill_server(line).await;
}

async fn run(point: Point) {
    println!("=== {point:?}");
    let line = Takeover::prepare(options(Input::detect(), REPORTS), say)
        .await
        .unwrap();
    let witness = line.witness().await.unwrap();
    line.install_operator().await.unwrap();
    if let Some(fault) = point.fault() {
        let variable = format!("REPORTS_SERVER_OPERATOR_FAULT={fault}");
        let deployment = "deployment/reports-server-operator";
        let namespace = ["-n", OPERATOR_NAMESPACE];
        line.cluster
            .kubectl(
                ["set", "env", deployment, &variable]
                    .iter()
                    .chain(&namespace),
            )
            .await
            .unwrap();
        line.cluster
            .kubectl(
                ["rollout", "status", deployment, "--timeout=120s"]
                    .iter()
                    .chain(&namespace),
            )
            .await
            .unwrap();
    }
    line.apply().await.unwrap();
    strike(&line, point).await;
    line.follow_to_ready(LIMIT).await.unwrap();
    line.prune(LIMIT).await.unwrap();
    let account = witness.finish().await.unwrap();
    println!("{account:#?}");
    if point.server_dies() {
        assert!(account.nothing_lost(), "{point:?}: {account:#?}");
    } else {
        assert!(account.is_clean(), "{point:?}: {account:#?}");
        let restarts = line
            .cluster
            .kubectl(["get", "pods", "-n", OPERATOR_NAMESPACE, "-o", RESTARTS])
            .await
            .unwrap();
        assert_eq!(
            restarts.trim(),
            "1",
            "{point:?}: the operator did not die, or died twice"
        );
    }
    assert_eq!(
        line.measure().await.unwrap().report_objects_in_etcd,
        0,
        "{point:?}"
    );
    line.follow("a settled end", LIMIT, |server| {
        all_groups(server, |phase| phase == MigrationPhase::Completed)
    })
    .await
    .unwrap();
}

const RESTARTS: &str = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_nothing_is_lost() {
    let mut points = POINTS.to_vec();
    if !full() {
        points.shuffle(&mut rand::rng());
        points.truncate(DRAWN);
    }
    println!("points: {points:?}");
    for point in points {
        run(point).await;
    }
}
