//! Questions to the database before an update is committed.

use crds::control::GateState;
use pgtest::{Postgres, PostgresOptions};
use serde_json::{Value, json};

use crate::harness::{REPORTS, Server};
use crate::support::replica::Place;

fn item() -> String {
    format!("{REPORTS}/a")
}

/// A server of the API in this place.
async fn start(place: &Place) -> Server {
    let options = place.options();
    Server::start_closed(|o| *o = options).await
}

async fn open(server: &Server) {
    let resource = "policyreports.wgpolicyk8s.io";
    server.set_gate(resource, GateState::Open).await;
}

/// The updates of an object in the version that a client has: one that is written, and those that
/// are not: of nothing, a dry run, and one that is refused.
fn updates(object: &Value) -> [(&'static str, Value, u16); 4] {
    let mut changed = object.clone();
    changed["summary"]["fail"] = json!(7);
    let mut invalid = object.clone();
    invalid["metadata"]["labels"] = json!({"x": "not a value!"});
    [
        ("", changed.clone(), 200),
        ("", object.clone(), 200),
        ("?dryRun=All", changed, 200),
        ("", invalid, 422),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_the_version_in_memory_asks_nothing_first() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let place = Place::at(&postgres);
    let server = start(&place).await;
    open(&server).await;
    let mut object = server.created("a").await;
    let before = server.store.stats();
    for pass in 2..12 {
        object["summary"]["pass"] = json!(pass);
        object = server.put(&item(), &object).await.expect(200).json();
    }
    let after = server.store.stats();
    assert_eq!(after.questions, before.questions);
    assert_eq!(after.batches, before.batches + 10);
    assert_eq!(after.batched_writes, before.batched_writes + 10);
    // An answer without a commit needs one question.
    for (query, body, code) in &updates(&object)[1..] {
        let before = server.store.stats();
        let uri = format!("{}{query}", item());
        server.put(&uri, body).await.expect(*code);
        let after = server.store.stats();
        assert_eq!(after.questions, before.questions + 1, "{query} {code}");
        assert_eq!(after.batches, before.batches, "{query} {code}");
    }
    // So does another version than the one in memory.
    object["metadata"]["resourceVersion"] = json!("1");
    let before = server.store.stats();
    server.put(&item(), &object).await.expect(409);
    let after = server.store.stats();
    assert_eq!(after.questions, before.questions + 1);
    assert_eq!(after.batches, before.batches);
}

/// A server that has not heard yet of what another has committed answers as if it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_has_committed_is_not_overlooked() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let place = Place::at(&postgres);
    let first = start(&place).await;
    open(&first).await;
    let second = start(&place).await;
    for round in 0..24 {
        let object = first.created("a").await;
        assert_eq!(second.get(&item()).await.expect(200).json(), object);
        let updates = updates(&object);
        let (query, body, _) = &updates[round % updates.len()];
        let (code, words) = match round % 3 {
            0 => {
                let mut other = object.clone();
                other["summary"]["pass"] = json!(100);
                first.put(&item(), &other).await.expect(200);
                (409, "the object has been modified")
            }
            1 => {
                first.delete(&item()).await.expect(200);
                (404, "\"a\" not found")
            }
            _ => {
                first.delete(&item()).await.expect(200);
                first.created("a").await;
                (409, "Precondition failed: UID in precondition")
            }
        };
        let there = first.get(&item()).await.json();
        let answer = second.put(&format!("{}{query}", item()), body).await;
        let answer = answer.expect(code);
        let message = answer.message();
        assert!(message.contains(words), "{round}: {message}");
        assert_eq!(first.get(&item()).await.json(), there, "{round}");
        if code == 409 {
            first.delete(&item()).await.expect(200);
        }
    }
}
