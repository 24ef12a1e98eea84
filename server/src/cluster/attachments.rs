//! The API versions that the kube-aggregator sends here: read from the APIServices.
//!
//! Somebody may delete or change an APIService while we serve. Then the CRD answers at some
//! kube-apiservers and we do at others, until the operator has put it back. An object that is
//! written here in between may be written there as well, so requests wait meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Namespace and name of a Service; none for an API that the kube-apiserver serves itself.
type Service = Option<(String, String)>;

/// The content of the APIServices. While they are not known, everything counts as attached.
#[derive(Debug, Default)]
struct Known {
    /// The Services by the name of the APIService, `<version>.<group>`.
    services: HashMap<String, Service>,
    /// The services of a list that is being read.
    listed: Option<HashMap<String, Service>>,
    complete: bool,
}

impl Known {
    fn take(&mut self, event: Event<APIService>) {
        match event {
            Event::Init => self.listed = Some(HashMap::new()),
            Event::InitApply(object) => {
                let (name, service) = describe(object);
                self.listed.get_or_insert_default().insert(name, service);
            }
            Event::InitDone => {
                self.services = self.listed.take().unwrap_or_default();
                self.complete = true;
            }
            Event::Apply(object) => {
                let (name, service) = describe(object);
                self.services.insert(name, service);
            }
            Event::Delete(object) => {
                self.services.remove(&describe(object).0);
            }
        }
    }

    /// Returns whether requests for a version are sent elsewhere. Ours is the Service that the
    /// control API is registered with; without it the answer is not known.
    fn is_detached(&self, group: &str, version: &str) -> bool {
        let control = format!("{}.{}", crds::control::VERSION, crds::control::GROUP);
        let Some(ours @ Some(_)) = self.services.get(&control) else {
            return false;
        };
        let found = self.services.get(&format!("{version}.{group}"));
        self.complete && found != Some(ours)
    }
}

fn describe(object: APIService) -> (String, Service) {
    let service = object.spec.and_then(|spec| spec.service);
    let service = service.map(|service| {
        (
            service.namespace.unwrap_or_default(),
            service.name.unwrap_or_default(),
        )
    });
    (object.metadata.name.unwrap_or_default(), service)
}

/// The API versions that are attached. See the module.
#[derive(Debug, Default)]
pub struct Attachments(watch::Sender<Known>);

impl Attachments {
    /// Follows the APIServices; the future does so until it is dropped.
    pub fn watch(client: Client) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        let this = Arc::new(Self::default());
        let known = Arc::clone(&this);
        let follow = async move {
            let services: Api<APIService> = Api::all(client);
            let events = watcher::watcher(services, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                known.0.send_modify(|known| match event {
                    Ok(event) => known.take(event),
                    Err(error) => {
                        tracing::warn!(%error, "watching the APIServices");
                        known.complete = false;
                    }
                });
            }
        };
        (this, follow)
    }

    /// Returns whether requests for a version are sent here, as far as that is known.
    #[must_use]
    pub fn is_attached(&self, group: &str, version: &str) -> bool {
        !self.0.borrow().is_detached(group, version)
    }

    /// Waits until requests for a version are sent here, as far as that is known; returns false
    /// when this does not happen by `patience`.
    pub async fn attached(&self, group: &str, version: &str, patience: Instant) -> bool {
        let mut known = self.0.subscribe();
        let attached = known.wait_for(|known| !known.is_detached(group, version));
        timeout_at(patience, attached).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, service: Option<&str>) -> APIService {
        let service = service.map(|name| json!({"namespace": "n", "name": name}));
        serde_json::from_value(json!({"metadata": {"name": name},
            "spec": {"groupPriorityMinimum": 1, "versionPriority": 1, "service": service}}))
        .unwrap()
    }

    fn known(all: &[(&str, Option<&str>)]) -> Known {
        let mut known = Known::default();
        known.take(Event::Init);
        for (name, of) in all {
            known.take(Event::InitApply(service(name, *of)));
        }
        known.take(Event::InitDone);
        known
    }

    const CONTROL: &str = "v1alpha1.control.reports-server.io";

    #[test]
    fn a_version_is_attached_while_it_has_the_service_of_the_control_api() {
        let mut all = known(&[(CONTROL, Some("us")), ("v1.g.io", Some("us"))]);
        assert!(!all.is_detached("g.io", "v1"));
        // Deleted by hand, and made anew by the kube-apiserver for the CRD.
        all.take(Event::Delete(service("v1.g.io", Some("us"))));
        assert!(all.is_detached("g.io", "v1"));
        all.take(Event::Apply(service("v1.g.io", None)));
        assert!(all.is_detached("g.io", "v1"));
        all.take(Event::Apply(service("v1.g.io", Some("us"))));
        assert!(!all.is_detached("g.io", "v1"));
    }

    #[test]
    fn what_is_not_known_counts_as_attached() {
        assert!(!Known::default().is_detached("g.io", "v1"));
        assert!(!known(&[("v1.g.io", None)]).is_detached("g.io", "v1"));
        let mut lost = known(&[(CONTROL, Some("us")), ("v1.g.io", None)]);
        lost.complete = false;
        assert!(!lost.is_detached("g.io", "v1"));
    }
}
