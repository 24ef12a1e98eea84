//! Writes stay in their namespace.

use comparison::serving::request::Outgoing;
use serde_json::json;

use crate::api_support::report;
use crate::isolation::ground::{
    Ground, HIDDEN, MINE, OURS, THEIRS, Way, in_namespace, other, patch,
};
use crate::isolation::reading;

pub async fn all(ground: &Ground, way: &Way) {
    bodies_lead_nowhere_else(ground, way).await;
    a_name_that_is_taken_there_is_free_here(ground, way).await;
    deleting_all_deletes_ours(ground, way).await;
    theirs_are_as_they_were(ground).await;
}

/// A body that names another namespace is refused.
async fn bodies_lead_nowhere_else(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let name = ground.hidden[0].as_str();
    let one = format!("{ours}/{}", MINE[0]);
    let there = json!({"metadata": {"namespace": THEIRS}});
    let moved = json!([{"op": "replace", "path": "/metadata/namespace", "value": THEIRS}]);
    for request in [
        Outgoing::new("POST", &ours).json(&other(name, THEIRS)),
        Outgoing::new("PUT", &one).json(&other(MINE[0], THEIRS)),
        patch(&one, "application/merge-patch+json", &there),
        patch(&one, "application/json-patch+json", &moved),
        patch(
            &format!("{one}?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            &other(MINE[0], THEIRS),
        ),
    ] {
        let answer = ground.ask(way, &request).await;
        assert_eq!(answer.code, 400, "{request:?}: {}", answer.text());
    }
}

/// A name that is missing here is missing, whatever there is elsewhere.
async fn a_name_that_is_taken_there_is_free_here(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    let name = ground.hidden[0].as_str();
    let one = format!("{ours}/{name}");
    for request in [
        Outgoing::get(&one),
        Outgoing::new("DELETE", &one),
        patch(&one, "application/merge-patch+json", &json!({})),
    ] {
        assert_eq!(ground.ask(way, &request).await.code, 404, "{request:?}");
    }
    let created = Outgoing::new("POST", &ours).json(&other(name, OURS));
    let created = ground.ask(way, &created).await;
    assert_eq!(created.code, 201, "{}", created.text());
    let deleted = ground.ask(way, &Outgoing::new("DELETE", &one)).await;
    assert_eq!(deleted.code, 200);
}

/// A collection is that of the namespace, with any selector.
async fn deleting_all_deletes_ours(ground: &Ground, way: &Way) {
    let ours = in_namespace(OURS);
    for (query, expected) in [
        (format!("?labelSelector={HIDDEN}"), 0),
        (format!("?fieldSelector=metadata.namespace%3D{THEIRS}"), 0),
        (String::new(), MINE.len()),
    ] {
        let request = Outgoing::new("DELETE", format!("{ours}{query}"));
        let answer = ground.ask(way, &request).await;
        assert_eq!(answer.code, 200, "{}", answer.text());
        let deleted = reading::names(&answer.json().unwrap());
        assert_eq!(deleted.len(), expected, "{deleted:?}");
    }
    for name in MINE {
        ground.create(&ours, &report(name)).await;
    }
}

async fn theirs_are_as_they_were(ground: &Ground) {
    let request = Outgoing::get(in_namespace(THEIRS));
    let list = ground.admin(&request).await.json().unwrap();
    let items = list["items"].as_array().unwrap();
    let uids: Vec<_> = items
        .iter()
        .map(|item| item["metadata"]["uid"].as_str().unwrap())
        .collect();
    assert_eq!(uids, ground.uids[..uids.len()]);
    assert_eq!(uids.len(), ground.hidden.len());
}
