//! The orders to the kube-apiserver: CRDs, the Service, APIServices, gates.

use crds::control;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use reports_server::http::SERVER_HEADER;
use serde_json::{Value, json};

use super::{NAMESPACE, Outgoing, PATIENCE, SERVICE, Serving, ServingError, address};
use testcluster::Backend;

impl Serving {
    /// Installs a CRD and waits until it is served.
    pub(super) async fn install(&self, crd: &CustomResourceDefinition) -> Result<(), ServingError> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = crd.name_any();
        let mut crd = crd.clone();
        crd.status = None;
        api.create(&PostParams::default(), &crd).await?;
        let established = await_condition(api, &name, conditions::is_crd_established());
        match tokio::time::timeout(PATIENCE, established).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(not_yet(&name, error.to_string())),
            Err(_) => Err(not_yet(&name, "its conditions say why".to_owned())),
        }
    }

    /// Has the servers serve all groups, once they answer.
    pub(super) async fn take_over(&self, ca: &str) -> Result<(), ServingError> {
        let targets = (0..self.servers.len()).map(address).collect();
        let backend = Backend {
            namespace: NAMESPACE.to_owned(),
            name: SERVICE.to_owned(),
            port: 443,
            targets,
        };
        self.cluster.expose(&backend).await?;
        self.register(control::GROUP, control::VERSION, ca).await?;
        // As in a switch: first above the versions that etcd gave, then open.
        let floor = json!({"spec": {"resourceVersion": "100000"}});
        let open = json!({"spec": {"state": "Open"}});
        for crd in &self.options.crds {
            self.control(crd, "floor", &floor).await?;
            self.control(crd, "gate", &open).await?;
        }
        for (group, version) in self.versions() {
            self.register(&group, &version, ca).await?;
        }
        // The aggregator serves the group at once and fetches its documents a moment later: until
        // then it has those of the CRDs.
        for (group, version) in self.versions() {
            let request = Outgoing::get(format!("/openapi/v3/apis/{group}/{version}"));
            self.until(&format!("{group}/{version} is documented"), async || {
                let answer = self.send(&request).await;
                answer.is_ok_and(|answer| answer.headers.contains_key(SERVER_HEADER))
            })
            .await?;
        }
        Ok(())
    }

    /// Returns group and version of all served resources, each once.
    fn versions(&self) -> Vec<(String, String)> {
        let mut versions: Vec<_> = self
            .options
            .crds
            .iter()
            .flat_map(|crd| {
                let served = crd.spec.versions.iter().filter(|version| version.served);
                served.map(|version| (crd.spec.group.clone(), version.name.clone()))
            })
            .collect();
        versions.sort();
        versions.dedup();
        versions
    }

    /// Writes a subresource of the control API, once the server knows the resource.
    async fn control(
        &self,
        crd: &CustomResourceDefinition,
        subresource: &str,
        body: &Value,
    ) -> Result<(), ServingError> {
        let name = control::stored_resource_name(&crd.spec.names.plural, &crd.spec.group);
        let (group, version, resources) = (control::GROUP, control::VERSION, control::PLURAL);
        let uri = format!("/apis/{group}/{version}/{resources}/{name}/{subresource}");
        let request = Outgoing::new("PUT", uri).json(body);
        self.until(&format!("{subresource} of {name}"), async || {
            let answer = self.send(&request).await;
            answer.is_ok_and(|answer| answer.code == 200)
        })
        .await
    }

    /// Makes the servers the backend of a group version and waits until they are used.
    async fn register(&self, group: &str, version: &str, ca: &str) -> Result<(), ServingError> {
        let api: Api<APIService> = Api::all(self.client.clone());
        let name = format!("{version}.{group}");
        let mut service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": name},
            "spec": {"group": group, "version": version, "caBundle": ca,
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": {"namespace": NAMESPACE, "name": SERVICE, "port": 443}},
        });
        if api.get_opt(&name).await?.is_none() {
            let new = serde_json::from_value(service)
                .map_err(|error| ServingError::Body(error.to_string()))?;
            api.create(&PostParams::default(), &new).await?;
        } else {
            // The kube-apiserver would take a labelled one back for its CRDs.
            service["metadata"]["labels"] =
                json!({"kube-aggregator.kubernetes.io/automanaged": null});
            let patch = Patch::Merge(service);
            api.patch(&name, &PatchParams::default(), &patch).await?;
        }
        let path = format!("/apis/{group}/{version}");
        self.until(&format!("{path} is ours"), async || {
            let answer = self.send(&Outgoing::get(&path)).await;
            answer.is_ok_and(|answer| {
                answer.code == 200 && answer.headers.contains_key(SERVER_HEADER)
            })
        })
        .await
    }
}

fn not_yet(name: &str, last: String) -> ServingError {
    ServingError::NotYet {
        what: format!("the CRD {name} is established"),
        patience: PATIENCE,
        last,
    }
}
