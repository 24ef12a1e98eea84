//! The settings that the server takes from the cluster, and those that it keeps when the cluster is
//! not there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use apimachinery::definition::ResourceDefinition;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use crds::control::SchemaSource;
use reports_server::auth::FrontProxyConfig;
use reports_server::cluster::{
    DefinitionStore, EffectiveDefinitions, Followers, NamespaceLookup, NamespacePhase, Namespaces,
    parse_groups, watch_front_proxy, watch_groups,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::fake_cluster::{CRDS, FakeCluster, NAMESPACES};
use crate::support::pki::Pki;

const GROUP: &str = "wgpolicyk8s.io";
const CONFIG: &str = "/api/v1/namespaces/rs/configmaps";
const AUTH: &str = "/api/v1/namespaces/kube-system/configmaps";

/// A store that remembers what it was told, or refuses.
#[derive(Default)]
struct Memory {
    prepared: Mutex<Vec<String>>,
    saved: Mutex<BTreeMap<String, Vec<String>>>,
    refusing: Mutex<bool>,
}

#[async_trait]
impl DefinitionStore for Memory {
    async fn prepare(&self, definition: &ResourceDefinition) -> anyhow::Result<()> {
        anyhow::ensure!(!*self.refusing.lock().unwrap(), "as asked");
        self.prepared.lock().unwrap().push(definition.name());
        Ok(())
    }

    async fn save(
        &self,
        group: &str,
        definitions: &[Arc<ResourceDefinition>],
    ) -> anyhow::Result<()> {
        anyhow::ensure!(!*self.refusing.lock().unwrap(), "as asked");
        let names = definitions
            .iter()
            .map(|definition| definition.name())
            .collect();
        self.saved.lock().unwrap().insert(group.to_owned(), names);
        Ok(())
    }
}

fn catalog(group: &str) -> Vec<ResourceDefinition> {
    crds::catalog::group(group)
        .map(|resource| {
            ResourceDefinition::from_crd(&crds::catalog::to_crd(resource).unwrap()).unwrap()
        })
        .collect()
}

/// The CRD of a resource of the catalog as the cluster has it.
fn crd(group: &str, plural: &str, generation: i64) -> Value {
    let resource = crds::catalog::group(group)
        .find(|r| r.plural == plural)
        .unwrap();
    let mut crd = serde_json::to_value(crds::catalog::to_crd(resource).unwrap()).unwrap();
    crd["metadata"]["uid"] = json!(format!("uid-{plural}"));
    crd["metadata"]["generation"] = json!(generation);
    crd
}

struct Following {
    cluster: FakeCluster,
    definitions: Arc<EffectiveDefinitions>,
    store: Arc<Memory>,
    changes: watch::Receiver<u64>,
    _task: JoinHandle<()>,
}

impl Following {
    fn start(
        cluster: &FakeCluster,
        groups: watch::Receiver<Option<BTreeSet<String>>>,
        last: Vec<ResourceDefinition>,
    ) -> Self {
        let store = Arc::new(Memory::default());
        let (definitions, follow) = EffectiveDefinitions::follow(
            cluster.client(),
            groups,
            last,
            catalog(GROUP),
            store.clone(),
        )
        .unwrap();
        let changes = definitions.subscribe();
        let task = tokio::spawn(follow);
        Self {
            cluster: cluster.clone(),
            definitions,
            store,
            changes,
            _task: task,
        }
    }

    fn of(cluster: &FakeCluster, groups: &str) -> Self {
        let groups = watch::Sender::new(Some(parse_groups(groups))).subscribe();
        Self::start(cluster, groups, Vec::new())
    }

    fn sources(&self) -> BTreeMap<String, SchemaSource> {
        let served = self.definitions.load();
        served
            .iter()
            .map(|e| (e.definition.plural.clone(), e.source))
            .collect()
    }

    /// Waits for what is served to be what `expected` says.
    async fn until(&mut self, expected: &[(&str, SchemaSource)]) {
        let expected: BTreeMap<_, _> = expected
            .iter()
            .map(|(plural, source)| ((*plural).to_owned(), *source))
            .collect();
        while self.sources() != expected {
            self.changes.changed().await.unwrap();
        }
    }
}

/// Waits until every task waits: the clock of these tests moves only then.
async fn settle() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

const POLR: &str = "policyreports";
const CPOLR: &str = "clusterpolicyreports";

#[tokio::test(start_paused = true)]
async fn the_clusters_crds_are_served_and_remembered() {
    let cluster = FakeCluster::new();
    cluster.put(CRDS, crd(GROUP, POLR, 1));
    cluster.put(CRDS, crd("openreports.io", "reports", 1));
    let mut following = Following::of(&cluster, GROUP);
    following.definitions.synced().await;
    following.until(&[(POLR, SchemaSource::Crd)]).await;
    let polr = format!("{POLR}.{GROUP}");
    assert_eq!(*following.store.prepared.lock().unwrap(), [polr.as_str()]);
    let saved = BTreeMap::from([(GROUP.to_owned(), vec![polr.clone()])]);
    assert_eq!(*following.store.saved.lock().unwrap(), saved);
    // Another group's CRD is not even read.
    assert_eq!(cluster.reads(CRDS), [polr.as_str()]);
    // A new CRD of the group is served, a deleted one still is.
    cluster.put(CRDS, crd(GROUP, CPOLR, 1));
    following
        .until(&[(POLR, SchemaSource::Crd), (CPOLR, SchemaSource::Crd)])
        .await;
    cluster.delete(CRDS, &polr);
    following
        .until(&[(POLR, SchemaSource::Database), (CPOLR, SchemaSource::Crd)])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_schema_is_served_and_the_side_door_is_not() {
    let cluster = FakeCluster::new();
    cluster.put(CRDS, crd(GROUP, POLR, 1));
    let mut following = Following::of(&cluster, GROUP);
    following.definitions.synced().await;
    let before = following.definitions.load();
    following.changes.mark_unchanged();

    let mut door = crd(GROUP, POLR, 2);
    let mut version = door["spec"]["versions"][0].clone();
    version["name"] = json!("legacy");
    version["storage"] = json!(false);
    version["schema"] = json!({"openAPIV3Schema": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}});
    door["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(version);
    cluster.put(CRDS, door);
    let mut changed = crd(GROUP, POLR, 3);
    changed["spec"]["names"]["shortNames"] = json!(["new"]);
    // Only the second of the two changes what is served.
    while cluster.reads(CRDS).len() < 2 {
        tokio::task::yield_now().await;
    }
    cluster.put(CRDS, changed);
    following.changes.changed().await.unwrap();
    let after = following.definitions.load();
    let resource = after.resource(GROUP, POLR).unwrap();
    assert_eq!(resource.definition.short_names, ["new"]);
    let tag = |served: &reports_server::cluster::Served| served.discovery.aggregated_v2.etag();
    assert_ne!(tag(&before), tag(&after));
    assert_eq!(
        *following.changes.borrow(),
        2,
        "one change for the start, one for the names"
    );
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_cannot_be_served_leaves_the_last_schema() {
    let cluster = FakeCluster::new();
    cluster.put(CRDS, crd(GROUP, POLR, 1));
    let mut following = Following::of(&cluster, GROUP);
    following.until(&[(POLR, SchemaSource::Crd)]).await;
    let mut webhook = crd(GROUP, POLR, 2);
    webhook["spec"]["conversion"] = json!({"strategy": "Webhook"});
    cluster.put(CRDS, webhook);
    following.until(&[(POLR, SchemaSource::Database)]).await;
}

#[tokio::test(start_paused = true)]
async fn without_crds_the_catalog_is_served() {
    let mut following = Following::of(&FakeCluster::new(), GROUP);
    let both = [
        (POLR, SchemaSource::Catalog),
        (CPOLR, SchemaSource::Catalog),
    ];
    following.until(&both).await;
    // As soon as there is a CRD of the group, the CRDs count.
    following.cluster.put(CRDS, crd(GROUP, POLR, 1));
    following.until(&[(POLR, SchemaSource::Crd)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_without_the_cluster_serves_what_is_remembered() {
    let cluster = FakeCluster::new();
    cluster.put(CRDS, crd(GROUP, POLR, 1));
    cluster.set_down(true);
    let groups = watch::Sender::new(None);
    let mut following = Following::start(&cluster, groups.subscribe(), catalog(GROUP));
    let both = [
        (POLR, SchemaSource::Database),
        (CPOLR, SchemaSource::Database),
    ];
    following.until(&both).await;
    assert!(!following.definitions.is_synced());
    cluster.set_down(false);
    following
        .until(&[(POLR, SchemaSource::Crd), (CPOLR, SchemaSource::Database)])
        .await;
    assert!(
        !following.definitions.is_synced(),
        "the groups are not known yet"
    );
    groups.send_replace(Some(parse_groups(GROUP)));
    following.definitions.synced().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_served_before_its_objects_have_a_place() {
    let cluster = FakeCluster::new();
    cluster.put(CRDS, crd(GROUP, POLR, 1));
    let mut following = Following::of(&cluster, GROUP);
    *following.store.refusing.lock().unwrap() = true;
    while cluster.reads(CRDS).is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    assert_eq!(following.sources(), BTreeMap::new());
    assert!(!following.definitions.is_synced());
    *following.store.refusing.lock().unwrap() = false;
    following.until(&[(POLR, SchemaSource::Crd)]).await;
    following.definitions.synced().await;
}

#[tokio::test(start_paused = true)]
async fn groups_follow_their_config_map() {
    let cluster = FakeCluster::new();
    let followers = Followers {
        groups: watch::Sender::new(None),
        refused_writers: watch::Sender::default(),
        log_level: watch::Sender::default(),
        audit: watch::Sender::default(),
    };
    let mut audit = followers.audit.subscribe();
    let mut level = followers.log_level.subscribe();
    let mut seen = followers.groups.subscribe();
    let mut refused = followers.refused_writers.subscribe();
    let source = "rs/config".parse().unwrap();
    let task = tokio::spawn(watch_groups(cluster.client(), source, followers));
    let map = |text: &str| json!({"metadata": {"name": "config"}, "data": {"groups": text}});
    let mut with_users = map("a.io");
    with_users["data"]["refusedWriters"] = json!("system:serviceaccount:a:b, c");
    with_users["data"]["logLevel"] = json!("debug");
    with_users["data"]["auditDirectClients"] = json!("true");
    cluster.put(CONFIG, with_users);
    refused.wait_for(|users| users.len() == 2).await.unwrap();
    assert!(refused.borrow().contains("system:serviceaccount:a:b"));
    let debug = |level: &Option<String>| level.as_deref() == Some("debug");
    level.wait_for(debug).await.unwrap();
    audit.wait_for(|audit| *audit).await.unwrap();
    cluster.put(CONFIG, map("a.io"));
    refused.wait_for(BTreeSet::is_empty).await.unwrap();
    level.wait_for(Option::is_none).await.unwrap();
    audit.wait_for(|audit| !*audit).await.unwrap();
    for text in ["a.io", "a.io,b.io"] {
        cluster.put(CONFIG, map(text));
        seen.wait_for(|groups| *groups == Some(parse_groups(text)))
            .await
            .unwrap();
    }
    // A mistake does not end the service: neither a missing key nor a missing map counts.
    cluster.put(CONFIG, json!({"metadata": {"name": "config"}, "data": {}}));
    settle().await;
    cluster.delete(CONFIG, "config");
    settle().await;
    assert!(!seen.has_changed().unwrap());
    cluster.put(CONFIG, map("c.io"));
    seen.changed().await.unwrap();
    assert_eq!(*seen.borrow(), Some(parse_groups("c.io")));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_front_proxys_configuration_is_followed_and_kept() {
    let cluster = FakeCluster::new();
    let config = Arc::new(ArcSwap::from_pointee(FrontProxyConfig::default()));
    let (loaded, mut is_loaded) = watch::channel(false);
    let task = tokio::spawn(watch_front_proxy(cluster.client(), config.clone(), loaded));
    let (one, two) = (Pki::new(), Pki::new());
    let name = "extension-apiserver-authentication";
    let map = |data: &BTreeMap<String, String>| json!({"metadata": {"name": name}, "data": data});
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let trusted = |pki: &Pki| config.load().verify(&pki.proxy().chain(), now).is_ok();

    assert!(!config.load().is_loaded());
    cluster.put(AUTH, map(&one.front_proxy_config()));
    is_loaded.wait_for(|loaded| *loaded).await.unwrap();
    assert!(trusted(&one) && !trusted(&two));
    // What cannot be read, and a map that is gone, leave what was read last.
    let mut broken = one.front_proxy_config();
    broken.insert(
        "requestheader-group-headers".to_owned(),
        "X-Remote-Group".to_owned(),
    );
    cluster.put(AUTH, map(&broken));
    settle().await;
    assert!(trusted(&one));
    cluster.delete(AUTH, name);
    settle().await;
    assert!(trusted(&one));
    let before = config.load_full();
    cluster.put(AUTH, map(&two.front_proxy_config()));
    while Arc::ptr_eq(&before, &config.load()) {
        tokio::task::yield_now().await;
    }
    assert!(trusted(&two) && !trusted(&one));
    task.abort();
}

fn namespace(name: &str, deleted: bool) -> Value {
    let mut namespace = json!({"metadata": {"name": name}});
    if deleted {
        namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    namespace
}

#[tokio::test]
async fn namespaces_are_known_or_asked_for() {
    let cluster = FakeCluster::new();
    cluster.put(NAMESPACES, namespace("active", false));
    cluster.put(NAMESPACES, namespace("ending", true));
    let (namespaces, follow) = Namespaces::watch(cluster.client());
    // Before the watch has brought anything, the answers are right already.
    assert_eq!(namespaces.phase("active").await, Ok(NamespacePhase::Active));
    let task = tokio::spawn(follow);
    namespaces.ready().await;
    let asked = cluster.reads(NAMESPACES).len();
    assert_eq!(namespaces.phase("active").await, Ok(NamespacePhase::Active));
    assert_eq!(
        cluster.reads(NAMESPACES).len(),
        asked,
        "known from the watch"
    );
    assert_eq!(
        namespaces.phase("ending").await,
        Ok(NamespacePhase::Terminating)
    );
    assert_eq!(
        namespaces.phase("missing").await,
        Ok(NamespacePhase::Missing)
    );
    for _ in 0..5 {
        assert_eq!(
            namespaces.phase("missing").await,
            Ok(NamespacePhase::Missing)
        );
    }
    assert_eq!(
        cluster.reads(NAMESPACES).len(),
        asked + 2,
        "asked once each"
    );
    // One that is made is known as soon as the watch says so, whatever was answered before.
    cluster.put(NAMESPACES, namespace("missing", false));
    while namespaces.phase("missing").await != Ok(NamespacePhase::Active) {
        tokio::task::yield_now().await;
    }
    cluster.set_down(true);
    assert_eq!(namespaces.phase("active").await, Ok(NamespacePhase::Active));
    let error = namespaces.phase("other").await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot look up namespace other: "),
        "{error}"
    );
    task.abort();
}
