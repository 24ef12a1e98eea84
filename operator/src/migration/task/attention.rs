//! A watch on the APIServices, which notices at once that somebody has put another server in charge
//! of a version, or none, or has changed the route to it: the tasks would see it only with their
//! next look.

use std::collections::HashMap;

use futures::StreamExt;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};

/// The part of an APIService that decides which server answers, and how it is verified.
#[derive(Debug, Default, PartialEq, Eq)]
struct Registration {
    /// Namespace, name and port of the Service.
    service: Option<(String, String, Option<i32>)>,
    ca_bundle: Option<Vec<u8>>,
    insecure: bool,
}

impl Registration {
    fn of(spec: APIServiceSpec) -> Self {
        let service = spec.service.map(|service| {
            let (namespace, name) = (service.namespace, service.name);
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            (namespace, name, service.port)
        });
        Self {
            service,
            ca_bundle: spec.ca_bundle.map(|bundle| bundle.0),
            insecure: spec.insecure_skip_tls_verify == Some(true),
        }
    }
}

/// Follows the APIServices for ever, and tells `notify` of each API group of which a version is
/// answered by another Service than before, or reached in another way.
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

/// Registrations by name of the APIService.
#[derive(Default)]
struct Known(HashMap<String, Registration>);

impl Known {
    /// Returns the group of which a version has changed.
    fn changed(&mut self, event: Event<APIService>) -> Option<String> {
        let (object, there) = match event {
            Event::Apply(object) | Event::InitApply(object) => (object, true),
            Event::Delete(object) => (object, false),
            Event::Init | Event::InitDone => return None,
        };
        let name = object.metadata.name.unwrap_or_default();
        let spec = object.spec?;
        let group = spec.group.clone();
        if !there {
            self.0.remove(&name);
            return group;
        }
        let now = Registration::of(spec);
        if self.0.get(&name) == Some(&now) {
            return None;
        }
        self.0.insert(name, now);
        group
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
    fn only_a_change_that_clients_notice_is_told() {
        let mut known = Known::default();
        let group = Some("g.io".to_owned());
        assert_eq!(known.changed(Event::Apply(service(None))), group);
        assert_eq!(known.changed(Event::Apply(service(None))), None);
        assert_eq!(known.changed(Event::Apply(service(Some("us")))), group);
        assert_eq!(known.changed(Event::InitApply(service(Some("us")))), None);
        let mut damaged = service(Some("us"));
        if let Some(spec) = &mut damaged.spec {
            spec.ca_bundle = Some(k8s_openapi::ByteString(b"other".to_vec()));
        }
        damaged.metadata.resource_version = Some("9".to_owned());
        assert_eq!(known.changed(Event::Apply(damaged.clone())), group);
        damaged.metadata.resource_version = Some("10".to_owned());
        assert_eq!(known.changed(Event::Apply(damaged)), None);
        assert_eq!(known.changed(Event::Delete(service(Some("us")))), group);
    }
}
