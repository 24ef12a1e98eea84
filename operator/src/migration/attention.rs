//! Notices at once that somebody has put another server in charge of a version, or nobody: the
//! tasks would see it only with their next look.

use std::collections::HashMap;

use futures::StreamExt;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};

/// Namespace and name of the Service that an APIService points to.
type Service = Option<(String, String)>;

/// Follows the APIServices for ever, and tells `notify` of each API group for a version of which
/// another Service, or none, is in charge than before.
pub async fn follow(client: Client, notify: impl Fn(&str)) {
    let services: Api<APIService> = Api::all(client);
    let events = watcher::watcher(services, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut known = Known::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if let Some(group) = known.changed(event) {
                    notify(&group);
                }
            }
            Err(error) => tracing::warn!(%error, "watching the APIServices"),
        }
    }
}

/// Who is in charge, by name of the APIService.
#[derive(Default)]
struct Known(HashMap<String, Service>);

impl Known {
    /// The group of which a version has changed hands.
    fn changed(&mut self, event: Event<APIService>) -> Option<String> {
        let (object, there) = match event {
            Event::Apply(object) | Event::InitApply(object) => (object, true),
            Event::Delete(object) => (object, false),
            Event::Init | Event::InitDone => return None,
        };
        let name = object.metadata.name.unwrap_or_default();
        let spec = object.spec?;
        let service = spec.service.map(|service| {
            (
                service.namespace.unwrap_or_default(),
                service.name.unwrap_or_default(),
            )
        });
        let before = if there {
            self.0.insert(name, service.clone())
        } else {
            self.0.remove(&name);
            return spec.group;
        };
        (before != Some(service)).then_some(spec.group).flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(service: Option<&str>) -> APIService {
        let service = service.map(|name| json!({"namespace": "n", "name": name}));
        serde_json::from_value(
            json!({"metadata": {"name": "v1.g.io"}, "spec": {"group": "g.io",
            "groupPriorityMinimum": 1, "versionPriority": 1, "service": service}}),
        )
        .unwrap()
    }

    #[test]
    fn only_a_change_of_hands_is_told() {
        let mut known = Known::default();
        let group = Some("g.io".to_owned());
        assert_eq!(known.changed(Event::Apply(service(None))), group);
        assert_eq!(known.changed(Event::Apply(service(None))), None);
        assert_eq!(known.changed(Event::Apply(service(Some("us")))), group);
        assert_eq!(known.changed(Event::InitApply(service(Some("us")))), None);
        assert_eq!(known.changed(Event::Delete(service(Some("us")))), group);
    }
}
