//! A stand-in for `CloudNativePG`, which takes minutes: it does with a `Cluster` what a client can
//! see of `CloudNativePG`, in seconds, on PostgreSQL servers that really run. The CRDs are the real
//! ones where they are available. The tests `cloudnativepg_operator` run the real operator, and hold
//! its Secrets and Services against those made here.
//!
//! Like the real one it makes the Secrets `NAME-app` and `NAME-ca` and the Services `NAME-rw`,
//! `NAME-ro` and `NAME-r`, reports phase, primary and instances in the status, moves the primary,
//! and replaces password and certificates. Unlike it, it has no webhook that admits each write, keeps
//! the key of its CA to itself, and the servers are no pods: a proxy of the test stands for `NAME-rw`,
//! at an address of the node where pods are to reach it.

mod crds;
mod objects;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use pgtest::{Authority, DATABASE, Postgres, PostgresOptions, Proxy, Tls, USER};
use serde_json::{Value, json};

use testcluster::Cluster;
use testcluster::network::NODE_IP;

pub use crds::{NAME as CRD, install, uninstall};
pub use objects::{app, ca, services};

const MANAGER: &str = "cloudnative-pg";
/// Port of the entrance at a node.
const PORT: u16 = 15432;
/// A port on which nobody listens.
const NOBODY: u16 = 1;
/// Longest wait for a `Cluster` to be made.
const LIMIT: Duration = Duration::from_mins(1);

/// The entrance in place of the Service `NAME-rw`. It leads nowhere until a `Cluster` is looked
/// after, and is known before that.
pub struct Entrance {
    proxy: Proxy,
    address: SocketAddr,
}

impl Entrance {
    /// Returns an entrance on 127.0.0.1, for an operator that runs outside of a cluster.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn local() -> Result<Self> {
        let proxy = Proxy::start(NOBODY)?;
        let address = (Ipv4Addr::LOCALHOST, proxy.port()).into();
        Ok(Self { proxy, address })
    }

    /// Returns an entrance at the node, for pods.
    ///
    /// # Errors
    /// If there is another one in this cluster.
    pub fn of_node(cluster: &Cluster) -> Result<Self> {
        let address = (NODE_IP, PORT).into();
        let proxy = Proxy::on(cluster.listen(address)?, NOBODY)?;
        Ok(Self { proxy, address })
    }

    /// Returns its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A `Cluster` that is looked after.
pub struct CloudNativePg {
    client: Client,
    namespace: String,
    name: String,
    authority: Authority,
    /// The instances; the first is the primary.
    primary: (u32, Postgres),
    standby: Option<(u32, Postgres)>,
    entrance: Entrance,
    /// True when the `Cluster` asks for commits that a standby has, too.
    synchronous: bool,
}

impl CloudNativePg {
    /// Waits until there is a `Cluster`, checks that it asks for something that this can provide,
    /// and brings it up: the phases are seen on the way.
    ///
    /// # Errors
    /// If it is not made, asks for something else, or a server does not start.
    pub async fn look_after(
        client: &Client,
        namespace: &str,
        name: &str,
        entrance: Entrance,
    ) -> Result<Self> {
        let clusters = clusters(client, namespace);
        let made = await_condition(clusters.clone(), name, |object: Option<&DynamicObject>| {
            object.is_some()
        });
        let cluster = tokio::time::timeout(LIMIT, made)
            .await
            .with_context(|| format!("nobody makes Cluster {name}"))??;
        let cluster = cluster.map(|cluster| cluster.data).unwrap_or_default();
        check(&cluster)?;
        let synchronous = cluster.pointer("/spec/postgresql/synchronous").is_some();

        let authority = Authority::new(name)?;
        let primary = Postgres::start(PostgresOptions::quick().with_tls(Tls::Required)).await?;
        entrance.proxy.retarget(primary.port());
        let this = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            authority,
            primary: (1, primary),
            standby: None,
            entrance,
            synchronous,
        };
        let first = this.instance(1);
        this.status(&json!({"phase": "Setting up primary", "instances": 1,
            "phaseReason": format!("Creating primary instance {first}"),
            "targetPrimary": first}))
            .await?;
        this.certify(&this.primary.1).await?;
        this.publish().await?;
        let mut this = this;
        this.follow(2).await?;
        this.healthy().await?;
        Ok(this)
    }

    /// Returns the name of the present primary.
    #[must_use]
    pub fn primary(&self) -> String {
        self.instance(self.primary.0)
    }

    /// Returns the server of the present primary.
    #[must_use]
    pub fn server(&self) -> &Postgres {
        &self.primary.1
    }

    /// Ends the primary. `between` runs before the standby is chosen to take over.
    ///
    /// # Errors
    /// If there is no standby, or it does not take over.
    pub async fn fail_over(&mut self, between: impl Future<Output = ()>) -> Result<()> {
        let Some((number, standby)) = self.standby.take() else {
            bail!("there is no standby to take over");
        };
        self.primary.1.kill().await?;
        self.entrance.proxy.cut();
        let (old, new) = (self.primary(), self.instance(number));
        // At first nobody knows which one follows.
        self.status(
            &json!({"phase": "Failing over", "targetPrimary": "pending", "readyInstances": 1,
            "phaseReason": format!("Initiating a failover from {old}"),
            "conditions": [condition(false)]}),
        )
        .await?;
        between.await;
        self.status(&json!({"targetPrimary": new,
            "phaseReason": format!("Failing over from {old} to {new}")}))
            .await?;
        standby.promote().await?;
        self.entrance.proxy.retarget(standby.port());
        let next = self.primary.0.max(number) + 1;
        self.primary = (number, standby);
        self.follow(next).await?;
        self.healthy().await
    }

    /// Sets another password of the application's role, also in `NAME-app`.
    ///
    /// # Errors
    /// If one of the two cannot be written.
    pub async fn rotate_password(&mut self, password: &str) -> Result<()> {
        self.primary.1.set_password(password).await?;
        self.publish().await
    }

    /// Installs certificates of a new CA on the servers, and the CA in `NAME-ca`, as `CloudNativePG`
    /// does when the Secrets of both are deleted.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub async fn rotate_certificates(&mut self) -> Result<()> {
        self.authority = Authority::new(&format!("{} renewed", self.name))?;
        self.publish().await?;
        self.certify(&self.primary.1).await?;
        match &self.standby {
            Some((_, standby)) => self.certify(standby).await,
            None => Ok(()),
        }
    }

    fn instance(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// Makes a certificate for the names of the Services.
    async fn certify(&self, server: &Postgres) -> Result<()> {
        let names = objects::names(&self.namespace, &self.name);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        server
            .set_certificate(&self.authority.server(&names)?)
            .await
    }

    /// Starts a standby of the primary.
    async fn follow(&mut self, number: u32) -> Result<()> {
        let name = self.instance(number);
        self.status(
            &json!({"phase": "Creating a new replica", "currentPrimary": self.primary(),
            "phaseReason": format!("Creating replica {name}"), "readyInstances": 1}),
        )
        .await?;
        let standby = Postgres::standby_of(&self.primary.1).await?;
        self.certify(&standby).await?;
        if self.synchronous {
            let primary = &self.primary.1;
            primary
                .set("synchronous_standby_names", "ANY 1 (*)")
                .await?;
        }
        self.standby = Some((number, standby));
        Ok(())
    }

    async fn healthy(&self) -> Result<()> {
        let primary = self.primary();
        self.status(
            &json!({"phase": "Cluster in healthy state", "phaseReason": null,
            "currentPrimary": primary, "targetPrimary": primary, "instances": 2,
            "readyInstances": 2, "writeService": format!("{}-rw", self.name),
            "readService": format!("{}-r", self.name),
            "certificates": {"serverCASecret": format!("{}-ca", self.name),
                "clientCASecret": format!("{}-ca", self.name)},
            "conditions": [condition(true)]}),
        )
        .await
    }

    async fn status(&self, status: &Value) -> Result<()> {
        let patch = json!({"status": status});
        let params = PatchParams::default();
        clusters(&self.client, &self.namespace)
            .patch_status(&self.name, &params, &Patch::Merge(&patch))
            .await
            .context("cannot write the status of the Cluster")?;
        Ok(())
    }

    /// Creates Secrets and Services.
    async fn publish(&self) -> Result<()> {
        let params = PatchParams::apply(MANAGER).force();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let password = self.primary.1.password();
        for secret in [
            app(&self.namespace, &self.name, &password),
            ca(&self.namespace, &self.name, self.authority.pem()),
        ] {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            secrets.patch(name, &params, &Patch::Apply(&secret)).await?;
        }
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        for service in objects::services(&self.namespace, &self.name) {
            let name = service["metadata"]["name"].as_str().unwrap_or_default();
            services
                .patch(name, &params, &Patch::Apply(&service))
                .await?;
        }
        if !self.entrance.address.ip().is_loopback() {
            let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &self.namespace);
            let slice = objects::endpoints(&self.namespace, &self.name, self.entrance.address);
            let name = slice["metadata"]["name"].as_str().unwrap_or_default();
            slices.patch(name, &params, &Patch::Apply(&slice)).await?;
        }
        Ok(())
    }
}

/// Returns the API of the `Cluster`s of a namespace.
#[must_use]
pub fn clusters(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("postgresql.cnpg.io", "v1", "Cluster");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusters");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Checks that a `Cluster` asks for one database and one role, as the servers of tests have.
fn check(cluster: &Value) -> Result<()> {
    let init = cluster.pointer("/spec/bootstrap/initdb");
    let wanted = |field| {
        init.and_then(|init| init.get(field))
            .and_then(Value::as_str)
    };
    if (wanted("database"), wanted("owner")) != (Some(DATABASE), Some(USER)) {
        bail!("the Cluster asks for {init:?}; this makes database {DATABASE} of role {USER} only");
    }
    Ok(())
}

fn condition(ready: bool) -> Value {
    let (status, reason, message) = if ready {
        ("True", "ClusterIsReady", "Cluster is Ready")
    } else {
        ("False", "ClusterIsNotReady", "Cluster Is Not Ready")
    };
    json!({"type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}
