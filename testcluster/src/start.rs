//! Starts of clusters: namespaces, certificates, then each component in order, each awaited until
//! it is ready.

use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::gvk::ParseGroupVersionError;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::error::IoContext;
use super::state::{self, Record, StateDir};
use super::{
    Cluster, ClusterOptions, Component, Error, Shape, cgroup, component, http, namespace, network,
    parts, pki, ready,
};

/// Longest time for the agent, which only has to open a socket.
const AGENT_TIMEOUT: Duration = Duration::from_secs(20);

impl Cluster {
    /// Starts a cluster and waits until it is ready to be used. Builds its parts first
    /// when they are not in the cache, which takes minutes.
    ///
    /// # Errors
    /// If an option is out of bounds, the machine lacks something, or a component does not get
    /// ready; the message names the log to read. Nothing is left behind.
    pub async fn start(options: ClusterOptions) -> Result<Self, Error> {
        options.validate()?;
        let parts = parts::locate(options.shape).await?;
        let detached = options.detached;
        let mut cluster = found(options, parts).await?;
        if let Err(error) = cluster.start_components().await {
            return Err(cluster.failed(error));
        }
        cluster.write_record()?;
        if detached {
            cluster.agent.detach()?;
            cluster.founder = None;
        }
        Ok(cluster)
    }

    /// Keeps the logs of a cluster that will be removed, and names their place.
    fn failed(&self, error: Error) -> Error {
        match self.state.keep_logs() {
            Some(kept) => error.with_logs_in(&kept),
            None => error,
        }
    }

    /// Starts one more kube-apiserver on the same etcd and waits until it is ready. Returns its
    /// index.
    ///
    /// # Errors
    /// If there are as many as the network has addresses for, or it does not get ready.
    pub async fn add_apiserver(&self) -> Result<usize, Error> {
        let index = self.apiservers();
        if index >= network::MAX_APISERVERS {
            return Err(Error::Option(format!(
                "there are {index} kube-apiservers already"
            )));
        }
        self.start_component(Component::ApiServer(index)).await?;
        self.apiservers.store(index + 1, Ordering::Release);
        self.write_record()?;
        Ok(index)
    }

    pub(super) fn write_record(&self) -> Result<(), Error> {
        let record = Record {
            apiservers: self.apiservers(),
            ..self.record.clone()
        };
        self.state.write_record(&record)
    }

    async fn start_components(&self) -> Result<(), Error> {
        pki::create(&self.state)?;
        for component in Component::of(self.record.shape, self.apiservers()) {
            match component {
                // Both need objects that others give: the node of kube-proxy is
                // registered by the kubelet, the objects of CoreDNS come from here.
                Component::KubeProxy if self.record.shape == Shape::Node => {
                    self.spawn_component(component)?;
                }
                Component::KubeProxy => {
                    self.register_node().await?;
                    self.start_component(component).await?;
                }
                Component::Scheduler => {
                    self.apply(component::manifests()).await?;
                    self.load_own_images().await?;
                    self.spawn_component(component)?;
                }
                component => self.start_component(component).await?,
            }
        }
        if self.record.shape == Shape::Node {
            self.await_ready(Component::KubeProxy).await?;
        }
        Ok(())
    }

    /// Starts a component and waits until it is ready.
    pub(super) async fn start_component(&self, component: Component) -> Result<(), Error> {
        self.spawn_component(component)?;
        self.await_ready(component).await
    }

    fn spawn_component(&self, component: Component) -> Result<(), Error> {
        for (name, content) in component.files(&self.state) {
            state::write(&self.state.join("config").join(name), content)?;
        }
        self.agent.spawn(component.spec(&self.state, &self.record))
    }

    /// Waits until a component does its work.
    pub(super) async fn await_ready(&self, component: Component) -> Result<(), Error> {
        let name = component.to_string();
        let timeout = self.record.ready_timeout;
        let agent = &self.agent;
        if let Some((address, path)) = component.health() {
            let local = self.forward(address)?;
            return ready::process(&name, agent, &self.state, timeout, || healthy(local, path))
                .await;
        }
        match component {
            Component::ApiServer(index) => {
                let client = self.client_of(index).await?;
                let probe = || apiserver_ready(client.clone());
                ready::process(&name, agent, &self.state, timeout, probe).await
            }
            Component::ControllerManager => {
                let client = self.client().await?;
                let probe = || service_accounts_ready(client.clone());
                ready::process(&name, agent, &self.state, timeout, probe).await
            }
            Component::Kubelet => {
                let client = self.client().await?;
                let probe = || node_ready(client.clone());
                ready::process(&name, agent, &self.state, timeout, probe).await
            }
            Component::Containerd => {
                let probe = || self.containerd_ready();
                ready::process(&name, agent, &self.state, timeout, probe).await
            }
            // What they do is seen only when there is work for them.
            _ => Ok(()),
        }
    }

    /// Creates a node of the control plane, which has none: kube-proxy takes its addresses from it.
    async fn register_node(&self) -> Result<(), Error> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let node: Node = from_value(json!({
            "metadata": {"name": network::NODE_NAME},
            // No pod shall wait here for a kubelet that does not exist.
            "spec": {"unschedulable": true},
        }))?;
        nodes.create(&PostParams::default(), &node).await?;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": network::NODE_IP}],
        }});
        nodes
            .patch_status(
                network::NODE_NAME,
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await?;
        Ok(())
    }

    /// Applies objects of built-in kinds (server-side apply).
    pub(super) async fn apply(&self, objects: Vec<Value>) -> Result<(), Error> {
        let client = self.client().await?;
        let params = PatchParams::apply("e2e").force();
        for object in objects {
            let object: DynamicObject = from_value(object)?;
            let name = object.metadata.name.clone().unwrap_or_default();
            api_of(&client, &object)?
                .patch(&name, &params, &Patch::Apply(&object))
                .await?;
        }
        Ok(())
    }
}

async fn found(options: ClusterOptions, parts: Vec<PathBuf>) -> Result<Cluster, Error> {
    let state = StateDir::of(&options.name)?;
    let lock = tokio::task::spawn_blocking(state::lock_base)
        .await
        .map_err(|error| Error::Machine(error.to_string()))??;
    if state.alive() {
        return Err(Error::Running(options.name));
    }
    state::sweep(&lock)?;
    state.create()?;
    let name = state.name();
    cgroup::create(&name).context(|| format!("create the cgroup {}", cgroup::root(&name)))?;
    let founder = namespace::found(&state, &parts)?;
    let record = Record {
        shape: options.shape,
        apiservers: options.apiservers,
        apiserver_args: options.apiserver_args,
        controller_args: options.controller_args,
        fsync: options.fsync,
        ready_timeout: options.ready_timeout,
        pid: founder.id(),
        parts,
    };
    // From here on dropping it removes everything.
    let mut cluster = Cluster::new(state, record, Some(founder))?;
    if let Err(error) = await_agent(&mut cluster).await {
        return Err(cluster.failed(error));
    }
    cluster.write_record()?;
    drop(lock);
    Ok(cluster)
}

async fn await_agent(cluster: &mut Cluster) -> Result<(), Error> {
    let agent = cluster.agent.clone();
    let mut founder: Option<Child> = cluster.founder.take();
    let log = cluster.state.log("agent");
    let mut ended = None;
    let probe = || {
        ended = founder
            .as_mut()
            .and_then(|founder| founder.try_wait().ok().flatten());
        // Its end is an answer, too: nothing else will come.
        let answer = if ended.is_some() {
            Ok(())
        } else {
            agent.list().map(drop)
        };
        std::future::ready(answer.map_err(|error| error.to_string()))
    };
    let what = "the cluster's agent";
    let awaited = ready::until(what, None, &log, AGENT_TIMEOUT, probe).await;
    cluster.founder = founder;
    match ended {
        Some(status) => Err(ready::failure(
            what,
            format!("it has ended ({status})"),
            &log,
        )),
        None => awaited,
    }
}

async fn healthy(address: std::net::SocketAddr, path: &str) -> Result<(), String> {
    match http::get(address, path).await? {
        (status, _) if status.is_success() => Ok(()),
        (status, body) => Err(format!(
            "{path} answers {status}: {}",
            String::from_utf8_lossy(&body)
        )),
    }
}

async fn apiserver_ready(client: Client) -> Result<(), String> {
    let request = ::http::Request::get("/readyz?verbose")
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    client
        .request_text(request)
        .await
        .map(drop)
        .map_err(|error| http::chain(&error))
}

/// Checks that namespaces have their `ServiceAccount`: pods are refused until then. It is one of
/// the first things that kube-controller-manager makes.
async fn service_accounts_ready(client: Client) -> Result<(), String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    match accounts.get_opt("default").await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("the ServiceAccount default/default is not there".to_owned()),
        Err(error) => Err(http::chain(&error)),
    }
}

async fn node_ready(client: Client) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client);
    let node = nodes
        .get_opt(network::NODE_NAME)
        .await
        .map_err(|error| http::chain(&error))?;
    let node = node.ok_or("it has not registered its node")?;
    let conditions = node
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    match ready {
        None => Err("its node has no condition Ready".to_owned()),
        Some(ready) if ready.status != "True" => Err(format!(
            "its node is not Ready: {}",
            ready.message.as_deref().unwrap_or_default()
        )),
        Some(_) if !taints.is_empty() => Err(format!("its node has the taint {}", taints[0].key)),
        Some(_) => Ok(()),
    }
}

fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|source| Error::Json {
        what: "own object".into(),
        source,
    })
}

fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>, Error> {
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types)
        .map_err(|error: ParseGroupVersionError| Error::Option(error.to_string()))?;
    let resource = ApiResource::from_gvk(&kind);
    Ok(match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}
