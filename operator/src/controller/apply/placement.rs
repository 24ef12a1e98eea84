//! The nodes for the pod of a database that the operator runs.
//!
//! It has its place from the fields of the server's pods, and is replaced in place: a place that no
//! node offers would take the database away. A new pod of the server comes beside those that serve. So
//! the database follows when one was placed and serves.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec, Toleration};
use kube::{Client, ResourceExt};

use super::child::{inside, refused_to};
use super::error::Error;
use crate::controller::workload;

/// Returns the database to apply: with its present place, while it serves and the server has not
/// reached the new one.
///
/// # Errors
/// If the database or the server cannot be read.
pub(super) async fn reached(
    client: &Client,
    wanted: StatefulSet,
    server: &Deployment,
) -> Result<StatefulSet, Error> {
    let present = inside(client, &wanted).get_opt(&wanted.name_any()).await;
    let present = present.map_err(|source| refused_to(&wanted, source))?;
    let Some(present) = present.filter(|present| is_elsewhere(present, &wanted)) else {
        return Ok(wanted);
    };
    let ahead = inside(client, server).get_opt(&server.name_any()).await;
    let ahead = ahead.map_err(|source| refused_to(server, source))?;
    if ahead.is_some_and(|ahead| has_reached(&ahead, server)) {
        return Ok(wanted);
    }
    Ok(kept(wanted, &present))
}

/// Returns whether the database serves at another place than the one that is wanted.
fn is_elsewhere(present: &StatefulSet, wanted: &StatefulSet) -> bool {
    workload::is_database_ready(present)
        && Place::of_database(present) != Place::of_database(wanted)
}

/// Returns whether the server's pods serve at the place that is wanted.
fn has_reached(present: &Deployment, wanted: &Deployment) -> bool {
    workload::is_ready(present) && Place::of_server(present) == Place::of_server(wanted)
}

/// Returns the database that is wanted, at its present place.
fn kept(mut wanted: StatefulSet, present: &StatefulSet) -> StatefulSet {
    let pod = wanted
        .spec
        .as_mut()
        .and_then(|spec| spec.template.spec.as_mut());
    if let Some(pod) = pod {
        Place::of_database(present).give(pod);
    }
    wanted
}

/// The fields of a pod that decide which nodes can have it.
#[derive(PartialEq)]
struct Place {
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    priority_class: Option<String>,
}

impl Place {
    fn of_database(set: &StatefulSet) -> Self {
        Self::of(set.spec.as_ref().map(|spec| &spec.template))
    }

    fn of_server(server: &Deployment) -> Self {
        Self::of(server.spec.as_ref().map(|spec| &spec.template))
    }

    fn of(template: Option<&PodTemplateSpec>) -> Self {
        let pod = template.and_then(|template| template.spec.clone());
        let pod = pod.unwrap_or_default();
        Self {
            node_selector: pod.node_selector.unwrap_or_default(),
            tolerations: pod.tolerations.unwrap_or_default(),
            priority_class: pod.priority_class_name,
        }
    }

    fn give(self, pod: &mut PodSpec) {
        pod.node_selector = Some(self.node_selector).filter(|nodes| !nodes.is_empty());
        pod.tolerations = Some(self.tolerations).filter(|taints| !taints.is_empty());
        pod.priority_class_name = self.priority_class;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::pair;

    fn template(zone: Option<&str>) -> Value {
        let pod = match zone {
            Some(zone) => json!({"containers": [], "nodeSelector": {"zone": zone}}),
            None => json!({"containers": []}),
        };
        json!({"spec": pod})
    }

    fn database(zone: Option<&str>, ready: i32) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "reports"},
            "spec": {"selector": {}, "serviceName": "db", "template": template(zone)},
            "status": {"replicas": 1, "readyReplicas": ready},
        }))
        .unwrap()
    }

    fn server(zone: Option<&str>, available: i32) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "server", "namespace": "reports"},
            "spec": {"selector": {}, "replicas": 1, "template": template(zone)},
            "status": {"updatedReplicas": available, "availableReplicas": available},
        }))
        .unwrap()
    }

    #[rstest]
    #[case::the_server_is_there(database(Some("a"), 1), Some(server(Some("b"), 1)), Some("b"))]
    #[case::the_server_waits(database(Some("a"), 1), Some(server(Some("b"), 0)), Some("a"))]
    #[case::the_server_is_not_told_yet(database(None, 1), Some(server(None, 1)), None)]
    #[case::there_is_no_server(database(Some("a"), 1), None, Some("a"))]
    #[case::nothing_is_lost(database(Some("a"), 0), None, Some("b"))]
    #[tokio::test]
    async fn a_database_that_serves_follows_the_server(
        #[case] present: StatefulSet,
        #[case] ahead: Option<Deployment>,
        #[case] expected: Option<&str>,
    ) {
        let (client, mut kube_apiserver) = pair();
        let asked = tokio::spawn(async move {
            let wanted = database(Some("b"), 0);
            reached(&client, wanted, &server(Some("b"), 0)).await
        });
        while let Some(request) = kube_apiserver.next_if_any().await {
            let found = if request.path.ends_with("/statefulsets/db") {
                Some(json!(present))
            } else {
                ahead.as_ref().map(|ahead| json!(ahead))
            };
            match found {
                Some(found) => request.answer(200, &found),
                None => request.refuse(404, "NotFound"),
            }
        }
        let reached = asked.await.unwrap().unwrap();
        let pod = reached.spec.unwrap().template.spec.unwrap();
        let zone = pod
            .node_selector
            .and_then(|nodes| nodes.get("zone").cloned());
        assert_eq!(zone.as_deref(), expected);
    }
}
