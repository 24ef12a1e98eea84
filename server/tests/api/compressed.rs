//! Lists in gzip that are joined from kept pieces: they inflate to the answers without compression.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use flate2::read::GzDecoder;
use reports_server::api::Pieces;
use reports_server::telemetry::PieceMetrics;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::*;

/// Reports of a list that is large enough to be joined, as is a half of it.
const NUMBER: u64 = 60;
const HALF: usize = 30;
/// Results of a report.
const RESULTS: usize = 120;
/// Room for all pieces, and for ever.
const ROOM: u64 = 64 << 20;
const EVER: Duration = Duration::from_hours(1);

/// A report of some 15 kB, with characters that JSON text for clients escapes.
fn large(name: &str, verdict: &str) -> Value {
    let mut report = report(name);
    let results = (0..RESULTS).map(|number| {
        json!({
            "policy": format!("policy-{number}"),
            "rule": format!("rule-{number}"),
            "message": format!("the field <spec.containers[{number}]> & others \u{2028} of {name}"),
            "result": verdict,
        })
    });
    report["results"] = results.collect();
    report
}

struct Kept {
    server: Server,
    pieces: Arc<Pieces>,
    metrics: PieceMetrics,
}

impl Kept {
    async fn start(bytes: u64, idle: Duration) -> Self {
        let metrics = PieceMetrics::default();
        let pieces = Arc::new(Pieces::bounded(bytes, idle, metrics.clone()));
        let mut server = Server::start().await;
        server.api = server.api.clone().keeping(pieces.clone());
        for number in 0..NUMBER {
            let object = large(&format!("r{number:02}"), "pass");
            server.post(REPORTS, &object).await.expect(201);
        }
        Self {
            server,
            pieces,
            metrics,
        }
    }

    async fn packed(&self, uri: &str) -> Answer {
        let request = self.server.request("GET", uri);
        let answer = request.header("accept-encoding", "gzip").send().await;
        answer.expect(200)
    }

    /// Lists twice, plain and joined, and makes sure that the texts are the same.
    async fn list(&self, uri: &str) -> Value {
        let plain = self.server.get(uri).await.expect(200);
        let packed = self.packed(uri).await;
        assert_eq!(packed.headers["content-encoding"], "gzip", "{uri}");
        assert_eq!(packed.headers["vary"], "Accept-Encoding");
        assert_eq!(
            packed.headers["content-type"],
            plain.headers["content-type"]
        );
        let mut text = Vec::new();
        let mut decoder = GzDecoder::new(packed.body.as_ref());
        decoder.read_to_end(&mut text).unwrap();
        assert!(text == plain.body, "{uri}");
        plain.json()
    }
}

#[tokio::test]
async fn objects_are_compressed_once() {
    let kept = Kept::start(ROOM, EVER).await;
    kept.list(REPORTS).await;
    assert_eq!(kept.metrics.hits_and_misses(), (0, NUMBER));
    assert!(kept.metrics.bytes() > 0);
    kept.list(REPORTS).await;
    assert_eq!(kept.metrics.hits_and_misses(), (NUMBER, NUMBER));
    kept.list(ALL_REPORTS).await;
    assert_eq!(kept.metrics.hits_and_misses(), (2 * NUMBER, NUMBER));
}

#[tokio::test]
async fn the_piece_of_an_earlier_state_is_never_shown() {
    let kept = Kept::start(ROOM, EVER).await;
    let server = &kept.server;
    kept.list(REPORTS).await;
    let label = json!({"metadata": {"labels": {"changed": "yes"}}});
    server
        .merge_patch(&format!("{REPORTS}/r03"), &label)
        .await
        .expect(200);
    server.delete(&format!("{REPORTS}/r05")).await.expect(200);
    server.delete(&format!("{REPORTS}/r07")).await.expect(200);
    let anew = large("r07", "fail");
    server.post(REPORTS, &anew).await.expect(201);
    let list = kept.list(REPORTS).await;
    assert_eq!(list["items"][3]["metadata"]["labels"]["changed"], "yes");
    assert_eq!(list["items"][6]["results"][0]["result"], "fail");
    assert_eq!(kept.metrics.hits_and_misses(), (NUMBER - 3, NUMBER + 2));
    kept.list(REPORTS).await;
}

#[tokio::test]
async fn pages_show_the_state_of_the_first() {
    let kept = Kept::start(ROOM, EVER).await;
    let server = &kept.server;
    kept.list(REPORTS).await;
    let first = kept.list(&format!("{REPORTS}?limit={HALF}")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], HALF);
    let label = json!({"metadata": {"labels": {"changed": "yes"}}});
    server
        .merge_patch(&format!("{REPORTS}/r40"), &label)
        .await
        .expect(200);
    // The present state is kept before the page of the past is read, and read after it.
    for _ in 0..2 {
        let now = kept.list(REPORTS).await;
        assert_eq!(now["items"][40]["metadata"]["labels"]["changed"], "yes");
        let token = first["metadata"]["continue"].as_str().unwrap();
        let uri = format!("{REPORTS}?limit={HALF}&continue={token}");
        let second = kept.list(&uri).await;
        let labels = &second["items"][40 - HALF]["metadata"]["labels"];
        assert_eq!(labels.get("changed"), None);
    }
}

#[rstest]
#[case::a_selection("?labelSelector=app!%3Dr00")]
#[case::of_a_cache("?resourceVersion=0")]
#[case::half("?limit=30")]
#[tokio::test]
async fn selections_are_joined(#[case] query: &str) {
    let kept = Kept::start(ROOM, EVER).await;
    for _ in 0..2 {
        let list = kept.list(&format!("{REPORTS}{query}")).await;
        assert!(names(&list).len() >= HALF);
    }
}

#[rstest]
#[case::small("?limit=5", "application/json")]
#[case::of_none("?labelSelector=app%3Dnobody", "application/json")]
#[case::indented("?pretty=true", "application/json")]
#[case::yaml("", "application/yaml")]
#[case::table("", "application/json;as=Table;g=meta.k8s.io;v=v1")]
#[case::metadata("", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")]
#[case::protobuf(
    "",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)]
#[tokio::test]
async fn other_lists_are_compressed_as_a_whole(#[case] query: &str, #[case] accept: &str) {
    let kept = Kept::start(ROOM, EVER).await;
    let uri = format!("{REPORTS}{query}");
    let request = kept.server.request("GET", &uri).header("accept", accept);
    let answer = request.header("accept-encoding", "gzip").send().await;
    let answer = answer.expect(200);
    assert!(!answer.headers.contains_key("content-encoding"));
    assert_eq!(kept.metrics.hits_and_misses(), (0, 0));
}

#[tokio::test]
async fn small_objects_are_compressed_as_a_whole() {
    let kept = Kept::start(ROOM, EVER).await;
    for number in 0..64 {
        // In order of name they are before the large ones.
        kept.server.created(&format!("a{number:02}")).await;
    }
    let answer = kept.packed(REPORTS).await;
    assert!(!answer.headers.contains_key("content-encoding"));
}

#[tokio::test]
async fn a_version_with_a_schema_of_its_own_is_compressed_as_a_whole() {
    let kept = Kept::start(ROOM, EVER).await;
    for number in 0..20 {
        let text = format!("gadget {number} ").repeat(2000);
        let object = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
            "metadata": {"name": format!("g{number}")}, "anything": {"text": text}});
        kept.server.post(GADGETS_V1, &object).await.expect(201);
    }
    kept.list(GADGETS_V1).await;
    let older = kept.packed(GADGETS_V1BETA1).await;
    assert!(!older.headers.contains_key("content-encoding"));
    assert_eq!(older.json()["items"][0].get("anything"), None);
}

#[tokio::test]
async fn pieces_are_kept_within_a_bound() {
    const BOUND: u64 = 40_000;
    let kept = Kept::start(BOUND, EVER).await;
    for _ in 0..4 {
        kept.list(REPORTS).await;
        let bytes = u64::try_from(kept.metrics.bytes()).unwrap();
        assert!((1..=BOUND).contains(&bytes), "{bytes}");
    }
    // A list that does not fit is not in vain: a part of it stays from one time to the next.
    let (hits, misses) = kept.metrics.hits_and_misses();
    assert!(hits > 0, "{misses}");
    assert_eq!(hits + misses, 4 * NUMBER);
}

#[tokio::test]
async fn idle_pieces_are_dropped() {
    let kept = Kept::start(ROOM, Duration::from_millis(1)).await;
    kept.list(REPORTS).await;
    let dropped = async {
        while kept.metrics.bytes() > 0 {
            tokio::task::yield_now().await;
            kept.pieces.settle();
        }
    };
    tokio::time::timeout(PATIENCE, dropped).await.unwrap();
    kept.list(REPORTS).await;
}
