//! The control API at several servers on one database.

use crds::control::{Database, GateState, StoredResource};
use pgtest::{Postgres, PostgresOptions};

use crate::harness::Server;
use crate::support::replica::Place;

const RESOURCE: &str = "policyreports.wgpolicyk8s.io";
const URI: &str =
    "/apis/control.reports-server.io/v1alpha1/storedresources/policyreports.wgpolicyk8s.io";

const DATABASE: &str = "/apis/control.reports-server.io/v1alpha1/databases/database";

/// The operator orders at one server and looks at another: what it decides by has to be there.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_ordered_at_one_server_is_read_at_every_other() {
    let postgres = Postgres::start(PostgresOptions::default()).await.unwrap();
    let places = [Place::at(&postgres), Place::at(&postgres)];
    let servers = [
        Server::start_closed(|o| *o = places[0].options()).await,
        Server::start_closed(|o| *o = places[1].options()).await,
    ];
    let mut opened = false;
    for round in 0..60 {
        let (here, there) = (&servers[round % 2], &servers[(round + 1) % 2]);
        let state = [GateState::Held, GateState::Open][round % 2];
        here.set_gate(RESOURCE, state).await;
        opened |= state == GateState::Open;
        let read = there.get(URI).await.expect(200).json();
        let status = serde_json::from_value::<StoredResource>(read)
            .unwrap()
            .status;
        assert_eq!(
            (status.gate, status.opened),
            (state, opened),
            "round {round}"
        );
    }
}

/// The operator notes the history that a server tells, whichever it asks.
#[tokio::test(flavor = "multi_thread")]
async fn every_server_tells_the_history_of_the_database() {
    let postgres = Postgres::start(PostgresOptions::default()).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..2 {
        let place = Place::at(&postgres);
        let server = Server::start_closed(|o| *o = place.options()).await;
        let read = server.get(DATABASE).await.expect(200).json();
        let status = serde_json::from_value::<Database>(read).unwrap().status;
        assert_eq!(status.elsewhere, None);
        told.push(status.history.unwrap());
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].len(), 36, "{}", told[0]);
}
