//! The last writes to a predecessor: those under way when its APIServices are switched, and those
//! that come later still.

use std::sync::{Arc, Mutex};

use crds::control::{ImportItem, ImportResult, ImportType};
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::migration::HoldLock;
use crate::migration::cluster::control::Control;
use crate::migration::cluster::endpoints::Endpoints;
use crate::migration::cluster::pages::Pacer;
use crate::migration::cluster::wire::Wire;
use crate::migration::report::metrics::Metrics;
use crate::testing::pair;

const GROUP: &str = "wgpolicyk8s.io";
const MILLIS: fn(u64) -> Duration = Duration::from_millis;

/// The imports that our server was told: the mode of each import, and type and name of each item.
type Told = Arc<Mutex<Vec<(ImportMode, Vec<(ImportType, String)>)>>>;

/// Returns a source whose server takes every import, and what it was told.
fn source() -> (Source, Told) {
    let (client, mut server) = pair();
    let told = Told::default();
    let all = Arc::clone(&told);
    tokio::spawn(async move {
        while let Some(request) = server.next_if_any().await {
            let batch: ImportBatch = serde_json::from_value(request.body.clone()).unwrap();
            let item = |item: &ImportItem| {
                let name = item.object["metadata"]["name"].as_str().unwrap();
                (item.type_, name.to_owned())
            };
            let items = batch.items.iter().map(item).collect();
            // Marks that are taken away again say nothing.
            if batch.mode != ImportMode::Pruned {
                all.lock().unwrap().push((batch.mode, items));
            }
            let answer = serde_json::to_value(ImportResult::default()).unwrap();
            request.answer(201, &answer);
        }
    });
    let common = mirror::Source {
        group: GROUP.to_owned(),
        version: "v1alpha2".to_owned(),
        plural: "policyreports".to_owned(),
        stored: format!("policyreports.{GROUP}"),
        endpoints: Endpoints {
            all: Vec::new(),
            direct: true,
            alive: 1,
        },
        control: Control::new(Wire::new(client)),
        page_size: 250,
        pacer: Arc::new(Pacer::new(GROUP, HoldLock::default(), None)),
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
    };
    let source = Source {
        common,
        kind: "PolicyReport".to_owned(),
        namespaced: true,
    };
    (source, told)
}

/// Returns a copy that has read everything, up to version 100.
fn copy<'a>(source: &'a Source, progress: &'a watch::Sender<Progress>) -> Copy<'a> {
    Copy {
        source,
        progress,
        table: Table::default(),
        version: 100,
        theirs: 0,
        mode: ImportMode::Mirror,
        drained: false,
        waiting: Vec::new(),
        unusable: None,
    }
}

fn event(type_: ImportType, name: &str, version: u64) -> StreamEvent {
    let metadata = json!({"namespace": "n", "name": name, "uid": name,
        "resourceVersion": version.to_string()});
    StreamEvent::Event(type_, json!({"metadata": metadata}))
}

/// Drains while an event comes every 400 ms, `count` of them; returns the result and how long it
/// took.
async fn drained_beside(copy: &mut Copy<'_>, count: u64) -> (Result<Drained, CopyError>, Duration) {
    let (sender, events) = mpsc::channel(64);
    let mut streams = Streams::of(events);
    let begun = Instant::now();
    let drain = async {
        let drained = copy.drain(&mut streams).await;
        (drained, begun.elapsed())
    };
    let writes = async {
        for number in 0..count {
            sleep(MILLIS(400)).await;
            let name = format!("r{number}");
            let event = event(ImportType::Added, &name, 900 + number);
            sender.send(event).await.unwrap();
        }
    };
    tokio::join!(drain, writes).0
}

#[rstest]
#[case::nothing_is_under_way(0, 500)]
#[case::some_writes_are(3, 1700)]
#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_the_watches_have_been_quiet_for_half_a_second(
    #[case] count: u64,
    #[case] takes: u64,
) {
    let (source, told) = source();
    let (progress, _) = watch::channel(Progress::default());
    let mut copy = copy(&source, &progress);
    let (drained, took) = drained_beside(&mut copy, count).await;
    let within = MILLIS(takes)..MILLIS(takes + 100);
    assert!(within.contains(&took), "{took:?}");
    let drained = drained.unwrap();
    assert_eq!(drained.version, 100 + count);
    assert_eq!(drained.theirs, if count == 0 { 0 } else { 899 + count });
    let told = told.lock().unwrap();
    assert_eq!(told.len() as u64, count);
    assert!(told.iter().all(|(mode, _)| *mode == ImportMode::Mirror));
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_given_up_where_the_watches_are_not_quiet_within_ten_seconds() {
    let (source, _told) = source();
    let (progress, _) = watch::channel(Progress::default());
    let mut copy = copy(&source, &progress);
    let (drained, took) = drained_beside(&mut copy, 40).await;
    assert!(
        matches!(drained, Err(CopyError::Busy { .. })),
        "{drained:?}"
    );
    assert!((MILLIS(10_000)..MILLIS(10_500)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_a_drain_leaves_unknown_what_the_predecessor_got() {
    let (source, _told) = source();
    let (progress, _) = watch::channel(Progress::default());
    let mut copy = copy(&source, &progress);
    let (sender, events) = mpsc::channel(1);
    let ended = StreamEvent::Ended("it was ended".to_owned());
    sender.send(ended).await.unwrap();
    let drained = copy.drain(&mut Streams::of(events)).await;
    assert!(
        matches!(&drained, Err(CopyError::Cut(why)) if why == "it was ended"),
        "{drained:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_tells_right_before_it_ends_is_given_to_the_server() {
    let (source, told) = source();
    let (progress, _) = watch::channel(Progress::default());
    let mut copy = copy(&source, &progress);
    copy.mode = ImportMode::Straggler;
    let (sender, events) = mpsc::channel(2);
    let late = event(ImportType::Modified, "late", 7);
    let ended = StreamEvent::Ended("it was ended".to_owned());
    for one in [late, ended] {
        sender.send(one).await.unwrap();
    }
    let (_commands, mut receiver) = mpsc::channel(1);
    let follow = copy.follow(&mut Streams::of(events), &mut receiver).await;
    assert_eq!(follow.unwrap(), "it was ended");
    let item = (ImportType::Modified, "late".to_owned());
    let expected = [(ImportMode::Straggler, vec![item])];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_drain_is_given_to_the_server_once_it_is_open_as_late() {
    let (source, told) = source();
    let (progress, _) = watch::channel(Progress::default());
    let mut copy = copy(&source, &progress);
    let (sender, events) = mpsc::channel(64);
    let (commands, mut receiver) = mpsc::channel(1);
    let mut streams = Streams::of(events);
    let added = |name| event(ImportType::Added, name, 7);
    let acts = async {
        sender.send(added("before")).await.unwrap();
        sleep(QUIET).await;
        let (reply, drained) = oneshot::channel();
        assert!(commands.send(Command::Drain(reply)).await.is_ok());
        drained.await.unwrap().unwrap();
        sender.send(added("between")).await.unwrap();
        sleep(QUIET).await;
        assert_eq!(told.lock().unwrap().len(), 1, "the gates are being opened");
        assert!(commands.send(Command::Opened).await.is_ok());
        sleep(QUIET).await;
        sender.send(added("late")).await.unwrap();
        sleep(QUIET).await;
        let gone = event(ImportType::Deleted, "before", 8);
        sender.send(gone).await.unwrap();
        sleep(QUIET).await;
        let ended = StreamEvent::Ended("end of the test".to_owned());
        sender.send(ended).await.unwrap();
    };
    let follow = copy.follow(&mut streams, &mut receiver);
    let (ended, ()) = tokio::join!(follow, acts);
    assert_eq!(ended.unwrap(), "end of the test");
    let one = |mode, type_, name: &str| (mode, vec![(type_, name.to_owned())]);
    let late = |type_, name| one(ImportMode::Straggler, type_, name);
    let expected = [
        one(ImportMode::Mirror, ImportType::Object, "before"),
        late(ImportType::Modified, "between"),
        late(ImportType::Modified, "late"),
        late(ImportType::Deleted, "before"),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}
