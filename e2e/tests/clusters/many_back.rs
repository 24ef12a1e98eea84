//! Many reports that etcd does not have go back to it while clients write: requests are held for no
//! longer than with few, also when the operator dies in the hold, no write is lost, and its memory
//! stays small, as it does when they come again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use e2e::chaos::{Answer, Requester, media, requesters};
use e2e::processes::{Ended, Processes};
use e2e::takeover::{GROUPS, load};
use e2e::witness::{ObjectState, State, strict_client};
use http::Method;
use kube::Client;
use rand::seq::IteratorRandom as _;
use rstest::rstest;
use serde_json::{Value, json};
use testreports::{ReportKind, kinds};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::common::full;

/// Tells how many reports there are to be, in place of those of a short and of a whole run.
const VARIABLE: &str = "REPORTS_BACK";
/// Results of a report where they are many: on the way back, a kube-apiserver takes some 300 kB for a
/// recorded report, which has about 30 results.
const FEW_RESULTS: usize = 1;
/// The number of reports above which they have few results.
const MANY: usize = 2_000;
/// Longest time for which requests may be held, and the same when the operator dies meanwhile.
const HOLD: Duration = Duration::from_secs(2);
const HOLD_WITH_DEATH: Duration = Duration::from_secs(5);
/// Most memory of the operator, in KiB.
const MEMORY: u64 = 100_000;
/// Longest time of one direction.
const LIMIT: Duration = Duration::from_hours(1);
/// Time between two writes, and how many of them there are for one that deletes.
const WRITE: Duration = Duration::from_millis(100);
const WRITES_PER_DELETE: usize = 10;
/// Pause between two rounds of lists.
const PAUSE: Duration = Duration::from_millis(200);
const STORED: &str = "/apis/control.reports-server.io/v1alpha1/storedresources";

/// Returns the number of reports: `short` or `whole`, if nothing else is said.
fn number(short: usize, whole: usize) -> usize {
    let wanted = std::env::var(VARIABLE).ok();
    let wanted = wanted.map(|text| text.parse().expect("REPORTS_BACK is a number"));
    wanted.unwrap_or(if full() { whole } else { short })
}

/// Returns the time for which requests were held last.
async fn last_hold(client: &Client) -> Duration {
    let request = http::Request::get(STORED).body(Vec::new()).unwrap();
    let list: Value = client.request(request).await.unwrap();
    let items = list["items"].as_array().unwrap();
    let holds = items
        .iter()
        .filter_map(|stored| stored["status"]["lastHoldMilliseconds"].as_u64());
    Duration::from_millis(holds.max().expect("a hold"))
}

/// Contents of reports by kind, namespace and name.
type Contents = BTreeMap<(ReportKind, (String, String)), String>;

fn contents(state: &State) -> Contents {
    let objects = state.0.iter();
    objects
        .map(|(key, object)| (key.clone(), object.content.clone()))
        .collect()
}

/// Returns the first reports that are not as they were acknowledged.
fn difference(after: &State, written: &Contents) -> String {
    let after = contents(after);
    let keys = after.keys().chain(written.keys());
    let differ = keys.filter(|key| after.get(key) != written.get(key));
    format!("{:?}", differ.take(20).collect::<Vec<_>>())
}

/// Lists all the while, as a client that does not try again.
struct Lists {
    stop: CancellationToken,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Lists {
    async fn begin(processes: &Processes) -> Self {
        let config = processes.cluster.config(0).await.unwrap();
        let client = strict_client(config).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(lists(client, stop.clone()));
        Self { stop, task }
    }

    /// Returns the number of lists that were answered, and the words that others got about a cache
    /// that was being filled.
    async fn end(self) -> (usize, Vec<String>) {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

async fn lists(client: Client, stop: CancellationToken) -> (usize, Vec<String>) {
    let (mut answered, mut unfilled) = (0, Vec::new());
    while !stop.is_cancelled() {
        for kind in kinds() {
            // With a selector: a list with nothing but a limit is answered by etcd meanwhile.
            let uri = format!("{}?fieldSelector=metadata.name%3Dnone", kind.path(None));
            let request = http::Request::get(&uri).body(Vec::new()).unwrap();
            match client.request::<Value>(request).await {
                Ok(_) => answered += 1,
                Err(error) if error.to_string().contains("(re)initializing") => {
                    unfilled.push(format!("{uri}: {error}"));
                }
                // Requests that still wait when a gate closes are told to come again.
                Err(_) => {}
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    (answered, unfilled)
}

/// Updates and deletes reports all the while, as somebody else than the operator, who may write past
/// a gate that it holds.
struct Writes {
    stop: CancellationToken,
    task: JoinHandle<Contents>,
}

impl Writes {
    async fn begin(processes: &Processes, contents: Contents) -> Self {
        let requesters = requesters(&processes.cluster, &Arc::default()).await;
        let requester = requesters.unwrap().pop().expect("a kube-apiserver");
        let stop = CancellationToken::new();
        let task = tokio::spawn(writes(requester, contents, stop.clone()));
        Self { stop, task }
    }

    /// Returns the contents that were acknowledged.
    async fn end(self) -> Contents {
        self.stop.cancel();
        self.task.await.expect("no write fails")
    }
}

async fn writes(requester: Requester, mut contents: Contents, stop: CancellationToken) -> Contents {
    let mut ticks = tokio::time::interval(WRITE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for turn in 1_usize.. {
        ticks.tick().await;
        if stop.is_cancelled() {
            break;
        }
        let key = contents.keys().choose(&mut rand::rng()).cloned().unwrap();
        let (kind, (namespace, name)) = &key;
        let namespace = Some(namespace.as_str()).filter(|_| kind.namespaced());
        let uri = format!("{}/{name}", kind.path(namespace));
        if turn.is_multiple_of(WRITES_PER_DELETE) {
            acknowledged(&requester, Method::DELETE, &uri, None).await;
            contents.remove(&key);
        } else {
            let patch = json!({"metadata": {"annotations": {"many/turn": turn.to_string()}}});
            let patch = Some((media::MERGE_PATCH, &patch));
            let written = acknowledged(&requester, Method::PATCH, &uri, patch).await;
            contents.insert(key, ObjectState::of(&written).content);
        }
    }
    contents
}

/// Sends a write as client-go does; returns the answer of one that was taken.
async fn acknowledged(
    requester: &Requester,
    method: Method,
    uri: &str,
    body: Option<(&str, &Value)>,
) -> Value {
    match requester.call(method.clone(), uri, body).await {
        Answer::Said(status, value) if status.is_success() => value,
        refused => panic!("{method} {uri}: {}", refused.text()),
    }
}

async fn migrate(processes: &Processes, name: &str, fault: Option<&str>, more: &[&str]) -> Ended {
    let migration = processes.migrate(name, fault, more).unwrap();
    migration.ended(LIMIT).await.unwrap()
}

#[rstest]
#[case::undisturbed(number(1_000, 100_000), None, HOLD)]
#[case::operator_dies_while_requests_are_held(
    number(1_000, 30_000),
    Some("before:BackRelease"),
    HOLD_WITH_DEATH
)]
#[tokio::test(flavor = "multi_thread")]
async fn the_hold_is_as_short_with_many_reports(
    #[case] reports: usize,
    #[case] fault: Option<&str>,
    #[case] limit: Duration,
) {
    let processes = Processes::start(&GROUPS, 0, false).await.unwrap();
    let _server = processes.serve().unwrap();
    processes.register().await.unwrap();
    let there = migrate(&processes, "there", None, &[]).await;
    assert!(there.done, "{}", there.log);
    let client = processes.cluster.client().await.unwrap();
    let owners = load::namespaces(&client, "many", 20).await.unwrap();
    let say = |text: &str| println!("{text}");
    let mut corpus = (*processes.corpus).clone();
    if reports > MANY {
        corpus = corpus.with_results(FEW_RESULTS);
    }
    load::load(&client, &corpus, &owners, reports, &say)
        .await
        .unwrap();
    let before = State::read(&client).await.unwrap();
    assert_eq!(before.0.len(), reports);
    let writes = Writes::begin(&processes, contents(&before)).await;

    if fault.is_some() {
        let died = migrate(&processes, "dies", fault, &["--back"]).await;
        assert!(!died.done, "{}", died.log);
    }
    let lists = Lists::begin(&processes).await;
    let back = migrate(&processes, "back", None, &["--back"]).await;
    assert!(back.done, "{}", back.log);
    let (answered, unfilled) = lists.end().await;
    assert!(
        answered > 0 && unfilled.is_empty(),
        "{answered}, {unfilled:?}"
    );
    let (hold, memory) = (last_hold(&client).await, back.peak_memory().unwrap());
    println!("{reports} reports: held for {hold:?}, {memory} KiB");
    let written = writes.end().await;
    let after = State::read(&client).await.unwrap();
    assert_ne!(contents(&before), written, "nothing was written");
    assert!(
        contents(&after) == written,
        "{}",
        difference(&after, &written)
    );
    assert!(hold <= limit, "held for {hold:?}");
    assert!(memory < MEMORY, "{memory} KiB");
    if fault.is_none() {
        let writes = Writes::begin(&processes, written).await;
        let there = migrate(&processes, "again", None, &[]).await;
        assert!(there.done, "{}", there.log);
        let memory = there.peak_memory().unwrap();
        println!("{reports} reports: there again, {memory} KiB");
        let written = writes.end().await;
        let after = State::read(&client).await.unwrap();
        assert!(
            contents(&after) == written,
            "{}",
            difference(&after, &written)
        );
        assert!(memory < MEMORY, "there again: {memory} KiB");
    }
}
