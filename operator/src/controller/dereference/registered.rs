//! The APIServices that point to a server.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt;

use crate::apiservice::{Holder, ServiceRef, holder};
use crate::controller::found::Registered;
use crate::names::SERVICE_PORT;

/// Returns the Service of the server.
#[must_use]
pub fn service_ref(namespace: &str, name: String) -> ServiceRef {
    let port = u16::try_from(SERVICE_PORT).unwrap_or(443);
    ServiceRef {
        namespace: namespace.to_owned(),
        name,
        port,
    }
}

/// Returns the APIServices that point to `service`.
#[must_use]
pub fn of_service<'a>(
    api_services: impl IntoIterator<Item = &'a APIService>,
    service: &ServiceRef,
) -> Vec<Registered> {
    let ours = |object: &&APIService| holder(Some(object), service) == Holder::Ours;
    let registered = |object: &APIService| {
        let spec = object.spec.as_ref()?;
        let ca_bundle = spec.ca_bundle.as_ref().map(|bundle| bundle.0.clone());
        Some(Registered {
            group: spec
                .group
                .clone()
                .unwrap_or_else(|| group_of(&object.name_any())),
            ca_bundle: ca_bundle.unwrap_or_default(),
        })
    };
    api_services
        .into_iter()
        .filter(ours)
        .filter_map(registered)
        .collect()
}

/// Returns the group in the name of an APIService, `<version>.<group>`.
fn group_of(name: &str) -> String {
    name.split_once('.')
        .map_or_else(String::new, |(_, group)| group.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_api_services_of_the_own_service_count() {
        let of = |group: &str, service: serde_json::Value| -> APIService {
            serde_json::from_value(json!({
                "metadata": {"name": format!("v1.{group}")},
                "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1,
                    "versionPriority": 1, "service": service, "caBundle": "YQ=="},
            }))
            .unwrap()
        };
        let all = [
            of(
                "ours.example",
                json!({"namespace": "ns", "name": "a-server", "port": 443}),
            ),
            of(
                "other.example",
                json!({"namespace": "ns", "name": "b-server"}),
            ),
            of("local.example", json!(null)),
        ];
        let found = of_service(&all, &service_ref("ns", "a-server".into()));
        assert_eq!(
            found,
            [Registered {
                group: "ours.example".into(),
                ca_bundle: b"a".to_vec()
            }]
        );
    }
}
