//! Writers in the pattern of Kyverno's controllers: permanent reports are read and put back, often
//! unchanged; ephemeral ones are posted with `generateName`, looked up by label, adopted, deleted.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::ledger::{Ack, Did};
use super::requester::Requester;
use super::state::{ObjectState, key, version};
use super::{Origin, WitnessOptions};
use testreports::{Corpus, Owner, ReportKind, rescan, shape, subject_uid};

/// First number of the witness's made-up reports, away from those that were loaded.
const FIRST_INDEX: usize = 10_000_000;
const INDEXES_PER_WRITER: usize = 1_000_000;
/// Number of times that an update that met a conflict is sent.
const TRIES: u32 = 3;
/// Writes of one ephemeral report's life: POST, PUT, DELETE.
const EPHEMERAL_WRITES: f64 = 3.0;

/// Starts one permanent and one ephemeral writer a namespace, each with its part of the rate.
pub fn spawn(
    tasks: &mut JoinSet<()>,
    requester: &Requester,
    corpus: &Arc<Corpus>,
    options: &WitnessOptions,
    stop: &CancellationToken,
) {
    let count = u32::try_from(options.namespaces.len() * 2).unwrap_or(u32::MAX);
    let period = Duration::from_secs_f64(f64::from(count) / options.rate);
    for (number, owner) in options.namespaces.iter().enumerate() {
        let writer = Writer {
            requester: requester.clone(),
            corpus: Arc::clone(corpus),
            owner: owner.clone(),
            origin: options.origin,
            first: FIRST_INDEX + number * INDEXES_PER_WRITER,
        };
        let (kept, seed) = (options.reports_per_writer, number as u64);
        requester.ledger.expect_writer();
        tasks.spawn(writer.clone().permanent(period, kept, seed, stop.clone()));
        requester.ledger.expect_writer();
        tasks.spawn(writer.ephemeral(period.mul_f64(EPHEMERAL_WRITES), stop.clone()));
    }
}

#[derive(Clone)]
struct Writer {
    requester: Requester,
    corpus: Arc<Corpus>,
    owner: Owner,
    origin: Origin,
    first: usize,
}

impl Writer {
    /// Makes one write every tick: mostly a PUT of one of the kept reports, changed or not; now and
    /// then a report goes and another comes.
    async fn permanent(self, period: Duration, kept: usize, seed: u64, stop: CancellationToken) {
        let ledger = Arc::clone(&self.requester.ledger);
        let _running = ledger.writer();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ticks = ticker(period);
        let mut alive: Vec<String> = Vec::new();
        let mut round = 0_u64;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            round += 1;
            let index = self.first + usize::try_from(round).unwrap_or(0);
            if alive.len() < kept {
                alive.extend(self.create(ReportKind::PolicyReport, index).await);
            } else if rng.random_range(0..10) == 0 {
                let name = alive.swap_remove(rng.random_range(0..alive.len()));
                self.delete(ReportKind::PolicyReport, &name).await;
            } else {
                let name = &alive[rng.random_range(0..alive.len())];
                let no_op = rng.random_range(0..1000) < shape::NO_OP_UPDATES;
                self.get_and_put(ReportKind::PolicyReport, name, |report| {
                    if !no_op {
                        rescan(report, round);
                    }
                })
                .await;
            }
        }
    }

    /// Makes the whole life of one ephemeral report every tick.
    async fn ephemeral(self, period: Duration, stop: CancellationToken) {
        let ledger = Arc::clone(&self.requester.ledger);
        let _running = ledger.writer();
        let kind = ReportKind::EphemeralReport;
        let mut ticks = ticker(period);
        let mut index = self.first;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            index += 1;
            let subject = subject_uid(kind, index);
            let path = format!("{}/{subject}", kind.path(Some(&self.owner.namespace)));
            self.requester
                .call(Method::GET, &path, None, &[StatusCode::NOT_FOUND])
                .await;
            let Some(name) = self.create(kind, index).await else {
                continue;
            };
            self.find_by_subject(&subject, &name).await;
            self.get_and_put(kind, &name, |report| {
                report["metadata"]["annotations"]["witness/adopted"] = json!("true");
            })
            .await;
            self.delete(kind, &name).await;
        }
    }

    /// POSTs report `index`; ephemeral ones get their name from the server.
    async fn create(&self, kind: ReportKind, index: usize) -> Option<String> {
        let mut report = self.corpus.report(kind, index, &self.owner);
        if kind.ephemeral() {
            let meta = report["metadata"].as_object_mut()?;
            meta.remove("name");
            meta.insert(
                "generateName".into(),
                json!(format!("{}-", subject_uid(kind, index))),
            );
            meta["labels"]["audit.kyverno.io/source"] = json!("background-scan");
        }
        let path = kind.path(Some(&self.owner.namespace));
        let created = [StatusCode::CREATED];
        let answer = self
            .requester
            .call(Method::POST, &path, Some(&report), &created)
            .await;
        let Some((_, created)) = answer else {
            self.requester.ledger.doubt(kind, &subject_uid(kind, index));
            return None;
        };
        self.acknowledge(kind, Did::Create, &created);
        Some(key(&created).1)
    }

    /// Changes an object by GET and PUT with the resourceVersion that was read.
    async fn get_and_put(&self, kind: ReportKind, name: &str, change: impl Fn(&mut Value)) {
        let path = format!("{}/{name}", kind.path(Some(&self.owner.namespace)));
        let expected = match self.origin {
            Origin::Kubernetes => &[StatusCode::OK][..],
            // It answers an update as if it had created something.
            Origin::Incumbent => &[StatusCode::OK, StatusCode::CREATED, StatusCode::CONFLICT],
        };
        for _ in 0..TRIES {
            let ok = [StatusCode::OK];
            let Some((_, read)) = self.requester.call(Method::GET, &path, None, &ok).await else {
                return;
            };
            let mut wanted = read.clone();
            change(&mut wanted);
            let put = self
                .requester
                .call(Method::PUT, &path, Some(&wanted), expected)
                .await;
            match put {
                Some((StatusCode::CONFLICT, _)) => self.requester.ledger.conflict(),
                Some((_, put)) => return self.put(kind, &path, &read, &wanted, &put),
                None => return self.requester.ledger.doubt(kind, name),
            }
        }
        let ledger = &self.requester.ledger;
        ledger.fail(format!("PUT {path}: nothing but conflicts"));
    }

    /// Checks the answer to an update.
    fn put(&self, kind: ReportKind, path: &str, read: &Value, wanted: &Value, put: &Value) {
        let ledger = &self.requester.ledger;
        let (old, new) = (version(read), version(put));
        if wanted == read && (old == new || self.origin == Origin::Kubernetes) {
            if old != new {
                ledger.fail(format!("PUT {path}: nothing changed, yet {old} -> {new}"));
            }
        } else if new <= old {
            ledger.fail(format!("PUT {path}: the version went {old} -> {new}"));
        } else {
            self.acknowledge(kind, Did::Update, put);
        }
    }

    async fn delete(&self, kind: ReportKind, name: &str) {
        let path = format!("{}/{name}", kind.path(Some(&self.owner.namespace)));
        let ok = [StatusCode::OK];
        let Some((_, read)) = self.requester.call(Method::GET, &path, None, &ok).await else {
            return;
        };
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if self
            .requester
            .call(Method::DELETE, &path, Some(&options), &ok)
            .await
            .is_some()
        {
            self.acknowledge(kind, Did::Delete, &read);
        } else {
            self.requester.ledger.doubt(kind, name);
        }
    }

    /// Checks that the list by label that Kyverno's aggregation relies on shows the object that was
    /// just created.
    async fn find_by_subject(&self, subject: &str, name: &str) {
        let kind = ReportKind::EphemeralReport;
        let uri = format!(
            "{}?labelSelector=audit.kyverno.io%2Fresource.uid%3D{subject}",
            kind.path(Some(&self.owner.namespace))
        );
        if let Some((_, list)) = self
            .requester
            .call(Method::GET, &uri, None, &[StatusCode::OK])
            .await
        {
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            if items.len() != 1 || items[0]["metadata"]["name"] != name {
                self.requester
                    .ledger
                    .fail(format!("GET {uri}: does not show {name} alone"));
            }
        }
    }

    fn acknowledge(&self, kind: ReportKind, did: Did, object: &Value) {
        let ack = Ack {
            kind,
            did,
            key: key(object),
            state: ObjectState::of(object),
        };
        self.requester.ledger.acknowledge(ack);
    }
}

fn ticker(period: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
