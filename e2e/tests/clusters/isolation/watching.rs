//! Watches.

use std::time::Duration;

use comparison::serving::request::{Lines, Outgoing, open};
use serde_json::{Value, json};

use crate::api_support::{Setup, report};
use crate::isolation::ground::{
    Ground, HIDDEN, MINE, OURS, THEIRS, Way, in_namespace, other, patch,
};

/// Longest wait for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// The report that ends a watch.
const LAST: &str = "mine-last";

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

pub async fn all(setup: &Setup, ground: &Ground, way: &Way) {
    watches_tell_what_is_ours(ground, way).await;
    a_bookmark_is_a_version(setup, ground, way).await;
}

/// A watch that is read event by event: it has no end of its own.
struct Watch {
    request: Outgoing,
    lines: Lines,
    json: bool,
}

impl Watch {
    async fn open(ground: &Ground, way: &Way, query: &str, form: (&str, bool)) -> Self {
        let uri = format!("{}?{query}", in_namespace(OURS));
        let request = ground.request(&Outgoing::get(uri).header("accept", form.0));
        let opened = open(&way.client, &request).await;
        let (code, _, lines) = opened.unwrap_or_else(|error| panic!("{request:?}: {error}"));
        assert_eq!(code, 200, "{request:?}");
        Self {
            request,
            lines,
            json: form.1,
        }
    }

    /// The next event as it came. Nothing hidden may be in it.
    async fn next(&mut self, ground: &Ground) -> String {
        let event = if self.json {
            self.lines.line_within(PATIENCE).await
        } else {
            self.lines.frame_within(PATIENCE).await
        };
        let event = event.unwrap_or_else(|| panic!("no event: {:?}", self.request));
        let event = event.unwrap_or_else(|| panic!("an end: {:?}", self.request));
        let text = String::from_utf8_lossy(&event).into_owned();
        ground.clean(&self.request, &text);
        if self.json {
            of_ours(&serde_json::from_str(&text).unwrap());
        }
        text
    }

    async fn next_json(&mut self, ground: &Ground) -> Value {
        serde_json::from_str(&self.next(ground).await).unwrap()
    }

    /// Reads until the last report has come; none of it may tell this uid.
    async fn follow(mut self, ground: &Ground, uid: &str) {
        loop {
            let text = self.next(ground).await;
            assert!(!text.contains(uid), "{text}");
            if text.contains(LAST) {
                return;
            }
        }
    }
}

/// While reports of both namespaces come, change and go, watches of one tell of that one alone.
async fn watches_tell_what_is_ours(ground: &Ground, way: &Way) {
    let mut watches = Vec::new();
    for beginning in BEGINNINGS {
        for form in FORMS {
            watches.push(Watch::open(ground, way, beginning, form).await);
        }
    }
    let uid = others_come_and_go(ground).await;
    ground.create(&in_namespace(OURS), &report(LAST)).await;
    for watch in watches {
        watch.follow(ground, &uid).await;
    }
    let mine = format!("{}/{LAST}", in_namespace(OURS));
    let gone = ground.ask(way, &Outgoing::new("DELETE", mine)).await;
    assert_eq!(gone.code, 200);
}

/// A report of the other namespace is made, changed, and removed; gives its uid.
async fn others_come_and_go(ground: &Ground) -> String {
    let theirs = in_namespace(THEIRS);
    let name = format!("{HIDDEN}-passing");
    let one = format!("{theirs}/{name}");
    let uid = ground.create(&theirs, &other(&name, THEIRS)).await;
    let change = json!({"summary": {"pass": 9}});
    let change = patch(&one, "application/merge-patch+json", &change);
    assert_eq!(ground.admin(&change).await.code, 200);
    let delete = Outgoing::new("DELETE", &one);
    assert_eq!(ground.admin(&delete).await.code, 200);
    uid
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
/// others write, it is all that is told, and it is a version.
async fn a_bookmark_is_a_version(setup: &Setup, ground: &Ground, way: &Way) {
    let query = format!(
        "{}&fieldSelector=metadata.name%3D{}",
        BEGINNINGS[2], MINE[0]
    );
    let mut watch = Watch::open(ground, way, &query, FORMS[0]).await;
    let added = watch.next_json(ground).await;
    assert_eq!(added["type"], "ADDED", "{added}");
    assert_eq!(added["object"]["metadata"]["name"], MINE[0], "{added}");
    let bookmark = watch.next_json(ground).await;
    assert_eq!(bookmark["type"], "BOOKMARK", "{bookmark}");
    let metadata = bookmark["object"]["metadata"].as_object().unwrap();
    let mut fields: Vec<_> = metadata.keys().map(String::as_str).collect();
    fields.retain(|field| *field != "creationTimestamp");
    assert_eq!(fields, ["annotations", "resourceVersion"], "{bookmark}");
    let given = bookmark["object"].as_object().unwrap().keys();
    let rest: Vec<_> = given.filter(|field| *field != "metadata").collect();
    assert_eq!(rest, ["apiVersion", "kind"], "{bookmark}");
    others_come_and_go(ground).await;
    // What comes next is ours, whatever has happened elsewhere.
    let turn = json!({"metadata": {"labels": {"turn": way.name.split(' ').next()}}});
    let uri = format!("{}/{}", in_namespace(OURS), MINE[0]);
    let headers = [("content-type", "application/merge-patch+json")];
    let changed = setup.send("PATCH", &uri, &headers, &turn).await;
    changed.expect(200);
    let modified = loop {
        let event = watch.next_json(ground).await;
        if event["type"] != "BOOKMARK" {
            break event;
        }
    };
    assert_eq!(modified["type"], "MODIFIED", "{modified}");
    assert_eq!(modified["object"]["metadata"]["name"], MINE[0]);
}
