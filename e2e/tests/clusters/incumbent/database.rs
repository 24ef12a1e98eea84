//! The incumbent is gone, and its PostgreSQL is not: reports that only the database has are imported,
//! once, whatever dies on the way.

use std::collections::{BTreeMap, BTreeSet};

use e2e::incumbent::{Key, Objects, api_services, key, list};
use e2e::takeover::GROUPS;
use http::{Method, Request, header};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::DeleteParams;
use rstest::rstest;
use serde_json::{Value, json};
use testcluster::Signal;
use testreports::{ReportKind, kinds};

use super::{BEFORE, Ground, LIMIT, LOOK, nothing};
use crate::common::full;

/// Two groups are moved at the same time; the first that comes to it dies, and the other with it.
const FAULTS: &str = "before:ImportDatabase,within:ImportDatabase";
/// Smaller than what is imported of a kind, so that there is something left behind the first page.
const PAGE: &str = "20";
/// Whose rows are another cluster's.
const OTHER_CLUSTER: &str = "99999999-9999-9999-9999-999999999999";

/// The reports that the test expects.
struct Wanted {
    /// The objects that are to be there.
    objects: Objects,
    /// The reports that only the database has.
    imported: Vec<Key>,
    /// All that the database has.
    rows: BTreeSet<Key>,
}

#[rstest]
#[case::beside_crds(true)]
#[case::without_crds(false)]
#[tokio::test(flavor = "multi_thread")]
async fn reports_of_an_incumbent_that_is_gone_are_imported_from_its_database(#[case] crds: bool) {
    if crds && !full() {
        println!("only with E2E_FULL=1");
        return;
    }
    let Some(mut ground) = Ground::start(crds).await else {
        return;
    };
    let writers = ground.write(&ground.objects().await);
    writers.ledger.more_writes(BEFORE).await;
    let account = writers.finish().await.account();
    assert!(account.failures.is_empty(), "{:#?}", account.failures);
    leave(&mut ground, crds).await;
    let mut wanted = meanwhile(&ground, account.stored, crds).await;
    strangers(&ground).await;
    let rows = ground.incumbent.rows().await.unwrap();

    let _server = ground.processes.serve().unwrap();
    ground.processes.register().await.unwrap();
    let file = ground.processes.file("database.json");
    let flags = ["--from-database", file.as_str(), "--page-size", PAGE];
    let mut elsewhere = ground.incumbent.connection();
    elsewhere.insert("dbname", "elsewhere".to_owned());
    std::fs::write(&file, json!(elsewhere).to_string()).unwrap();
    waits(&ground, "waits", &flags).await;
    std::fs::write(&file, json!(ground.incumbent.connection()).to_string()).unwrap();
    dies(&ground, "before", &flags).await;
    before(&ground, &mut wanted).await;
    dies(&ground, "within", &flags).await;
    within(&ground, &mut wanted).await;
    let ended = ground.migrate("import", &flags).await;
    // Deleted ones were imported as well; what a client has created was kept out.
    let told = "imported: Some(Imported { objects: ";
    let counts = ended.log.split(told).skip(1).filter_map(|rest| {
        let (count, rest) = rest.split_once(',')?;
        let left = rest.split_once("left: ")?.1.split_once(',')?.0;
        Some((count.parse::<usize>().ok()?, left.parse::<usize>().ok()?))
    });
    let counts: Vec<_> = counts.collect();
    let sum = |of: fn(&(usize, usize)) -> usize| counts.iter().map(of).sum::<usize>();
    assert_eq!(counts.len(), GROUPS.len(), "{}", ended.log);
    assert_eq!((sum(|c| c.0), sum(|c| c.1)), (wanted.imported.len(), 2));
    same(&ground, &wanted.objects, false).await;

    // What is deleted now stays deleted: the import is done.
    let mut left = wanted.imported.iter();
    let key = left
        .find(|key| wanted.objects.0.contains_key(*key))
        .unwrap();
    delete(&ground, key).await;
    wanted.objects.0.remove(key);
    ground.migrate("again", &flags).await;
    same(&ground, &wanted.objects, false).await;
    assert_eq!(rows, ground.incumbent.rows().await.unwrap());
    if crds {
        ground.migrate("back", &["--back"]).await;
        same(&ground, &wanted.objects, true).await;
        assert_eq!(ground.etcd_has().await, wanted.objects.0.len() as u64);
    }
}

/// The incumbent ends in order, and what it leaves of its APIServices is taken away. It leads them to
/// the CRDs then, but for one that its reconciler puts back at that moment.
async fn leave(ground: &mut Ground, crds: bool) {
    ground.incumbent.end().await.unwrap();
    let services: Api<APIService> = Api::all(ground.clients[0].clone());
    for name in api_services() {
        services
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    }
    for client in ground.clients.iter().filter(|_| crds) {
        for kind in kinds() {
            while list(client, kind, "").await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

/// Until the group is moved clients write to etcd, some of it by names that the database knows.
async fn meanwhile(ground: &Ground, kept: Objects, crds: bool) -> Wanted {
    let mut etcd = Objects::default();
    if crds {
        let writers = ground.write(&etcd);
        writers.ledger.more_writes(BEFORE).await;
        let account = writers.finish().await.account();
        assert!(account.failures.is_empty(), "{:#?}", account.failures);
        for (key, object) in one_of_each(&kept) {
            if !account.stored.0.contains_key(&key) {
                create(ground, &key, anew(&object)).await;
            }
        }
        etcd = ground.objects().await;
        assert!(etcd.0.keys().any(|key| kept.0.contains_key(key)));
    }
    let only_there = kept.0.keys().filter(|key| !etcd.0.contains_key(*key));
    let imported = only_there.cloned().collect();
    let rows = kept.0.keys().cloned().collect();
    let mut objects = kept;
    objects.0.extend(etcd.0);
    Wanted {
        objects,
        imported,
        rows,
    }
}

/// Rows that are left in the database: of a namespace that does not exist, of another name than they
/// say, and of another cluster.
async fn strangers(ground: &Ground) {
    let copy = |cluster: &str, name: &str, namespace: &str, report: &str| {
        format!(
            "INSERT INTO policyreports (cluster_id, name, namespace, report)
             SELECT {cluster}, {name}, {namespace}, {report} FROM policyreports
             ORDER BY name LIMIT 1;"
        )
    };
    let nowhere = copy(
        "cluster_id",
        "name",
        "'nowhere'",
        "jsonb_set(report, '{metadata,namespace}', '\"nowhere\"')",
    );
    let misnamed = copy("cluster_id", "'misnamed'", "namespace", "report");
    let other = copy(
        &format!("'{OTHER_CLUSTER}'::uuid"),
        "'of-another-cluster'",
        "namespace",
        "jsonb_set(report, '{metadata,name}', '\"of-another-cluster\"')",
    );
    let all = [nowhere, misnamed, other].join("\n");
    ground.incumbent.execute(&all).await.unwrap();
}

/// A migration that cannot have the database: the groups are served meanwhile, and it says what is
/// missing.
async fn waits(ground: &Ground, name: &str, flags: &[&str]) {
    let migration = ground.processes.migrate(name, None, flags).unwrap();
    let log = || std::fs::read_to_string(migration.process.log()).unwrap_or_default();
    let of_group = |line: &str, group: &str| {
        line.starts_with(group)
            && line.contains("Importing ImportDatabase DatabaseMissing (stalled)")
    };
    let says = |group: &str| log().lines().any(|line| of_group(line, group));
    let told = async {
        while !GROUPS.iter().all(|group| says(group)) {
            tokio::time::sleep(LOOK).await;
        }
    };
    let told = tokio::time::timeout(LIMIT, told).await;
    assert!(told.is_ok(), "{}", log());
    assert!(ground.is_ours().await);
    assert_eq!(served(ground).await.len(), kinds().count());
    migration.process.signal(Signal::Kill).unwrap();
    migration.ended(LIMIT).await.unwrap();
}

/// A migration that comes to a fault point.
async fn dies(ground: &Ground, name: &str, flags: &[&str]) {
    let migration = ground.processes.migrate(name, Some(FAULTS), flags).unwrap();
    let ended = migration.ended(LIMIT).await.unwrap();
    assert!(
        !ended.done && ended.log.contains("fault point: aborting"),
        "{}",
        ended.log
    );
}

/// A group is served, and nothing of it is imported: clients delete what the database has as well, and
/// create what only it has.
async fn before(ground: &Ground, wanted: &mut Wanted) {
    let kinds = served(ground).await;
    let there = ground_objects(ground, &kinds).await;
    let of_served = |key: &&Key| kinds.contains(&key.0);
    let key = wanted.imported.iter().find(of_served).cloned();
    let key = key.expect("a report that only the database has");
    assert!(!there.contains_key(&key));
    let own = create(ground, &key, anew(&wanted.objects.0[&key])).await;
    wanted.imported.retain(|imported| *imported != key);
    wanted.objects.0.insert(key, own);
    // Copied from etcd, with a row of the same name.
    let stays = there.keys().find(|key| wanted.rows.contains(*key));
    if let Some(key) = stays {
        delete(ground, key).await;
        wanted.objects.0.remove(key);
    }
}

/// The operator has died after a page: a client deletes a report that was just imported.
async fn within(ground: &Ground, wanted: &mut Wanted) {
    let kinds = served(ground).await;
    let there = ground_objects(ground, &kinds).await;
    let (done, rest): (Vec<_>, Vec<_>) = wanted
        .imported
        .iter()
        .filter(|key| kinds.contains(&key.0))
        .partition(|key| there.contains_key(*key));
    assert!(!done.is_empty() && !rest.is_empty(), "{done:?}, {rest:?}");
    let key = done[0].clone();
    delete(ground, &key).await;
    wanted.objects.0.remove(&key);
}

/// The kinds that our server serves, and has looked for late writes of.
async fn served(ground: &Ground) -> Vec<ReportKind> {
    let mut served = Vec::new();
    for kind in kinds() {
        let name = format!("{}.{}", kind.plural(), kind.group());
        let get = [
            "get",
            "storedresource",
            &name,
            "-o",
            "jsonpath={.status.settled}",
        ];
        if ground.processes.cluster.kubectl(get).await.unwrap() == "true" {
            served.push(kind);
        }
    }
    assert!(!served.is_empty());
    served
}

async fn ground_objects(ground: &Ground, kinds: &[ReportKind]) -> BTreeMap<Key, Value> {
    let mut objects = BTreeMap::new();
    for kind in kinds {
        let list = list(&ground.clients[0], *kind, "").await.unwrap();
        for item in list["items"].as_array().unwrap() {
            objects.insert(key(*kind, item), item.clone());
        }
    }
    objects
}

fn one_of_each(objects: &Objects) -> Vec<(Key, Value)> {
    let first = |kind| objects.0.iter().find(move |(key, _)| key.0 == kind);
    let found = kinds().filter_map(first);
    found
        .map(|(key, object)| (key.clone(), object.clone()))
        .collect()
}

/// A report of the same name with another content.
fn anew(report: &Value) -> Value {
    let mut report = report.clone();
    report["metadata"]["labels"]["written"] = json!("anew");
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
    ] {
        report["metadata"].as_object_mut().unwrap().remove(field);
    }
    report
}

async fn create(ground: &Ground, (kind, namespace, _): &Key, mut report: Value) -> Value {
    report["apiVersion"] = json!(format!("{}/{}", kind.group(), kind.version()));
    report["kind"] = json!(kind.kind());
    let namespace = kind.namespaced().then_some(namespace.as_str());
    let body = report.to_string().into_bytes();
    request(ground, Method::POST, &kind.path(namespace), body).await
}

async fn delete(ground: &Ground, (kind, namespace, name): &Key) {
    let namespace = kind.namespaced().then_some(namespace.as_str());
    let path = format!("{}/{name}", kind.path(namespace));
    request(ground, Method::DELETE, &path, Vec::new()).await;
}

async fn request(ground: &Ground, method: Method, path: &str, body: Vec<u8>) -> Value {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .unwrap();
    ground.clients[1].request(request).await.unwrap()
}

/// Every kube-apiserver shows what is to be there.
async fn same(ground: &Ground, wanted: &Objects, anew: bool) {
    for client in &ground.clients {
        let found = Objects::read(client).await.unwrap();
        nothing(&found.differences(wanted, anew));
    }
}
