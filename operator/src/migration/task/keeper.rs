//! The keeper of a group's route. Whoever changes an APIService that leads clients to the server cuts
//! them off, so it is put back at once, whatever step the group's own task carries out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crds::v1alpha1::reasons;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::runtime::events::{Event, EventType};
use kube::{Api, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::apiservice::{self, Damage};
use crate::events::{self, Publisher};
use crate::migration::cluster::wire::{Wire, WireError};
use crate::migration::cluster::{endpoints, operations};
use crate::migration::context::deps::Deps;
use crate::migration::plan::target::{GroupTarget, Owner};
use crate::said::said;

/// The time between two looks without a reason.
const SELDOM: Duration = Duration::from_mins(1);
/// Pause before a failed look is repeated.
const AGAIN: Duration = Duration::from_secs(1);
/// The time over which APIServices that were led back are counted.
const WINDOW: Duration = Duration::from_mins(10);
/// The number of times that APIServices are led back in that time: whoever leads them away again and
/// again has a server of their own, and it is for a person to decide.
const LED_BACK: usize = 3;
/// `action` of the events.
const ACTION: &str = "Keep";

/// The reason why a look failed.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    /// The APIServices cannot be listed.
    #[error("cannot list the APIServices: {}", said(.0))]
    List(#[source] Box<kube::Error>),
    /// One cannot be put back.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Looks whenever `wake` says that an APIService of the group has changed, until it is aborted or the
/// supervisor drops the target's sender.
pub async fn run(
    deps: Deps,
    owner: Owner,
    mut target: watch::Receiver<GroupTarget>,
    wake: Arc<Notify>,
) {
    // The group's own task tells that there is no client.
    let Ok(client) = endpoints::client(deps.config, &deps.term) else {
        return;
    };
    let mut keeper = Keeper {
        wire: Wire::new(client.clone()),
        services: Api::all(client),
        publisher: Publisher::new(deps.client, deps.reporter),
        owner,
        led_back: LedBack::default(),
    };
    let mut pause = SELDOM;
    loop {
        tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
            changed = target.changed() => if changed.is_err() {
                return;
            },
        }
        let wanted = target.borrow_and_update().clone();
        pause = match keeper.look(&wanted).await {
            Ok(()) => SELDOM,
            Err(error) => {
                tracing::warn!(group = wanted.group, %error, "an APIService is not put back yet");
                AGAIN
            }
        };
    }
}

struct Keeper {
    wire: Wire,
    services: Api<APIService>,
    publisher: Publisher,
    owner: Owner,
    led_back: LedBack,
}

impl Keeper {
    /// Puts every APIService of the group back that somebody has changed.
    async fn look(&mut self, target: &GroupTarget) -> Result<(), KeepError> {
        let all = self.services.list(&ListParams::default()).await;
        let all = all.map_err(|error| KeepError::List(Box::new(error)))?;
        for found in all.items.iter().filter(|found| is_of(found, target)) {
            if let Some(damage) = self.damage(found, target) {
                self.put_back(found, &damage, target).await?;
            }
        }
        Ok(())
    }

    fn damage(&self, found: &APIService, target: &GroupTarget) -> Option<Damage> {
        let (service, ca_bundle) = (&target.service, &target.ca_bundle);
        Damage::of(found, service, ca_bundle, &self.owner.name)
    }

    async fn put_back(
        &mut self,
        found: &APIService,
        damage: &Damage,
        target: &GroupTarget,
    ) -> Result<(), KeepError> {
        let name = found.name_any();
        // Where our server does not answer either, nothing is gained.
        let ready = target.server_ready && target.control_available;
        let away = matches!(damage, Damage::LedAway(_));
        if away && (!ready || !self.led_back.may(Instant::now())) {
            tracing::warn!(name, ?damage, ready, "an APIService is left as it is");
            return Ok(());
        }
        let build = |current: &APIService| {
            self.damage(current, target)
                .map(|_| apiservice::refresh_patch(current, &target.service, &target.ca_bundle))
        };
        let path = operations::api_service_path(&name);
        // The group's task may have put it back before, and told so.
        let Some(before) = operations::patch_json(&self.wire, &path, build)
            .await?
            .before
        else {
            return Ok(());
        };
        if away {
            self.led_back.note(Instant::now());
        }
        let (service, ca_bundle) = (&target.service, &target.ca_bundle);
        if let Some(note) = apiservice::restored(&before, service, ca_bundle, &self.owner.name) {
            tracing::warn!(note, "put back");
            self.tell(&target.group, &note).await;
        }
        Ok(())
    }

    async fn tell(&self, group: &str, note: &str) {
        let group = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("APIGroup".to_owned()),
            name: Some(group.to_owned()),
            ..ObjectReference::default()
        };
        let event = Event {
            action: ACTION.to_owned(),
            secondary: Some(group),
            ..events::event(EventType::Warning, reasons::API_SERVICE_RESTORED, note)
        };
        events::publish(&self.publisher, &self.owner.reference(), vec![event]).await;
    }
}

/// Returns whether an APIService is one of the group.
fn is_of(found: &APIService, target: &GroupTarget) -> bool {
    let group = found.spec.as_ref().and_then(|spec| spec.group.as_deref());
    group == Some(target.group.as_str())
}

/// The times at which APIServices were led back from other Services.
#[derive(Default)]
struct LedBack(VecDeque<Instant>);

impl LedBack {
    /// Returns whether one may be led back once more.
    fn may(&mut self, now: Instant) -> bool {
        while self
            .0
            .front()
            .is_some_and(|at| now.duration_since(*at) >= WINDOW)
        {
            self.0.pop_front();
        }
        self.0.len() < LED_BACK
    }

    fn note(&mut self, now: Instant) {
        self.0.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::events::Reporter;
    use serde_json::{Value, json};

    use super::*;
    use crate::migration::plan::tests::target;
    use crate::testing::{Server, pair};

    /// Returns an APIService of a group that `manager` has given another CA bundle and `service`.
    fn changed(group: &str, service: &str, manager: &str) -> Value {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("v1.{group}"), "resourceVersion": "7",
                "annotations": {"reports-server.io/claimed-by": "prod"},
                "managedFields": [{"manager": manager, "operation": "Update",
                    "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {"f:spec": {"f:caBundle": {}, "f:service": {}}}}]},
            "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1, "caBundle": "b3RoZXI=",
                "service": {"namespace": "reports", "name": service, "port": 443}}})
    }

    fn list(items: &[Value]) -> Value {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIServiceList",
            "metadata": {}, "items": items})
    }

    /// Returns a keeper and the kube-apiserver that it talks to.
    fn keeper() -> (Keeper, Server) {
        let (client, server) = pair();
        let keeper = Keeper {
            wire: Wire::new(client.clone()),
            services: Api::all(client.clone()),
            publisher: Publisher::new(client, Reporter::from("operator")),
            owner: Owner {
                name: "prod".to_owned(),
                uid: "u".to_owned(),
                api_version: "reports-server.io/v1alpha1".to_owned(),
                kind: "ReportsServer".to_owned(),
            },
            led_back: LedBack::default(),
        };
        (keeper, server)
    }

    #[tokio::test]
    async fn what_somebody_has_changed_is_put_back_and_told() {
        let target = target();
        for service in ["s", "another"] {
            let (mut keeper, mut server) = keeper();
            let wanted = target.clone();
            let look = tokio::spawn(async move { keeper.look(&wanted).await });
            let ours = changed(&target.group, service, "kubectl-edit");
            let others = changed("other.example", service, "kubectl-edit");
            server
                .next()
                .await
                .answer(200, &list(&[others, ours.clone()]));
            server.next().await.answer(200, &ours);
            let patch = server.next().await;
            assert_eq!(patch.method, "PATCH");
            assert!(
                patch
                    .path
                    .contains(&format!("/apiservices/v1.{}", target.group))
            );
            let mut mended = ours.clone();
            let operations: json_patch::Patch = serde_json::from_value(patch.body.clone()).unwrap();
            json_patch::patch(&mut mended, &operations).unwrap();
            assert_eq!(mended["spec"]["caBundle"], "UEVN");
            assert_eq!(mended["spec"]["service"]["name"], "s");
            patch.answer(200, &mended);
            let event = server.next().await;
            let note = event.body["note"].as_str().unwrap().to_owned();
            assert_eq!(event.body["reason"], reasons::API_SERVICE_RESTORED);
            assert!(note.contains("\"kubectl-edit\""), "{note}");
            let body = event.body.clone();
            event.answer(201, &body);
            look.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_ready_is_not_led_back_to() {
        let (mut keeper, mut server) = keeper();
        let mut target = target();
        target.server_ready = false;
        let away = changed(&target.group, "another", "helm");
        let look = tokio::spawn(async move { keeper.look(&target).await });
        server.next().await.answer(200, &list(&[away]));
        // The mock answers nothing more: a PATCH would not end.
        look.await.unwrap().unwrap();
    }

    #[test]
    fn whoever_leads_it_away_again_and_again_is_left_to_a_person() {
        let mut led_back = LedBack::default();
        let now = Instant::now();
        for _ in 0..LED_BACK {
            assert!(led_back.may(now));
            led_back.note(now);
        }
        assert!(!led_back.may(now + WINDOW / 2));
        assert!(led_back.may(now + WINDOW));
    }
}
