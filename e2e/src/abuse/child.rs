//! The children of a `ReportsServer`, and what wrong hands do to them.

use kube::ResourceExt as _;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

/// A value that means nothing, as text and in Base64.
const NONSENSE: [&str; 2] = ["abused", "YWJ1c2Vk"];

/// Kind of a child. Volumes are left alone: who deletes one deletes the reports in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Child {
    /// The server's pods.
    Deployment,
    /// The database's pod.
    StatefulSet,
    /// The ways to server and database.
    Service,
    /// Settings of server and database, the specification that was accepted, a dashboard.
    ConfigMap,
    /// Certificates and the database's password.
    Secret,
    /// The server's identity.
    ServiceAccount,
    /// The server's rights in its own namespace.
    Role,
    /// The rights of server and operator there.
    RoleBinding,
    /// The server's rights in the cluster.
    ClusterRoleBinding,
    /// Pods that may be away.
    PodDisruptionBudget,
    /// The adaptation of the servers' number to their load.
    HorizontalPodAutoscaler,
    /// The times of backups.
    CronJob,
    /// Connections that are allowed.
    NetworkPolicy,
    /// The registrations of the report APIs and of the control API.
    ApiService,
}

/// A harm that is done to a child that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Harm {
    /// The part that it is there for is taken away.
    Emptied,
    /// It says something else.
    Changed,
    /// It has no labels.
    Unlabelled,
    /// It has no owner.
    Disowned,
}

impl Harm {
    /// Every harm.
    pub const ALL: [Self; 4] = [
        Self::Emptied,
        Self::Changed,
        Self::Unlabelled,
        Self::Disowned,
    ];
}

impl Child {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Deployment,
        Self::StatefulSet,
        Self::Service,
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::Role,
        Self::RoleBinding,
        Self::ClusterRoleBinding,
        Self::PodDisruptionBudget,
        Self::HorizontalPodAutoscaler,
        Self::CronJob,
        Self::NetworkPolicy,
        Self::ApiService,
    ];

    /// Returns how many of them a `ReportsServer` on a managed database has, so that each has its
    /// turn. A number that is too large or too small is no fault: it is counted round.
    #[must_use]
    pub fn usual(self) -> usize {
        match self {
            Self::Secret | Self::ConfigMap => 5,
            Self::Service | Self::RoleBinding | Self::ApiService | Self::NetworkPolicy => 3,
            Self::ClusterRoleBinding => 2,
            _ => 1,
        }
    }

    /// Returns the kind's name.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::Service => "Service",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::CronJob => "CronJob",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ApiService => "APIService",
        }
    }

    /// Returns the resource for dynamic clients.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let version = match self {
            Self::HorizontalPodAutoscaler => "v2",
            _ => "v1",
        };
        let (group, plural) = match self {
            Self::Deployment => ("apps", "deployments"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::Service => ("", "services"),
            Self::ConfigMap => ("", "configmaps"),
            Self::Secret => ("", "secrets"),
            Self::ServiceAccount => ("", "serviceaccounts"),
            Self::Role => ("rbac.authorization.k8s.io", "roles"),
            Self::RoleBinding => ("rbac.authorization.k8s.io", "rolebindings"),
            Self::ClusterRoleBinding => ("rbac.authorization.k8s.io", "clusterrolebindings"),
            Self::PodDisruptionBudget => ("policy", "poddisruptionbudgets"),
            Self::HorizontalPodAutoscaler => ("autoscaling", "horizontalpodautoscalers"),
            Self::CronJob => ("batch", "cronjobs"),
            Self::NetworkPolicy => ("networking.k8s.io", "networkpolicies"),
            Self::ApiService => ("apiregistration.k8s.io", "apiservices"),
        };
        let gvk = GroupVersionKind::gvk(group, version, self.kind());
        ApiResource::from_gvk_with_plural(&gvk, plural)
    }

    /// Returns whether it is in no namespace.
    #[must_use]
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Self::ClusterRoleBinding | Self::ApiService)
    }

    /// Returns the patch (RFC 7386) that does this to `object`.
    #[must_use]
    pub fn harmed(self, harm: Harm, object: &Value) -> Value {
        match harm {
            Harm::Unlabelled => json!({"metadata": {"labels": null}}),
            Harm::Disowned => json!({"metadata": {"ownerReferences": null}}),
            Harm::Emptied => self.emptied(),
            Harm::Changed => self.changed(object),
        }
    }

    /// Returns an object of this kind as a person would write it again, without what the
    /// kube-apiserver sets.
    #[must_use]
    pub fn bare(self, original: DynamicObject) -> DynamicObject {
        let name = original.name_any();
        let mut object = DynamicObject::new(&name, &self.resource()).data(original.data);
        if let Some(data) = object.data.as_object_mut() {
            data.remove("status");
        }
        object.metadata.namespace = original.metadata.namespace;
        object.metadata.labels = original.metadata.labels;
        object.metadata.annotations = original.metadata.annotations;
        object.metadata.owner_references = original.metadata.owner_references;
        object.metadata.finalizers = original.metadata.finalizers;
        object
    }

    /// Returns whether this is still done to `now`, which was `before`.
    #[must_use]
    pub fn is_harmed(self, harm: Harm, before: &Value, now: &Value) -> bool {
        let patch = self.harmed(harm, before);
        let has = |object: &Value| {
            let mut patched = object.clone();
            json_patch::merge(&mut patched, &patch);
            patched == *object
        };
        has(now) && !has(before)
    }

    fn emptied(self) -> Value {
        match self {
            Self::Deployment | Self::StatefulSet => json!({"spec": {"replicas": 0}}),
            Self::Service => json!({"spec": {"selector": {"abuse": "none"}}}),
            Self::ConfigMap | Self::Secret => json!({"data": null}),
            Self::ServiceAccount => json!({"automountServiceAccountToken": null}),
            Self::Role => json!({"rules": []}),
            Self::RoleBinding | Self::ClusterRoleBinding => json!({"subjects": []}),
            Self::PodDisruptionBudget => {
                json!({"spec": {"selector": {"matchLabels": {"abuse": "none"}}}})
            }
            Self::HorizontalPodAutoscaler => {
                json!({"spec": {"scaleTargetRef": {"name": "abused"}}})
            }
            Self::CronJob => json!({"spec": {"suspend": true}}),
            Self::NetworkPolicy => json!({"spec": {"ingress": [], "egress": []}}),
            Self::ApiService => json!({"spec": {"caBundle": null}}),
        }
    }

    fn changed(self, object: &Value) -> Value {
        match self {
            Self::Deployment => image("server"),
            Self::StatefulSet => image("postgres"),
            Self::Service => {
                let port = object["spec"]["ports"][0]["port"].as_i64().unwrap_or(443);
                json!({"spec": {"ports": [{"name": "abused", "port": port, "targetPort": 9}]}})
            }
            Self::ConfigMap => every(object, NONSENSE[0]),
            Self::Secret => every(object, NONSENSE[1]),
            Self::ServiceAccount => json!({"automountServiceAccountToken": true}),
            Self::Role => {
                json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
            }
            Self::RoleBinding | Self::ClusterRoleBinding => json!({"subjects": [
                {"kind": "ServiceAccount", "name": "abused", "namespace": "default"}]}),
            Self::PodDisruptionBudget => {
                json!({"spec": {"minAvailable": null, "maxUnavailable": 0}})
            }
            Self::HorizontalPodAutoscaler => {
                json!({"spec": {"minReplicas": 1, "maxReplicas": 1}})
            }
            Self::CronJob => json!({"spec": {"schedule": "* * * * *"}}),
            Self::NetworkPolicy => {
                json!({"spec": {"podSelector": {"matchLabels": {"abuse": "none"}}}})
            }
            Self::ApiService => json!({"spec": {"service": {"name": "abused"}}}),
        }
    }
}

/// Returns the patch that runs a container of an image that does not exist.
fn image(container: &str) -> Value {
    let image = "registry.example/abused:0";
    json!({"spec": {"template": {"spec": {"containers": [
        {"name": container, "image": image}]}}}})
}

/// Returns the patch that sets every key of `data`.
fn every(object: &Value, value: &str) -> Value {
    let keys = object["data"].as_object();
    let keys = keys.into_iter().flat_map(|data| data.keys());
    let data = keys.map(|key| (key.clone(), json!(value)));
    json!({"data": Value::Object(data.collect())})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_harm_changes_every_kind() {
        let object = json!({
            "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"name": "a"}]},
            "data": {"one": "1", "two": "2"},
            "spec": {"replicas": 2, "caBundle": "Y2E=", "ports": [{"port": 5432}],
                "minAvailable": 1, "ingress": [{}], "service": {"name": "a"}},
            "rules": [{}], "subjects": [{}], "automountServiceAccountToken": false,
        });
        for child in Child::ALL {
            for harm in Harm::ALL {
                let mut harmed = object.clone();
                json_patch::merge(&mut harmed, &child.harmed(harm, &object));
                assert_ne!(harmed, object, "{child:?} {harm:?}");
                assert!(
                    child.is_harmed(harm, &object, &harmed),
                    "{child:?} {harm:?}"
                );
                assert!(
                    !child.is_harmed(harm, &object, &object),
                    "{child:?} {harm:?}"
                );
                // What was so before is no harm.
                assert!(
                    !child.is_harmed(harm, &harmed, &harmed),
                    "{child:?} {harm:?}"
                );
            }
        }
    }

    #[test]
    fn nonsense_is_in_every_key_and_fits_the_kind() {
        let object = json!({"data": {"one": "1", "two": "2"}});
        let patch = Child::Secret.harmed(Harm::Changed, &object);
        assert_eq!(
            patch,
            json!({"data": {"one": NONSENSE[1], "two": NONSENSE[1]}})
        );
        let port = json!({"spec": {"ports": [{"port": 5432}]}});
        let patch = Child::Service.harmed(Harm::Changed, &port);
        assert_eq!(patch["spec"]["ports"][0]["port"], 5432);
    }

    #[test]
    fn an_object_is_made_again_from_what_people_write() {
        let original: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7",
                "labels": {"c": "d"}},
            "spec": {"replicas": 2}, "status": {"replicas": 1},
        }))
        .unwrap();
        let made = serde_json::to_value(Child::Deployment.bare(original)).unwrap();
        assert_eq!(
            made,
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "a", "namespace": "b", "labels": {"c": "d"}},
                "spec": {"replicas": 2}})
        );
    }
}
