//! Names that the project puts into a cluster: API group, labels, annotations, finalizer, field
//! managers and the names of a `ReportsServer`'s children.
//!
//! Every key of ours starts with [`API_GROUP`], so that one `grep` finds all of them.

/// API group of `ReportsServer`, and prefix of every label, annotation and finalizer of ours.
///
/// It must never be a group that the server serves: an `APIService` captures the whole
/// `/apis/<group>/<version>`, so the resource would vanish behind our own server at the switch.
pub const API_GROUP: &str = "reports-server.io";

/// Field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "reports-server-operator";
/// Field manager of the operator's status writes.
pub const STATUS_FIELD_MANAGER: &str = "reports-server-operator-status";
/// Name under which the operator records events and takes its Lease.
pub const CONTROLLER: &str = "reports-server-operator";

/// Finalizer: the `APIServices` have to be given back (or orphaned) before the object goes.
pub const FINALIZER: &str = "reports-server.io/apiservices";

/// Label on every child: name of the `ReportsServer` that it belongs to.
pub const LABEL_OWNER: &str = "reports-server.io/name";
/// Label on a namespace, with the value `true`: a `ReportsServer` may have it as its target.
pub const LABEL_TARGET: &str = "reports-server.io/target";
/// Label on a namespace: the Pod Security Standard that Kubernetes enforces there.
pub const LABEL_POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
/// Label that the kube-apiserver keeps on an `APIService` which it made from a CRD, and manages
/// itself while the value is `true`.
pub const LABEL_AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The additional version of a CRD through which etcd is reached while our server serves its group.
pub const SIDE_DOOR: &str = "legacy";

/// Well-known label: what the thing is an instance of; [`APP_NAME`] on every child.
pub const LABEL_APP_NAME: &str = "app.kubernetes.io/name";
/// Well-known label: role within the application.
pub const LABEL_APP_COMPONENT: &str = "app.kubernetes.io/component";
/// Well-known label: the application as a whole.
pub const LABEL_APP_PART_OF: &str = "app.kubernetes.io/part-of";
/// Well-known label: who manages it; [`FIELD_MANAGER`] on every child.
pub const LABEL_APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_APP_NAME`] and [`LABEL_APP_PART_OF`] on children.
pub const APP_NAME: &str = "reports-server";

/// Annotation on a `ReportsServer`: a token of the user's choice; the operator reconciles at once
/// and answers with the same token in `status.lastHandledRequest`.
pub const ANNOTATION_REQUEST: &str = "reports-server.io/request";
/// Annotation on a `ReportsServer`, its value the object's name: without it
/// `deletionPolicy.data: Delete` keeps the data.
pub const ANNOTATION_CONFIRM_DATA_DELETION: &str = "reports-server.io/confirm-data-deletion";
/// Annotation on a `ReportsServer` that is being deleted, its value the object's name: leave the
/// `APIServices` as they are, because the CRDs to give them back to are gone for good.
pub const ANNOTATION_ABANDON_APIS: &str = "reports-server.io/abandon-apis";
/// Annotation on a `ReportsServer`, its value `status.database.history`: those reports are given up,
/// and the database that the connection leads to is begun anew. It counts once, and only while no
/// API group is served.
pub const ANNOTATION_BEGIN_ANEW: &str = "reports-server.io/begin-anew";
/// Annotation on an `APIService`: name of the `ReportsServer` that switched it.
pub const ANNOTATION_CLAIMED_BY: &str = "reports-server.io/claimed-by";
/// Annotation on an admission policy, a webhook configuration or a quota, with the value `true`: it
/// need not have an effect on reports that the server serves.
pub const ANNOTATION_ACCEPT_BYPASS: &str = "reports-server.io/accept-bypass";

/// Annotation on a `ServiceAccount`, its value the name of a `ReportsServer`: the pods of that one
/// may run as the account.
pub const ANNOTATION_ALLOW_USE: &str = "reports-server.io/allow-use";

/// Annotation on the server's pods: the uid of their `ServiceAccount`.
pub const ANNOTATION_ACCOUNT_UID: &str = "reports-server.io/service-account-uid";

/// Annotation on an operator's Lease: the name of its `ServiceAccount`.
pub const ANNOTATION_OPERATOR_ACCOUNT: &str = "reports-server.io/operator-account";

/// Longest name of a `ReportsServer`, in characters: the children's suffixes have to fit behind
/// it into a DNS label (63).
pub const MAX_NAME_LENGTH: usize = 40;

/// Returns the name of the Deployment, Service and `ServiceAccount` of a `ReportsServer`.
#[must_use]
pub fn server(name: &str) -> String {
    format!("{name}-server")
}

/// Returns the name of the `PersistentVolumeClaim` that holds the embedded database.
#[must_use]
pub fn data(name: &str) -> String {
    format!("{name}-data")
}

/// Returns the name of the `ConfigMap` with what is not secret about the connection to PostgreSQL.
#[must_use]
pub fn database(name: &str) -> String {
    format!("{name}-database")
}

/// Returns the name of the `Cluster` of `CloudNativePG`, where one is made. `CloudNativePG` takes
/// up to 50 characters.
#[must_use]
pub fn postgres_cluster(name: &str) -> String {
    format!("{name}-postgres")
}

/// Returns the name of the `StatefulSet`, Service, `ConfigMap` and Secret of a PostgreSQL that the
/// operator runs.
#[must_use]
pub fn postgres(name: &str) -> String {
    format!("{name}-postgres")
}

/// Returns the name of the `ConfigMap` that tells the server which groups to serve.
#[must_use]
pub fn config(name: &str) -> String {
    format!("{name}-config")
}

/// Returns the name of the Secret with the certificate authority.
#[must_use]
pub fn ca(name: &str) -> String {
    format!("{name}-ca")
}

/// Returns the name of the Secret with the server's serving certificate.
#[must_use]
pub fn serving_cert(name: &str) -> String {
    format!("{name}-serving-cert")
}

/// Returns the name of a cluster-scoped RBAC object: `reports-server:NAME:ROLE`.
#[must_use]
pub fn rbac(name: &str, role: &str) -> String {
    format!("reports-server:{name}:{role}")
}

/// Returns the name of the admission policy, and of its binding, that guard the side doors of a group.
#[must_use]
pub fn side_door_policy(group: &str) -> String {
    format!("reports-server-side-door.{group}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_ours_has_the_group_as_prefix() {
        for key in [
            FINALIZER,
            LABEL_OWNER,
            LABEL_TARGET,
            ANNOTATION_REQUEST,
            ANNOTATION_CONFIRM_DATA_DELETION,
            ANNOTATION_ABANDON_APIS,
            ANNOTATION_BEGIN_ANEW,
            ANNOTATION_CLAIMED_BY,
            ANNOTATION_ACCEPT_BYPASS,
            ANNOTATION_ALLOW_USE,
            ANNOTATION_ACCOUNT_UID,
            ANNOTATION_OPERATOR_ACCOUNT,
        ] {
            let (prefix, name) = key.split_once('/').unwrap();
            assert_eq!(prefix, API_GROUP, "{key}");
            assert!(!name.is_empty() && name.len() <= 63, "{key}");
        }
    }

    #[test]
    fn the_longest_name_leaves_room_for_every_child() {
        let name = "a".repeat(MAX_NAME_LENGTH);
        for child in [
            server(&name),
            data(&name),
            database(&name),
            postgres(&name),
            config(&name),
            ca(&name),
            serving_cert(&name),
        ] {
            assert!(child.len() <= 63, "{child}");
        }
    }
}
