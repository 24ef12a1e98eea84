//! The request to a cluster with OLM v0: a catalog, and the operator out of it.

use serde_json::{Value, json};

use super::catalog::FOLDER;
use super::release;
use crate::manifests::place::Place;

/// Name of the catalog in the cluster.
const CATALOG: &str = "reports-server";

/// Returns the objects, in the order in which they have to exist. OLM installs into the namespace of
/// the `OperatorGroup`, which is for all namespaces without a selector.
pub(super) fn request(place: &Place) -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": place.namespace});
    vec![
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": metadata(CATALOG),
            "spec": {
                "sourceType": "grpc",
                "image": release::catalog_image(place),
                "displayName": release::DISPLAY_NAME,
                "publisher": release::DISPLAY_NAME,
                "grpcPodConfig": {
                    // The image has files alone; OLM serves them by its own program.
                    "extractContent": {"catalogDir": FOLDER},
                    // The namespace takes no other pods.
                    "securityContextConfig": "restricted",
                },
            },
        }),
        json!({
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": metadata(release::PACKAGE),
            "spec": {},
        }),
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": metadata(release::PACKAGE),
            "spec": {
                "name": release::PACKAGE,
                "channel": release::CHANNEL,
                "source": CATALOG,
                "sourceNamespace": place.namespace,
                "installPlanApproval": "Automatic",
            },
        }),
    ]
}
