//! The answers to clients of the API while the database does not work.

use std::time::{Duration, Instant};

use crds::control::GateState;
use futures::future::join_all;
use pgtest::{Postgres, PostgresOptions, Shutdown};
use rstest::rstest;
use storage::store::QueueLimits;

use super::DEADLINE;
use crate::harness::{Answer, REPORTS, Server, report};
use crate::support::eventually;
use crate::support::replica::Place;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Stopped,
    Paused,
    Partition,
    ReadOnly,
}

struct Bed {
    postgres: Postgres,
    place: Place,
    server: Server,
}

impl Bed {
    async fn start(queue: QueueLimits) -> Self {
        let postgres = Postgres::start(PostgresOptions::default()).await.unwrap();
        let place = Place::at(&postgres);
        let options = place.options();
        let server = Server::start_closed(|o| {
            *o = options;
            o.queue = queue;
        })
        .await;
        server
            .set_gate("policyreports.wgpolicyk8s.io", GateState::Open)
            .await;
        Self {
            postgres,
            place,
            server,
        }
    }

    async fn strike(&self, fault: Fault) {
        match fault {
            Fault::Stopped => self.postgres.stop(Shutdown::Fast).await.unwrap(),
            Fault::Paused => self.postgres.pause().unwrap(),
            Fault::Partition => self.place.proxy.black_hole(),
            Fault::ReadOnly => {
                self.postgres.set_read_only(true).await.unwrap();
                self.postgres.terminate_connections().await.unwrap();
            }
        }
    }

    async fn mend(&self, fault: Fault) {
        match fault {
            Fault::Stopped => self.postgres.start_again().await.unwrap(),
            Fault::Paused => self.postgres.resume().unwrap(),
            Fault::Partition => self.place.proxy.release(),
            Fault::ReadOnly => self.postgres.set_read_only(false).await.unwrap(),
        }
    }
}

fn is_a_refusal(answer: &Answer) {
    let status = answer.json();
    let reason = match answer.code {
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        code => panic!("{code}: {}", answer.text()),
    };
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["reason"], reason);
    let hint: u64 = answer.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=30).contains(&hint), "{hint}");
}

fn is_sent_to_list(answer: &Answer) {
    assert_eq!(answer.code, 200);
    let event = answer.json();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 410);
    let message = event["object"]["message"].as_str().unwrap();
    assert!(message.starts_with("too large"), "{message}");
}

#[rstest]
#[case::stopped(Fault::Stopped)]
#[case::paused(Fault::Paused)]
#[case::partition(Fault::Partition)]
#[case::read_only(Fault::ReadOnly)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_quick_and_reads_go_on(#[case] fault: Fault) {
    let bed = Bed::start(QueueLimits::default()).await;
    let server = &bed.server;
    let created = server.created("a").await;
    let item = format!("{REPORTS}/a");
    let rv = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = server
        .watch(&format!("{REPORTS}?watch=true&resourceVersion={rv}"))
        .await;
    bed.strike(fault).await;
    for _ in 0..2 {
        let began = Instant::now();
        let label = serde_json::json!({"metadata": {"labels": {"x": "y"}}});
        let b = report("b");
        let (post, patch, delete) = tokio::join!(
            server.post(REPORTS, &b),
            server.merge_patch(&item, &label),
            server.delete(&item)
        );
        for answer in [post, patch, delete] {
            is_a_refusal(&answer);
        }
        let took = began.elapsed();
        assert!(took < DEADLINE, "{took:?}");
    }
    // What is in memory is served on; nothing newer is claimed.
    let any = server.get(&format!("{item}?resourceVersion=0")).await;
    assert_eq!(any.expect(200).json(), created);
    let list = server.get(&format!("{REPORTS}?resourceVersion=0")).await;
    assert_eq!(
        list.expect(200).json()["items"].as_array().unwrap().len(),
        1
    );
    let began = Instant::now();
    let consistent = server.get(REPORTS).await;
    assert!(began.elapsed() < DEADLINE);
    // Another server may have served this version: only the database knows that none has.
    let ahead = rv.parse::<u64>().unwrap() + 1_000_000;
    let ahead = format!("{REPORTS}?watch=true&resourceVersion={ahead}");
    let resumed = server.get(&ahead).await;
    // A database that can be read says that nothing newer is there.
    if fault != Fault::ReadOnly {
        is_a_refusal(&consistent);
        is_a_refusal(&resumed);
    }
    bed.mend(fault).await;
    eventually("a write is taken", async || {
        matches!(server.post(REPORTS, &report("c")).await.code, 201 | 409)
    })
    .await;
    // The watch is still the same, and says what happened, once and in order.
    let seen = loop {
        let event = watch.next().await.expect("an event");
        assert_ne!(event["type"], "ERROR", "{event}");
        if event["object"]["metadata"]["name"] == "c" {
            break event;
        }
    };
    assert_eq!(seen["type"], "ADDED");
    server.get(REPORTS).await.expect(200);
    is_sent_to_list(&server.get(&ahead).await);
}

/// More than waits is refused at once; memory is bounded, whatever comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_while_the_database_hangs() {
    const WAITING: usize = 50;
    let bed = Bed::start(QueueLimits {
        writes: WAITING,
        ..QueueLimits::default()
    })
    .await;
    bed.postgres.pause().unwrap();
    let began = Instant::now();
    let objects: Vec<_> = (0..300).map(|i| report(&format!("r{i}"))).collect();
    let answers = join_all(objects.iter().map(async |object| {
        let answer = bed.server.post(REPORTS, object).await;
        (answer, began.elapsed())
    }))
    .await;
    let mut shed = 0;
    for (answer, took) in &answers {
        is_a_refusal(answer);
        assert!(*took < DEADLINE, "{took:?}");
        if answer.code == 429 {
            shed += 1;
            assert!(*took < Duration::from_secs(3), "{took:?}");
        }
    }
    assert!(shed >= 300 - 4 * WAITING, "{shed}");
    bed.postgres.resume().unwrap();
    eventually("a write is taken", async || {
        bed.server.post(REPORTS, &report("after")).await.code == 201
    })
    .await;
}
