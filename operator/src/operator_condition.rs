//! Asks OLM not to replace the operator while reports are on their way. OLM v0 gives each operator an
//! `OperatorCondition`, the right to write it, and its name in the environment.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::v1alpha1::conditions::UPGRADEABLE;
use crds::v1alpha1::{ReportsServer, reasons};
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::{DeserializeGuard, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tracing::warn;

/// Pause before another attempt to write.
const RETRY: Duration = Duration::from_secs(15);

/// Follows all `ReportsServer`s for ever, and writes to the `OperatorCondition` of this name whether
/// the operator may be replaced.
pub async fn follow(client: Client, namespace: &str, name: &str) {
    let servers: Api<DeserializeGuard<ReportsServer>> = Api::all(client.clone());
    let events = watcher::watcher(servers, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut busy = Busy::default();
    let mut writer = Writer {
        api: Api::namespaced_with(client, namespace, &resource()),
        name: name.to_owned(),
        written: None,
    };
    loop {
        let is_written = match busy.verdict() {
            Some(verdict) => writer.write(verdict).await,
            None => true,
        };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => busy.note(event),
                Some(Err(error)) => warn!(%error, "watching the ReportsServers"),
                None => return,
            },
            () = tokio::time::sleep(RETRY), if !is_written => {}
        }
    }
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
    ApiResource::from_gvk_with_plural(&kind, "operatorconditions")
}

/// The answer to OLM.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    upgradeable: bool,
    message: String,
}

/// The `ReportsServer`s that need this operator until a step has ended.
#[derive(Debug, Default)]
struct Busy {
    /// Names, each with the reason in words.
    servers: BTreeMap<String, String>,
    /// True when every `ReportsServer` has been seen.
    complete: bool,
}

impl Busy {
    fn note(&mut self, event: Event<DeserializeGuard<ReportsServer>>) {
        match event {
            Event::Init => *self = Self::default(),
            Event::InitDone => self.complete = true,
            Event::InitApply(object) | Event::Apply(object) => {
                let name = object.name_any();
                // One that cannot be read waits for an operator that can.
                let why = object.0.ok().and_then(|server| why_busy(&server));
                match why {
                    Some(why) => self.servers.insert(name, why),
                    None => self.servers.remove(&name),
                };
            }
            Event::Delete(object) => {
                self.servers.remove(&object.name_any());
            }
        }
    }

    /// Returns the answer to OLM; none while not all are known.
    fn verdict(&self) -> Option<Verdict> {
        let told = self.servers.iter();
        let told = told.map(|(name, why)| format!("ReportsServer {name}: {why}"));
        let told: Vec<String> = told.collect();
        let message = if told.is_empty() {
            "no API group is being migrated".to_owned()
        } else {
            told.join("; ")
        };
        self.complete.then_some(Verdict {
            upgradeable: told.is_empty(),
            message,
        })
    }
}

/// Returns why a `ReportsServer` cannot do without this operator now.
fn why_busy(server: &ReportsServer) -> Option<String> {
    let mut conditions = server.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|condition| condition.type_ == UPGRADEABLE)?;
    (found.status == "False").then(|| found.message.clone())
}

/// The writer of an `OperatorCondition`.
struct Writer {
    api: Api<DynamicObject>,
    name: String,
    /// The last answer, and the time since which it is true or false.
    written: Option<(Verdict, Time)>,
}

impl Writer {
    /// Writes an answer unless it is the last one; returns true when it is written.
    async fn write(&mut self, verdict: Verdict) -> bool {
        let since = match &self.written {
            Some((last, _)) if *last == verdict => return true,
            Some((last, since)) if last.upgradeable == verdict.upgradeable => since.clone(),
            _ => Time(Timestamp::now()),
        };
        let patch = Patch::Merge(body(&verdict, &since));
        match self
            .api
            .patch(&self.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => {
                self.written = Some((verdict, since));
                true
            }
            Err(error) => {
                let name = &self.name;
                warn!(%error, name, "the OperatorCondition cannot be written; trying again");
                false
            }
        }
    }
}

/// Returns the patch: OLM keeps what else is in the object.
fn body(verdict: &Verdict, since: &Time) -> Value {
    let (status, reason) = if verdict.upgradeable {
        ("True", reasons::AS_EXPECTED)
    } else {
        ("False", reasons::PROGRESSING)
    };
    json!({"spec": {"conditions": [{
        "type": UPGRADEABLE,
        "status": status,
        "reason": reason,
        "message": verdict.message,
        "lastTransitionTime": since,
    }]}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pair;

    /// Returns a `ReportsServer` whose condition has a status.
    fn server(name: &str, status: Option<&str>) -> DeserializeGuard<ReportsServer> {
        let conditions = status.map(|status| {
            json!([{
                "type": UPGRADEABLE,
                "status": status,
                "reason": "Progressing",
                "message": "g.io is being migrated: Switching",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }])
        });
        let object = json!({
            "apiVersion": "reports-server.io/v1alpha1",
            "kind": "ReportsServer",
            "metadata": {"name": name},
            "spec": {"targetNamespace": "reports", "apis": []},
            "status": {"conditions": conditions.unwrap_or_else(|| json!([]))},
        });
        DeserializeGuard(Ok(serde_json::from_value(object).unwrap()))
    }

    fn upgradeable(busy: &Busy) -> Option<bool> {
        busy.verdict().map(|verdict| verdict.upgradeable)
    }

    #[test]
    fn nothing_is_said_before_every_server_is_known() {
        let mut busy = Busy::default();
        assert_eq!(busy.verdict(), None);
        busy.note(Event::Init);
        busy.note(Event::InitApply(server("a", Some("True"))));
        assert_eq!(busy.verdict(), None);
        busy.note(Event::InitDone);
        assert_eq!(upgradeable(&busy), Some(true));
        busy.note(Event::Init);
        assert_eq!(busy.verdict(), None);
    }

    #[test]
    fn one_server_in_a_switch_keeps_the_operator() {
        let mut busy = Busy::default();
        busy.note(Event::InitApply(server("a", Some("True"))));
        busy.note(Event::InitApply(server("b", Some("False"))));
        busy.note(Event::InitApply(server("c", None)));
        busy.note(Event::InitDone);
        let verdict = busy.verdict().unwrap();
        let message = "ReportsServer b: g.io is being migrated: Switching";
        assert!(!verdict.upgradeable);
        assert_eq!(verdict.message, message);
        busy.note(Event::Apply(server("b", Some("True"))));
        assert_eq!(upgradeable(&busy), Some(true));
    }

    #[test]
    fn a_server_that_is_gone_keeps_nobody() {
        let mut busy = Busy::default();
        busy.note(Event::InitDone);
        busy.note(Event::Apply(server("a", Some("False"))));
        assert_eq!(upgradeable(&busy), Some(false));
        busy.note(Event::Delete(server("a", Some("False"))));
        assert_eq!(upgradeable(&busy), Some(true));
    }

    fn writer(client: Client) -> Writer {
        Writer {
            api: Api::namespaced_with(client, "system", &resource()),
            name: "operator.v1".to_owned(),
            written: None,
        }
    }

    fn verdict(upgradeable: bool, message: &str) -> Verdict {
        Verdict {
            upgradeable,
            message: message.to_owned(),
        }
    }

    #[tokio::test]
    async fn an_answer_is_written_once_and_keeps_its_time() {
        let (client, mut cluster) = pair();
        let object = json!({
            "apiVersion": "operators.coreos.com/v2",
            "kind": "OperatorCondition",
            "metadata": {"name": "operator.v1", "namespace": "system"},
        });
        let answers = tokio::spawn(async move {
            let mut bodies = Vec::new();
            for _ in 0..3 {
                let request = cluster.next().await;
                assert_eq!(request.method, "PATCH");
                let path = "coreos.com/v2/namespaces/system/operatorconditions/operator.v1";
                assert!(request.path.contains(path), "{}", request.path);
                bodies.push(request.body["spec"]["conditions"][0].clone());
                request.answer(200, &object);
            }
            bodies
        });
        let mut writer = writer(client);
        assert!(writer.write(verdict(false, "a")).await);
        // The same again is no request.
        assert!(writer.write(verdict(false, "a")).await);
        assert!(writer.write(verdict(false, "b")).await);
        assert!(writer.write(verdict(true, "c")).await);
        let bodies = answers.await.unwrap();
        let statuses: Vec<&Value> = bodies.iter().map(|body| &body["status"]).collect();
        assert_eq!(statuses, ["False", "False", "True"]);
        let time = |index: usize| &bodies[index]["lastTransitionTime"];
        assert_eq!(time(0), time(1));
        assert!(time(0).is_string());
        assert_eq!(bodies[0]["type"], "Upgradeable");
    }

    #[tokio::test]
    async fn a_refused_answer_is_not_taken_for_written() {
        let (client, mut cluster) = pair();
        let refused = tokio::spawn(async move { cluster.next().await.refuse(404, "NotFound") });
        let mut writer = writer(client);
        assert!(!writer.write(verdict(true, "a")).await);
        refused.await.unwrap();
        assert!(writer.written.is_none());
    }
}
