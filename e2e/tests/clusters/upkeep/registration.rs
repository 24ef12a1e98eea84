//! The APIServices that lead to the server, changed by others.

use std::time::Duration;

use crds::v1alpha1::reasons;
use crds::v1alpha1::status::MigrationPhase;
use e2e::takeover::{GROUPS, all_groups, is_ready};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::upkeep::{Ground, PAUSE, TOLD};

/// Longest time until an APIService that was changed is as it was.
const MENDED: Duration = Duration::from_secs(2);

/// Somebody has changed how the server is reached or verified, or leads clients elsewhere: it is put
/// back in the soak and after it, and told with who did it.
pub async fn is_put_right(ground: &Ground, reports: usize) {
    let services: Api<APIService> = Api::all(ground.line.client.clone());
    let found = services.list(&ListParams::default()).await.unwrap();
    let ours = found.items.iter().find(|service| {
        let group = service.spec.as_ref().and_then(|spec| spec.group.as_deref());
        group == Some(GROUPS[0])
    });
    let name = ours.unwrap().metadata.name.clone().unwrap();
    for soak in ["1h", "5s"] {
        ground.patch(json!({"migration": {"soak": soak}})).await;
        let soaks = soak == "1h";
        ground
            .follow("the soak", |server| {
                let soaking = |phase| phase == MigrationPhase::Soaking;
                is_ready(server) && all_groups(server, |phase| soaking(phase) == soaks)
            })
            .await;
        let damages = [
            ("none", json!({"caBundle": null})),
            ("ca", json!({"caBundle": "bm9uZQ=="})),
            ("port", json!({"service": {"port": 8443}})),
            ("away", json!({"service": {"name": "nobody"}})),
        ];
        for (what, damage) in damages {
            // It is led back a bounded number of times.
            if !soaks && what == "away" {
                continue;
            }
            let manager = format!("meddler-{what}-{soak}");
            let mended = mended(&services, &name, &damage, &manager);
            tokio::time::timeout(MENDED, mended)
                .await
                .unwrap_or_else(|_| panic!("{what} in {soak} is not put back in time"));
            shows(ground, reports).await;
            // Who takes a field away owns nothing that would name it.
            let named = if what == "none" { "somebody" } else { &manager };
            told_of(ground, &name, named).await;
        }
    }
    ground.follow("an end of it", is_ready).await;
}

/// Waits until clients are shown all reports.
async fn shows(ground: &Ground, reports: usize) {
    let shown = async {
        while ground.shown().await != Some(reports) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(TOLD, shown).await.unwrap();
}

/// Changes the specification of an APIService as `manager`, and waits until it is as it was.
async fn mended(services: &Api<APIService>, name: &str, damage: &Value, manager: &str) {
    let intact = services.get(name).await.unwrap().spec;
    let patch = Patch::Merge(json!({"spec": damage}));
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    services.patch(name, &params, &patch).await.unwrap();
    while services.get(name).await.unwrap().spec != intact {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for the event that an APIService was put back after what `manager` did.
async fn told_of(ground: &Ground, name: &str, manager: &str) {
    let events: Api<Event> = Api::all(ground.line.client.clone());
    let told = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            let told = all.items.iter().any(|event| {
                let note = event.note.as_deref().unwrap_or_default();
                event.reason.as_deref() == Some(reasons::API_SERVICE_RESTORED)
                    && note.contains(name)
                    && note.contains(manager)
            });
            if told {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(TOLD, told)
        .await
        .unwrap_or_else(|_| panic!("no event names {manager}"));
}
