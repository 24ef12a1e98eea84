//! Somebody who writes all the time, and remembers what was acknowledged.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use e2e::witness::ObjectState;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::interference::ground::{Ground, KIND, reports};

/// Start of the names of the namespaces that it writes to; a number follows.
pub const NAMESPACE: &str = "writer";
/// Between two writes.
const PACE: Duration = Duration::from_millis(80);

/// The last known state of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// This content was acknowledged.
    Is(String),
    /// The deletion was acknowledged.
    Gone,
    /// Somebody may have carried the last request out.
    Nothing,
}

/// Writes in the background.
pub struct Writer {
    task: JoinHandle<Written>,
    end: CancellationToken,
}

/// The outcome of the writes.
#[derive(Default)]
pub struct Written {
    known: BTreeMap<String, Known>,
    /// Writes that were acknowledged.
    pub acknowledged: usize,
}

impl Writer {
    /// Begins to create, change and delete reports.
    pub fn start(ground: &Ground) -> Self {
        let namespace = format!("{NAMESPACE}-00");
        let reports = reports(&ground.other, &namespace);
        let template = ground.report(&namespace, "");
        let end = CancellationToken::new();
        let task = tokio::spawn(write(reports, template, end.clone()));
        Self { task, end }
    }

    /// Ends it; gives what it knows.
    pub async fn finish(self) -> anyhow::Result<Written> {
        self.end.cancel();
        Ok(self.task.await?)
    }
}

async fn write(
    reports: Api<DynamicObject>,
    template: DynamicObject,
    end: CancellationToken,
) -> Written {
    let mut written = Written::default();
    let name = |number: u64| format!("written-{number}");
    let mut clock = tokio::time::interval(PACE);
    for number in 0.. {
        let mut report = template.clone();
        report.metadata.name = Some(name(number));
        let all = async {
            clock.tick().await;
            written
                .put(
                    &name(number),
                    reports.create(&PostParams::default(), &report),
                )
                .await;
            let Some(before) = number.checked_sub(1) else {
                return;
            };
            let label = json!({"metadata": {"labels": {"round": number.to_string()}}});
            let patch = Patch::Merge(label);
            let before = name(before);
            let params = PatchParams::default();
            let patched = reports.patch(&before, &params, &patch);
            written.put(&before, patched).await;
            if number % 3 == 2 {
                let oldest = name(number - 2);
                written.delete(&oldest, &reports).await;
            }
        };
        if end.run_until_cancelled(all).await.is_none() {
            break;
        }
    }
    written
}

impl Written {
    /// Sends a write; whoever is cancelled does not know what became of it.
    async fn put(&mut self, name: &str, write: impl Future<Output = kube::Result<DynamicObject>>) {
        let before = self.known.insert(name.to_owned(), Known::Nothing);
        let known = match write.await {
            Ok(object) => {
                self.acknowledged += 1;
                let object = serde_json::to_value(&object).unwrap_or_default();
                Known::Is(ObjectState::of(&object).content)
            }
            Err(error) if is_refused(&error) => before.unwrap_or(Known::Gone),
            Err(_) => Known::Nothing,
        };
        self.known.insert(name.to_owned(), known);
    }

    async fn delete(&mut self, name: &str, reports: &Api<DynamicObject>) {
        let before = self.known.insert(name.to_owned(), Known::Nothing);
        let known = match reports.delete(name, &DeleteParams::default()).await {
            Ok(_) => {
                self.acknowledged += 1;
                Known::Gone
            }
            Err(error) if is_refused(&error) => before.unwrap_or(Known::Gone),
            Err(_) => Known::Nothing,
        };
        self.known.insert(name.to_owned(), known);
    }

    /// Compares what was acknowledged with what is there.
    pub async fn check(&self, ground: &Ground) -> anyhow::Result<()> {
        let state = ground.state().await?;
        let key = |name: &String| (KIND, (format!("{NAMESPACE}-00"), name.clone()));
        let mut wrong = Vec::new();
        for (name, known) in &self.known {
            let there = state.0.get(&key(name)).map(|object| &object.content);
            match (known, there) {
                (Known::Is(content), Some(there)) if content == there => {}
                (Known::Gone, None) | (Known::Nothing, _) => {}
                (Known::Is(_), None) => wrong.push(format!("{name} is lost")),
                (Known::Is(_), Some(_)) => wrong.push(format!("{name} is another")),
                (Known::Gone, Some(_)) => wrong.push(format!("{name} is back")),
            }
        }
        ensure!(
            wrong.is_empty(),
            "of {} writes: {wrong:?}",
            self.acknowledged
        );
        Ok(())
    }
}

/// Returns whether nothing was done: not so where it went on beyond whoever answers.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code))
}
