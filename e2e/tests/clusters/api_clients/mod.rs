//! Reports that the server serves through the aggregator of a real control plane, in the hands of
//! kubectl and of the cluster's controllers.
mod applies;
mod kubectl;

use std::time::Duration;

use crate::api_support::*;
use applies::given;
use comparison::serving::Storage;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

/// On a control plane of its own: a controller's watch of the CRD's reports would outlive the
/// switch, which is the operator's to see to.
#[tokio::test]
async fn kubectl_with_the_crds() {
    kubectl::commands(&Setup::start().await).await;
}

#[tokio::test]
async fn kubectl_and_the_controllers() {
    clients(&mut Setup::start().await).await;
}

/// Two servers on one database, of which the kube-apiserver takes one or the other.
#[tokio::test]
async fn and_with_two_servers_on_postgresql() {
    let mut setup = Setup::start().await;
    setup.options.storage = Storage::Postgres;
    setup.options.servers = 2;
    clients(&mut setup).await;
}

async fn clients(setup: &mut Setup) {
    setup.switch().await;
    timed("kubectl", Box::pin(kubectl::commands(setup))).await;
    timed("kubectl_reads", kubectl_reads(setup)).await;
    timed("kubectl_writes", kubectl_writes(setup)).await;
    timed("kubectl_applies", applies::kubectl_applies(setup)).await;
    timed("kube_applies", applies::kube_applies(setup)).await;
    timed(
        "the_control_api_reads_well",
        the_control_api_reads_well(setup),
    )
    .await;
    timed("informers_follow", informers_follow(setup)).await;
    timed("a_raw_watch_resumes", a_raw_watch_resumes(setup)).await;
    timed(
        "a_namespace_takes_its_reports_along",
        a_namespace_takes_its_reports_along(setup),
    )
    .await;
    timed(
        "the_garbage_collector_deletes_what_its_owner_leaves",
        the_garbage_collector_deletes_what_its_owner_leaves(setup),
    )
    .await;
    timed("quotas_are_counted", quotas_are_counted(setup)).await;
    timed(
        "a_killed_server_loses_nothing",
        a_killed_server_loses_nothing(setup),
    )
    .await;
}

/// Says how long a step took: the slowest ones wait for the controllers' own intervals.
async fn timed(step: &str, work: impl Future<Output = ()>) {
    let began = std::time::Instant::now();
    work.await;
    println!("{step}: {:.1} s", began.elapsed().as_secs_f64());
}

fn report_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha2", "PolicyReport"))
}

fn reports(setup: &Setup, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(setup.client.clone(), namespace, &report_resource())
}

fn object(name: &str) -> DynamicObject {
    serde_json::from_value(report(name)).unwrap()
}

async fn create(setup: &Setup, namespace: &str, name: &str) -> DynamicObject {
    reports(setup, namespace)
        .create(&PostParams::default(), &object(name))
        .await
        .unwrap()
}

async fn kubectl(setup: &Setup, args: &[&str]) -> String {
    setup.cluster.kubectl(args).await.unwrap()
}

async fn kubectl_reads(setup: &Setup) {
    create(setup, "default", "first").await;
    let table = kubectl(setup, &["get", "polr"]).await;
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        head,
        [
            "NAME", "KIND", "NAME", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "AGE"
        ]
    );
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(row[..8], ["first", "Pod", "first", "1", "0", "0", "0", "0"]);
    let all = kubectl(setup, &["get", "polr", "-A", "-o", "wide"]).await;
    assert!(all.starts_with("NAMESPACE"), "{all}");
    let described = kubectl(setup, &["describe", "polr", "first"]).await;
    for words in ["Kind:         PolicyReport", "Policy:  p", "Pass:   1"] {
        assert!(described.contains(words), "{described}");
    }
    let explained = kubectl(setup, &["explain", "polr.results.result"]).await;
    assert!(explained.contains("FIELD: result <string>"), "{explained}");
    let resources = kubectl(
        setup,
        &["api-resources", "--api-group", GROUP, "-o", "wide"],
    )
    .await;
    for words in ["polr", "cpolr", "PolicyReport", "deletecollection"] {
        assert!(resources.contains(words), "{resources}");
    }
    let yaml = kubectl(setup, &["get", "polr", "first", "-o", "yaml"]).await;
    assert!(yaml.contains("kind: PolicyReport"), "{yaml}");
    let name = kubectl(
        setup,
        &["get", "polr", "-o", "jsonpath={.items[0].metadata.name}"],
    )
    .await;
    assert_eq!(name, "first");
    for path in ["/openapi/v2", "/openapi/v3"] {
        setup.get(path).await.expect(200);
    }
}

async fn kubectl_writes(setup: &Setup) {
    let mut manifest = report("applied");
    let apply = async |manifest: &Value| {
        setup
            .cluster
            .kubectl_with_input(["apply", "-f", "-"], &manifest.to_string())
            .await
            .unwrap()
    };
    assert_eq!(
        apply(&manifest).await.trim(),
        "policyreport.wgpolicyk8s.io/applied created"
    );
    assert_eq!(
        apply(&manifest).await.trim(),
        "policyreport.wgpolicyk8s.io/applied unchanged"
    );
    manifest["summary"]["pass"] = json!(5);
    assert_eq!(
        apply(&manifest).await.trim(),
        "policyreport.wgpolicyk8s.io/applied configured"
    );
    let pass = ["get", "polr", "applied", "-o", "jsonpath={.summary.pass}"];
    assert_eq!(kubectl(setup, &pass).await, "5");

    kubectl(setup, &["label", "polr", "applied", "team=a"]).await;
    kubectl(setup, &["annotate", "polr", "applied", "note=<b>&c"]).await;
    let patch = [
        "patch",
        "polr",
        "applied",
        "--type=merge",
        "-p",
        r#"{"summary":{"fail":3}}"#,
    ];
    kubectl(setup, &patch).await;
    let patch = r#"[{"op":"replace","path":"/summary/fail","value":4}]"#;
    kubectl(
        setup,
        &["patch", "polr", "applied", "--type=json", "-p", patch],
    )
    .await;
    let labelled = kubectl(setup, &["get", "polr", "-l", "team=a", "-o", "json"]).await;
    let labelled: Value = serde_json::from_str(&labelled).unwrap();
    assert_eq!(labelled["items"][0]["summary"]["fail"], 4);
    assert_eq!(
        labelled["items"][0]["metadata"]["annotations"]["note"],
        "<b>&c"
    );

    // `kubectl edit` gets, shows an editor, and sends the difference.
    let editor = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&editor, "sed -i 's/fail: 4$/fail: 6/' \"$1\"\n").unwrap();
    let mut edit = setup.cluster.command("kubectl");
    edit.args(["edit", "polr", "applied"])
        .env("EDITOR", format!("sh {}", editor.path().display()));
    let edited = edit.output().await.unwrap();
    assert!(
        edited.status.success(),
        "{}",
        String::from_utf8_lossy(&edited.stderr)
    );
    let fail = ["get", "polr", "applied", "-o", "jsonpath={.summary.fail}"];
    assert_eq!(kubectl(setup, &fail).await, "6");

    let mut bad = report("bad");
    bad["results"][0]["result"] = json!("maybe");
    let refused = given(setup, &["create", "-f", "-"], &bad)
        .await
        .unwrap_err();
    assert!(
        refused.contains("results[0].result: Unsupported value: \"maybe\""),
        "{refused}"
    );
    bad["results"][0]["result"] = json!("pass");
    bad["unknown"] = json!(1);
    let refused = given(setup, &["create", "-f", "-"], &bad)
        .await
        .unwrap_err();
    assert!(
        refused.contains("strict decoding error: unknown field \"unknown\""),
        "{refused}"
    );

    // Waits until a watch says that it is gone.
    let deleted = kubectl(setup, &["delete", "polr", "applied", "--wait=true"]).await;
    assert!(deleted.contains("\"applied\" deleted"), "{deleted}");
    let missing = setup
        .cluster
        .kubectl(["get", "polr", "applied"])
        .await
        .unwrap_err()
        .to_string();
    assert!(missing.contains("NotFound"), "{missing}");
}

async fn the_control_api_reads_well(setup: &Setup) {
    let table = kubectl(setup, &["get", "storedresources"]).await;
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        head,
        ["NAME", "OBJECTS", "BYTES", "RESOURCEVERSION", "GATE", "AGE"]
    );
    assert!(table.contains("policyreports.wgpolicyk8s.io"), "{table}");
    let wide = kubectl(setup, &["get", "storedresources", "-o", "wide"]).await;
    for words in ["HORIZON", "MIRRORED", "IMPORTED", "SCHEMA", "CRD"] {
        assert!(wide.contains(words), "{wide}");
    }
}

/// A typed informer, and one of metadata that begins with a stream (WatchList), as the controllers
/// of Kubernetes do since 1.35.
async fn informers_follow(setup: &Setup) {
    let api = reports(setup, "default");
    let config = watcher::Config::default().streaming_lists();
    let objects: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(setup.client.clone(), "default", &report_resource());
    let metadata = watcher(objects, config).applied_objects();
    let whole = watcher(api.clone(), watcher::Config::default()).applied_objects();
    let (mut metadata, mut whole) = (Box::pin(metadata), Box::pin(whole));
    create(setup, "default", "followed").await;
    let within = |what: &'static str| move |_| panic!("{what}: nothing came");
    let found = async {
        loop {
            let seen: PartialObjectMeta<DynamicObject> =
                metadata.try_next().await.unwrap().unwrap();
            if seen.name_any() == "followed" {
                break seen.uid();
            }
        }
    };
    let uid = tokio::time::timeout(Duration::from_secs(30), found)
        .await
        .unwrap_or_else(within("metadata"));
    let found = async {
        loop {
            let seen: DynamicObject = whole.try_next().await.unwrap().unwrap();
            if seen.name_any() == "followed" {
                break seen.uid();
            }
        }
    };
    let whole_uid = tokio::time::timeout(Duration::from_secs(30), found)
        .await
        .unwrap_or_else(within("whole"));
    assert_eq!(uid, whole_uid);
    api.delete("followed", &DeleteParams::default())
        .await
        .unwrap();
}

/// As client-go's `RetryWatcher`: from a list's version on, and again from the last event's.
async fn a_raw_watch_resumes(setup: &Setup) {
    let api = reports(setup, "default");
    let list = api.list(&ListParams::default()).await.unwrap();
    let mut from = list.metadata.resource_version.unwrap();
    assert!(!matches!(from.as_str(), "" | "0"));
    let mut seen = Vec::new();
    for round in 0..3 {
        let watch = api
            .watch(&kube::api::WatchParams::default(), &from)
            .await
            .unwrap();
        let mut watch = Box::pin(watch);
        for index in 0..2 {
            create(setup, "default", &format!("w{round}{index}")).await;
        }
        for _ in 0..2 {
            let event = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
            match event.unwrap().unwrap().unwrap() {
                kube::api::WatchEvent::Added(object) => {
                    from = object.resource_version().unwrap();
                    seen.push(object.name_any());
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(seen, ["w00", "w01", "w10", "w11", "w20", "w21"]);
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        0
    );
}

async fn a_namespace_takes_its_reports_along(setup: &Setup) {
    let namespaces: Api<Namespace> = Api::all(setup.client.clone());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "full"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    // At once: the server must not rely on having heard of the namespace.
    let names: Vec<String> = (0..200).map(|index| format!("r{index}")).collect();
    let created = futures::stream::iter(&names).map(|name| create(setup, "full", name));
    created.buffer_unordered(16).collect::<Vec<_>>().await;
    // One is held, so that the namespace is seen while it terminates.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let api = reports(setup, "full");
    api.patch("r0", &PatchParams::default(), &Patch::Merge(hold))
        .await
        .unwrap();
    namespaces
        .delete("full", &DeleteParams::default())
        .await
        .unwrap();
    setup
        .until("all but the held report are gone", async || {
            api.list_metadata(&ListParams::default())
                .await
                .unwrap()
                .items
                .len()
                == 1
        })
        .await;
    let refused = api
        .create(&PostParams::default(), &object("late"))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(status.code, 403);
    let words = "unable to create new content in namespace full because it is being terminated";
    assert!(status.message.contains(words), "{}", status.message);
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("r0", &PatchParams::default(), &Patch::Merge(release))
        .await
        .unwrap();
    setup
        .until("the namespace is gone", async || {
            namespaces.get_opt("full").await.unwrap().is_none()
        })
        .await;
    // Servers hear of it by their watches.
    setup
        .until("the server knows", async || {
            let refused = api.create(&PostParams::default(), &object("late")).await;
            let refused = refused.unwrap_err().to_string();
            refused.contains("namespaces \"full\" not found")
        })
        .await;
}

async fn the_garbage_collector_deletes_what_its_owner_leaves(setup: &Setup) {
    let config_maps: Api<ConfigMap> = Api::namespaced(setup.client.clone(), "default");
    let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = config_maps
        .create(&PostParams::default(), &owner)
        .await
        .unwrap();
    let mut dependent = report("owned");
    dependent["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner.uid()}]);
    let dependent: DynamicObject = serde_json::from_value(dependent).unwrap();
    let api = reports(setup, "default");
    api.create(&PostParams::default(), &dependent)
        .await
        .unwrap();
    create(setup, "default", "unowned").await;
    config_maps
        .delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    setup
        .until("the owned report is gone", async || {
            api.get_opt("owned").await.unwrap().is_none()
        })
        .await;
    assert!(api.get_opt("unowned").await.unwrap().is_some());
}

/// The quota controller has an informer for each resource, and does nothing until all of them have
/// begun.
async fn quotas_are_counted(setup: &Setup) {
    let quotas: Api<ResourceQuota> = Api::namespaced(setup.client.clone(), "default");
    let key = "count/policyreports.wgpolicyk8s.io";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {key: "100", "pods": "5"}}});
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    setup
        .until("the reports are counted", async || {
            let quota = quotas.get("q").await.unwrap();
            let used = quota
                .status
                .and_then(|status| status.used)
                .unwrap_or_default();
            used.get(key).is_some_and(|used| used.0 == "1") && used.contains_key("pods")
        })
        .await;
}

async fn a_killed_server_loses_nothing(setup: &mut Setup) {
    let api = reports(setup, "default");
    let before = api.list(&ListParams::default()).await.unwrap();
    let written = create(setup, "default", "written").await;
    setup.replace_server(0).await.unwrap();
    setup
        .until("the server answers again", async || {
            setup.get(&format!("{REPORTS}/written")).await.code == 200
        })
        .await;
    let after = api.get("written").await.unwrap();
    assert_eq!(
        (after.uid(), after.resource_version()),
        (written.uid(), written.resource_version())
    );
    let list = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), before.items.len() + 1);
    // Every event since is still there for a watch.
    let from = before.metadata.resource_version.unwrap();
    let watch = api
        .watch(&kube::api::WatchParams::default(), &from)
        .await
        .unwrap();
    let event = tokio::time::timeout(Duration::from_secs(30), Box::pin(watch).next()).await;
    match event.unwrap().unwrap().unwrap() {
        kube::api::WatchEvent::Added(object) => assert_eq!(object.name_any(), "written"),
        other => panic!("{other:?}"),
    }
}
