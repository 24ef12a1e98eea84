//! A control plane on which one case runs after the other: each begins and ends with the group at its
//! CRDs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use e2e::processes::{Ended, LIMIT, Migration, Processes};
use e2e::takeover::{GROUPS, load};
use e2e::witness::{State, strict_client};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec,
};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_deleted;
use kube::{Api, Client};
use serde_json::json;
use testcluster::{Process, Signal};
use testreports::{Owner, ReportKind};

use crate::common::rights;
use crate::interference::writer::NAMESPACE;
use crate::interference::{GITOPS, PAUSE};

/// Reports that are there all the time.
const REPORTS: usize = 60;
/// Room for the server's database.
const DATABASE: &str = "size=64m";
/// Longest time of anything but a migration.
pub const SOON: Duration = Duration::from_mins(1);
/// The kind whose CRD is meddled with.
pub const KIND: ReportKind = ReportKind::PolicyReport;

/// Content of reports by kind, namespace and name.
pub type Contents = BTreeMap<(ReportKind, (String, String)), String>;

/// A control plane with a server, and the group at its CRDs.
pub struct Ground {
    pub processes: Processes,
    /// The administrator.
    pub admin: Client,
    /// Somebody else, whose requests are sent once: whoever holds a gate reads past it.
    pub other: Client,
    server: Option<Process>,
    shipped: BTreeMap<String, CustomResourceDefinitionSpec>,
    /// Reports of the kind that is meddled with.
    stock: Vec<DynamicObject>,
    runs: usize,
}

impl Ground {
    pub async fn start() -> Self {
        let processes = Processes::start(&GROUPS[..1], REPORTS, false)
            .await
            .unwrap();
        let admin = processes.cluster.client().await.unwrap();
        let mut config = processes.cluster.config(0).await.unwrap();
        config.auth_info.impersonate = Some("witness".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        let other = strict_client(config).unwrap();
        load::namespaces(&admin, NAMESPACE, 1).await.unwrap();
        rights::grant(&admin, None).await.unwrap();
        let mut ground = Self {
            processes,
            admin,
            other,
            server: None,
            shipped: BTreeMap::new(),
            stock: Vec::new(),
            runs: 0,
        };
        let reports: Api<DynamicObject> = Api::all_with(ground.admin.clone(), &KIND.api_resource());
        ground.stock = reports.list(&ListParams::default()).await.unwrap().items;
        for crd in ground.crds().list(&ListParams::default()).await.unwrap() {
            if crd.spec.group == GROUPS[0] {
                ground.shipped.insert(crd.metadata.name.unwrap(), crd.spec);
            }
        }
        let folder = ground.processes.file("database");
        std::fs::create_dir(&folder).unwrap();
        ground.shell(&["mount", "-t", "tmpfs", "-o", DATABASE, "tmpfs", &folder]);
        ground.serve();
        ground.processes.register().await.unwrap();
        ground
    }

    /// Runs a command in the cluster's mounts.
    pub fn shell(&self, command: &[&str]) {
        let status = self.processes.cluster.shell().args(command).status();
        assert!(status.unwrap().success(), "{command:?}");
    }

    /// Starts the server.
    pub fn serve(&mut self) {
        let database = self.processes.file("database/reports.db");
        self.server = Some(self.processes.serve_with("", &database).unwrap());
    }

    /// Starts the server anew where its clock is the real one and is to be set later, or the other
    /// way round.
    pub async fn keep_clock(&mut self, own: bool) -> anyhow::Result<()> {
        if own != self.processes.has_clock() {
            self.processes.set_clock(own.then_some(0))?;
            self.kill_server().await;
            self.serve();
        }
        Ok(())
    }

    /// Kills the server.
    pub async fn kill_server(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await.unwrap();
        }
    }

    pub fn signal_server(&self, signal: Signal) {
        self.server.as_ref().unwrap().signal(signal).unwrap();
    }

    pub fn crds(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.admin.clone())
    }

    /// The CRDs' specifications as they were shipped, by name.
    pub fn shipped(&self) -> impl Iterator<Item = (&String, &CustomResourceDefinitionSpec)> {
        self.shipped.iter()
    }

    /// Specification of the CRD that is meddled with, as shipped, and its name.
    pub fn shipped_crd(&self) -> (String, CustomResourceDefinitionSpec) {
        let name = format!("{}.{}", KIND.plural(), KIND.group());
        let spec = self.shipped[&name].clone();
        (name, spec)
    }

    /// Puts the versions of a CRD to those of `spec`, as a GitOps tool does.
    pub async fn apply(
        &self,
        name: &str,
        spec: &CustomResourceDefinitionSpec,
    ) -> anyhow::Result<()> {
        let params = PatchParams {
            field_manager: Some(GITOPS.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"spec": {"versions": spec.versions}}));
        self.crds().patch(name, &params, &patch).await?;
        Ok(())
    }

    /// Deletes a CRD, and waits until it is gone.
    pub async fn delete_crd(&self, name: &str) -> anyhow::Result<()> {
        let crds = self.crds();
        let uid = crds.get(name).await?.metadata.uid.unwrap_or_default();
        crds.delete(name, &DeleteParams::default()).await?;
        let gone = await_condition(crds, name, is_deleted(&uid));
        tokio::time::timeout(SOON, gone)
            .await
            .with_context(|| format!("the CRD {name} is not gone within {SOON:?}"))??;
        Ok(())
    }

    /// Installs every CRD that is missing, and waits until it is established.
    pub async fn install_crds(&self) -> anyhow::Result<()> {
        let crds = self.crds();
        for (name, spec) in &self.shipped {
            if crds.get_opt(name).await?.is_none() {
                let mut crd = CustomResourceDefinition {
                    spec: spec.clone(),
                    ..CustomResourceDefinition::default()
                };
                crd.metadata.name = Some(name.clone());
                crds.create(&PostParams::default(), &crd).await?;
            }
            let established = await_condition(crds.clone(), name, is_crd_established());
            tokio::time::timeout(SOON, established)
                .await
                .with_context(|| format!("the CRD {name} is not established"))??;
        }
        Ok(())
    }

    /// Starts a migration; `user` is whom the kube-apiserver takes it for.
    pub fn migrate(
        &mut self,
        fault: Option<&str>,
        back: bool,
        user: Option<&str>,
    ) -> anyhow::Result<Migration> {
        self.runs += 1;
        let mut flags = vec![if back { "--back" } else { "--keep" }];
        if let Some(user) = user {
            flags.extend(["--as", user]);
        }
        let name = format!("migrate-{}", self.runs);
        Ok(self.processes.migrate(&name, fault, &flags)?)
    }

    /// Runs a migration to its goal.
    pub async fn reach(&mut self, back: bool) -> anyhow::Result<()> {
        let migration = self.migrate(None, back, None)?;
        ended(&migration).await.map(drop)
    }

    /// Runs a migration until it dies at `fault`.
    pub async fn die(&mut self, fault: &str, back: bool, user: Option<&str>) -> anyhow::Result<()> {
        self.forget_faults().await?;
        let migration = self.migrate(Some(fault), back, user)?;
        let ended = migration.ended(LIMIT).await?;
        let died = !ended.done && ended.log.contains("fault point: aborting");
        ensure!(died, "{fault} did not fire: {} {}", ended.how, ended.log);
        Ok(())
    }

    /// Lets each fault point fire again.
    async fn forget_faults(&self) -> kube::Result<()> {
        let notes: Api<ConfigMap> = Api::namespaced(self.admin.clone(), "default");
        let name = "reports-server-operator-notes";
        let Some(found) = notes.get_opt(name).await? else {
            return Ok(());
        };
        let fired = found.data.into_iter().flatten().map(|(key, _)| key);
        let fired = fired.filter(|key| key.starts_with("fault."));
        let none: BTreeMap<String, Option<String>> = fired.map(|key| (key, None)).collect();
        let patch = Patch::Merge(json!({"data": none}));
        notes.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// All reports.
    pub async fn state(&self) -> anyhow::Result<State> {
        let read = async {
            loop {
                // A CRD that was changed answers 429 for a moment.
                match State::read(&self.other).await {
                    Ok(state) => return state,
                    Err(error) => println!("{error}"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(SOON, read)
            .await
            .context("reports cannot be listed")
    }

    /// Content of all reports but the writer's.
    pub async fn contents(&self) -> anyhow::Result<Contents> {
        let state = self.state().await?;
        let all = state
            .0
            .into_iter()
            .map(|(key, object)| (key, object.content));
        Ok(all
            .filter(|((_, (ns, _)), _)| !ns.starts_with(NAMESPACE))
            .collect())
    }

    /// A report that nobody has written yet.
    pub fn report(&self, namespace: &str, name: &str) -> DynamicObject {
        let owner = Owner {
            namespace: namespace.to_owned(),
            uid: String::new(),
        };
        let mut report = self.processes.corpus.report(KIND, 0, &owner);
        report["metadata"] = json!({"namespace": namespace, "name": name});
        serde_json::from_value(report).unwrap()
    }

    /// A namespace with some reports.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        for number in 0..3 {
            let report = self.report(name, &format!("doomed-{number}"));
            let reports = reports(&self.admin, name);
            reports.create(&PostParams::default(), &report).await?;
        }
        Ok(())
    }

    /// Prints what the last migrations have said.
    pub fn tell(&self) {
        for run in self.runs.saturating_sub(2)..=self.runs {
            let log = self
                .processes
                .cluster
                .logs()
                .join(format!("migrate-{run}.log"));
            let log = std::fs::read_to_string(log).unwrap_or_default();
            println!("--- migrate-{run}\n{log}");
        }
    }

    /// Brings the group back to its CRDs as they were shipped, whatever was done to them.
    pub async fn tidy(&mut self) -> anyhow::Result<()> {
        rights::grant(&self.admin, None).await?;
        self.install_crds().await?;
        self.reach(true).await?;
        for (name, spec) in &self.shipped {
            self.apply(name, spec).await?;
        }
        let mut last = String::new();
        let restored = async {
            while let Err(error) = self.restock().await {
                last = error.to_string();
                tokio::time::sleep(PAUSE).await;
            }
        };
        let restored = tokio::time::timeout(SOON, restored).await;
        restored.with_context(|| format!("the reports to begin with cannot be restored: {last}"))
    }

    /// Leaves the reports that were there at the beginning; a CRD that was changed answers 429 for a
    /// moment.
    async fn restock(&self) -> kube::Result<()> {
        let (all, none) = (ListParams::default(), DeleteParams::default());
        let written = reports(&self.admin, &format!("{NAMESPACE}-00"));
        written.delete_collection(&none, &all).await?;
        for report in &self.stock {
            let namespace = report.metadata.namespace.as_deref().unwrap_or_default();
            let reports = reports(&self.admin, namespace);
            let mut report = report.clone();
            let meta = &mut report.metadata;
            (meta.uid, meta.resource_version, meta.managed_fields) = (None, None, None);
            match reports.create(&PostParams::default(), &report).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                done => drop(done?),
            }
        }
        Ok(())
    }
}

/// Waits until a migration has reached its goal.
pub async fn ended(migration: &Migration) -> anyhow::Result<Ended> {
    let ended = migration.ended(LIMIT).await?;
    if !ended.done {
        bail!("{} ended {}: {}", migration.name, ended.how, ended.log);
    }
    Ok(ended)
}

/// Reports of a namespace, in the version that clients use.
pub fn reports(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &KIND.api_resource())
}
