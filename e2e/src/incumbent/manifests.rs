//! The incumbent's own manifests, as they are and without the parts that need a node.

use std::path::Path;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{IncumbentError, NAME};

/// Kinds that it needs of an API, no matter who starts its program.
const WITHOUT_PODS: [&str; 7] = [
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
];

/// The objects of `install.yaml`, in their order.
#[derive(Clone, Debug)]
pub struct Manifests(Vec<Value>);

impl Manifests {
    /// Reads them from the folder that [`super::parts`] returns.
    ///
    /// # Errors
    /// If the file cannot be read, or is not YAML.
    pub fn read(parts: &Path) -> Result<Self, IncumbentError> {
        let path = parts.join("install.yaml");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| IncumbentError::File { path, source })?;
        let objects = serde_yaml::Deserializer::from_str(&text)
            .map(Value::deserialize)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| IncumbentError::Manifests(error.to_string()))?;
        Ok(Self(objects.into_iter().filter(|o| !o.is_null()).collect()))
    }

    /// Returns the objects that a program outside of a pod needs. Its Services select no pods: the
    /// address of the program is added by hand.
    #[must_use]
    pub fn without_pods(mut self) -> Self {
        self.0.retain(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            let database = object["metadata"]["labels"]["app.kubernetes.io/name"] == "postgresql";
            WITHOUT_PODS.contains(&kind) && !database
        });
        for service in self.0.iter_mut().filter(|o| o["kind"] == "Service") {
            if let Some(spec) = service["spec"].as_object_mut() {
                spec.remove("selector");
            }
        }
        self
    }

    /// Returns the objects with images that exist: the incumbent's own, and that of `hack/image
    /// postgres` for its database, whose account and variables are those of the official image.
    ///
    /// # Errors
    /// If a Deployment or `StatefulSet` is not where it was.
    pub fn with_images(mut self, own: &str, postgres: &str) -> Result<Self, IncumbentError> {
        let deployment = self.workload("Deployment", NAME)?;
        container(deployment)?["image"] = json!(own);
        let database = self.workload("StatefulSet", "reports-server-postgresql")?;
        database["spec"]["template"]["spec"]["securityContext"]["fsGroup"] = json!(999);
        let container = container(database)?;
        container["image"] = json!(postgres);
        container["securityContext"]["runAsUser"] = json!(999);
        // A node of the tests has two cores for everything.
        container["resources"] = json!({"requests": {"cpu": "50m", "memory": "64Mi"}});
        if let Some(variables) = container["env"].as_array_mut() {
            variables.push(json!({"name": "POSTGRES_DB", "value": "reportsdb"}));
        }
        Ok(self)
    }

    /// Returns the objects for `kubectl apply -f -`.
    #[must_use]
    pub fn list(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "items": self.0})
    }

    fn workload(&mut self, kind: &str, name: &str) -> Result<&mut Value, IncumbentError> {
        let mut objects = self.0.iter_mut();
        objects
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .ok_or_else(|| IncumbentError::Manifests(format!("there is no {kind} {name}")))
    }
}

fn container(workload: &mut Value) -> Result<&mut Value, IncumbentError> {
    workload
        .pointer_mut("/spec/template/spec/containers/0")
        .ok_or_else(|| IncumbentError::Manifests("a workload has no container".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifests() -> Manifests {
        let pods = |name: &str, user: i64| {
            json!({"template": {"spec": {"securityContext": {"fsGroup": user},
                "containers": [{"name": name, "image": "theirs", "env": []}]}}})
        };
        Manifests(vec![
            json!({"kind": "Service", "metadata": {"name": NAME},
                "spec": {"selector": {"app": "x"}, "ports": []}}),
            json!({"kind": "Service", "metadata": {"name": "db",
                "labels": {"app.kubernetes.io/name": "postgresql"}}}),
            json!({"kind": "Deployment", "metadata": {"name": NAME}, "spec": pods(NAME, 1)}),
            json!({"kind": "StatefulSet", "metadata": {"name": "reports-server-postgresql"},
                "spec": pods("postgresql", 1001)}),
        ])
    }

    #[test]
    fn without_pods_there_is_neither_workload_nor_database_nor_selector() {
        let list = manifests().without_pods().list();
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{list}");
        assert_eq!(items[0]["spec"], json!({"ports": []}));
    }

    #[test]
    fn images_are_replaced() {
        let list = manifests().with_images("ours", "pg").unwrap().list();
        let image = |item: usize| {
            list["items"][item]["spec"]["template"]["spec"]["containers"][0]["image"].clone()
        };
        assert_eq!((image(2), image(3)), (json!("ours"), json!("pg")));
        let spec = &list["items"][3]["spec"]["template"]["spec"];
        assert_eq!(spec["securityContext"]["fsGroup"], 999);
    }
}
