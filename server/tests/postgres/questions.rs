//! Questions to the database before an object is changed or deleted.

use crds::control::GateState;
use pgtest::{Postgres, PostgresOptions};
use serde_json::{Value, json};

use crate::harness::{Answer, REPORTS, Server};
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

/// A report with so many passes, as a manager applies it.
fn applied(pass: u64) -> Value {
    json!({
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport",
        "metadata": {"name": "a"},
        "summary": {"pass": pass},
    })
}

async fn delete_with(server: &Server, preconditions: Value) -> Answer {
    let request = server.request("DELETE", &item());
    let options = json!({"preconditions": preconditions});
    request.json(&options).send().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_an_apply_and_a_deletion_of_what_is_in_memory_ask_nothing_first() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let place = Place::at(&postgres);
    let server = start(&place).await;
    open(&server).await;
    server.created("a").await;
    let before = server.store.stats();
    let merge = json!({"summary": {"pass": 2}});
    server.merge_patch(&item(), &merge).await.expect(200);
    let replace = json!([{"op": "replace", "path": "/summary/pass", "value": 3}]);
    server.json_patch(&item(), &replace).await.expect(200);
    let forced = "fieldManager=m&force=true";
    let answer = server.apply(&item(), forced, &applied(4)).await;
    let object = answer.expect(200).json();
    let preconditions = json!({"uid": object["metadata"]["uid"]});
    delete_with(&server, preconditions).await.expect(200);
    let after = server.store.stats();
    assert_eq!(after.questions, before.questions);
    assert_eq!(after.batches, before.batches + 4);
    // What is not there may have been created by another server.
    server.merge_patch(&item(), &merge).await.expect(404);
    server.delete(&item()).await.expect(404);
    assert_eq!(server.store.stats().questions, before.questions + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_a_commit_takes_one_question() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let place = Place::at(&postgres);
    let server = start(&place).await;
    open(&server).await;
    server.created("a").await;
    let before = server.store.stats();
    let dry = format!("{}?dryRun=All", item());
    let merge = json!({"summary": {"pass": 2}});
    let tests = json!([{"op": "test", "path": "/summary/pass", "value": 7}]);
    server.merge_patch(&item(), &json!({})).await.expect(200);
    server.merge_patch(&dry, &merge).await.expect(200);
    server.json_patch(&item(), &tests).await.expect(422);
    let answer = server.apply(&item(), "fieldManager=m", &applied(4)).await;
    answer.expect(409);
    server.delete(&dry).await.expect(200);
    delete_with(&server, json!({"uid": "u"})).await.expect(409);
    let after = server.store.stats();
    assert_eq!(after.questions, before.questions + 6);
    assert_eq!(after.batches, before.batches);
}

/// A server that has not heard yet of what another has committed patches, applies and deletes as if
/// it had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_has_committed_is_patched_applied_and_deleted() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let place = Place::at(&postgres);
    let first = start(&place).await;
    open(&first).await;
    let second = start(&place).await;
    for round in 0..24 {
        let object = first.created("a").await;
        assert_eq!(second.get(&item()).await.expect(200).json(), object);
        let uid = &object["metadata"]["uid"];
        let is_gone = match round % 3 {
            0 => {
                let mut other = object.clone();
                other["summary"]["pass"] = json!(100);
                first.put(&item(), &other).await.expect(200);
                false
            }
            1 => {
                first.delete(&item()).await.expect(200);
                true
            }
            _ => {
                first.delete(&item()).await.expect(200);
                let mut other = crate::harness::report("a");
                other["summary"]["pass"] = json!(100);
                first.post(REPORTS, &other).await.expect(201);
                false
            }
        };
        let changed = |answer: Answer| {
            if is_gone {
                answer.expect(404);
                return;
            }
            let object = answer.expect(200).json();
            assert_eq!(object["summary"]["pass"], 100, "{round}");
            assert_eq!(object["summary"]["fail"], 7, "{round}");
        };
        match round / 3 % 4 {
            0 => {
                let patch = json!({"summary": {"fail": 7}});
                changed(second.merge_patch(&item(), &patch).await);
            }
            1 => {
                let patch = json!([{"op": "replace", "path": "/summary/fail", "value": 7}]);
                changed(second.json_patch(&item(), &patch).await);
            }
            2 => {
                let mut config = applied(1);
                config["summary"] = json!({"fail": 7});
                let query = "fieldManager=m&force=true";
                let answer = second.apply(&item(), query, &config).await;
                if is_gone {
                    answer.expect(201);
                } else {
                    changed(answer);
                }
            }
            _ => {
                let code = [200, 404, 409][round % 3];
                delete_with(&second, json!({"uid": uid})).await.expect(code);
            }
        }
        // Whatever there still is goes.
        first.delete(&item()).await;
        first.get(&item()).await.expect(404);
    }
}

/// The tests of a JSON patch and the preconditions of a deletion are about what another server has
/// committed, also where this one has not heard of it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_are_about_what_another_server_has_committed() {
    let postgres = Postgres::start(PostgresOptions::quick()).await.unwrap();
    let place = Place::at(&postgres);
    let first = start(&place).await;
    open(&first).await;
    let second = start(&place).await;
    for round in 0..16 {
        let before = first.created("a").await;
        assert_eq!(second.get(&item()).await.expect(200).json(), before);
        let mut after = before.clone();
        after["summary"]["pass"] = json!(100);
        let after = first.put(&item(), &after).await.expect(200).json();
        // The condition is true of the old state, or of the new one.
        let (object, holds) = match round % 2 {
            0 => (&before, false),
            _ => (&after, true),
        };
        if round / 2 % 2 == 0 {
            let patch = json!([
                {"op": "test", "path": "/summary/pass", "value": object["summary"]["pass"]},
                {"op": "replace", "path": "/summary/fail", "value": 7},
            ]);
            let code = if holds { 200 } else { 422 };
            second.json_patch(&item(), &patch).await.expect(code);
        } else {
            let version = &object["metadata"]["resourceVersion"];
            let preconditions = json!({"resourceVersion": version});
            let code = if holds { 200 } else { 409 };
            delete_with(&second, preconditions).await.expect(code);
        }
        if !holds {
            let there = first.get(&item()).await.expect(200).json();
            assert_eq!(there, after, "{round}");
        }
        // Whatever there still is goes.
        first.delete(&item()).await;
        first.get(&item()).await.expect(404);
    }
}
