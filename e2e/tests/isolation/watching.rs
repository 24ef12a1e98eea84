//! Watches.

use std::time::Duration;

use e2e::serving::request::{Lines, Outgoing, open};
use serde_json::{Value, json};

use crate::api_support::{Setup, report};
use crate::ground::{Ground, HIDDEN, MINE, OURS, THEIRS, Way, in_namespace, other};

/// Longest wait for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Forms of a watch, and whether its events are lines of JSON.
const FORMS: [(&str, bool); 4] = [
    ("application/json", true),
    ("application/json;as=Table;v=v1;g=meta.k8s.io", true),
    (
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        true,
    ),
    (
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io;\
         stream=watch",
        false,
    ),
];

const BEGINNINGS: [&str; 3] = [
    "watch=1&allowWatchBookmarks=true",
    "watch=1&allowWatchBookmarks=true&resourceVersion=0",
    "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
];

struct Watch {
    request: Outgoing,
    lines: Lines,
    json: bool,
    /// What ends it: the name of the last report.
    last: String,
}

/// While reports of both namespaces come, change and go, watches of one tell of that one alone;
/// bookmarks hold a version and nothing else.
pub async fn watches_tell_what_is_ours(setup: &Setup, ground: &Ground, way: &Way) {
    let last = "mine-last";
    let mut watches = Vec::new();
    for beginning in BEGINNINGS {
        for (accept, json) in FORMS {
            let uri = format!("{}?{beginning}", in_namespace(OURS));
            let request = ground.request(&Outgoing::get(uri).header("accept", accept));
            let (code, _, lines) = open(&way.client, &request).await.unwrap();
            assert_eq!(code, 200, "{request:?}");
            watches.push(Watch {
                request,
                lines,
                json,
                last: last.to_owned(),
            });
        }
    }
    let uid = others_come_and_go(ground).await;
    ground.create(&in_namespace(OURS), &report(last)).await;
    for watch in watches {
        watch.follow(ground, &uid).await;
    }
    let mine = format!("{}/{last}", in_namespace(OURS));
    let gone = ground.ask(way, &Outgoing::new("DELETE", mine)).await;
    assert_eq!(gone.code, 200);
    a_bookmark_is_a_version(setup, ground, way).await;
}

/// A report of the other namespace is made, changed, and removed; gives its uid.
async fn others_come_and_go(ground: &Ground) -> String {
    let theirs = in_namespace(THEIRS);
    let name = format!("{HIDDEN}-passing");
    let uid = ground.create(&theirs, &other(&name, THEIRS)).await;
    let patch = Outgoing {
        headers: vec![(
            "content-type".to_owned(),
            "application/merge-patch+json".to_owned(),
        )],
        body: json!({"summary": {"pass": 9}}).to_string().into_bytes(),
        ..Outgoing::new("PATCH", format!("{theirs}/{name}"))
    };
    assert_eq!(ground.admin(&patch).await.code, 200);
    let delete = Outgoing::new("DELETE", format!("{theirs}/{name}"));
    assert_eq!(ground.admin(&delete).await.code, 200);
    uid
}

impl Watch {
    /// Reads until the last report has come.
    async fn follow(mut self, ground: &Ground, uid: &str) {
        loop {
            let event = if self.json {
                self.lines.line_within(PATIENCE).await
            } else {
                self.lines.frame_within(PATIENCE).await
            };
            let event = event.expect("an event in time").expect("the watch goes on");
            let text = String::from_utf8_lossy(&event).into_owned();
            ground.clean(&self.request, &text);
            assert!(!text.contains(uid), "{text}");
            if self.json {
                of_ours(&serde_json::from_str(&text).unwrap());
            }
            if text.contains(&self.last) {
                return;
            }
        }
    }
}

/// Objects, and the rows of tables, are of our namespace.
fn of_ours(event: &Value) {
    let object = &event["object"];
    let rows = object["rows"].as_array().into_iter().flatten();
    let objects = rows.map(|row| &row["object"]).chain([object]);
    for object in objects {
        let namespace = &object["metadata"]["namespace"];
        assert!(namespace.is_null() || *namespace == OURS, "{event}");
    }
}

/// The bookmark at the end of the initial events of a watch that nothing else comes to: while the
/// others write, it is all that is told.
async fn a_bookmark_is_a_version(setup: &Setup, ground: &Ground, way: &Way) {
    let uri = format!(
        "{}?{}&fieldSelector=metadata.name%3D{}",
        in_namespace(OURS),
        BEGINNINGS[2],
        MINE[0]
    );
    let request = ground.request(&Outgoing::get(uri));
    let (code, _, mut lines) = open(&way.client, &request).await.unwrap();
    assert_eq!(code, 200);
    let mut next = async || -> Value {
        let line = lines.line_within(PATIENCE).await.expect("an event in time");
        serde_json::from_slice(&line.expect("the watch goes on")).unwrap()
    };
    let added = next().await;
    assert_eq!(
        (&added["type"], &added["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!(MINE[0]))
    );
    let bookmark = next().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    let metadata = bookmark["object"]["metadata"].as_object().unwrap();
    let mut fields: Vec<_> = metadata.keys().map(String::as_str).collect();
    fields.retain(|field| *field != "creationTimestamp");
    assert_eq!(fields, ["annotations", "resourceVersion"], "{bookmark}");
    let given = bookmark["object"].as_object().unwrap().keys();
    let rest: Vec<_> = given.filter(|field| *field != "metadata").collect();
    assert_eq!(rest, ["apiVersion", "kind"], "{bookmark}");
    others_come_and_go(ground).await;
    // What comes next is ours, whatever has happened elsewhere.
    let patch = json!({"metadata": {"labels": {"turn": way.name.split(' ').next()}}});
    let uri = format!("{}/{}", in_namespace(OURS), MINE[0]);
    let headers = [("content-type", "application/merge-patch+json")];
    setup
        .send("PATCH", &uri, &headers, &patch)
        .await
        .expect(200);
    let modified = next().await;
    assert_eq!(modified["type"], "MODIFIED", "{modified}");
    assert_eq!(modified["object"]["metadata"]["name"], MINE[0]);
}
