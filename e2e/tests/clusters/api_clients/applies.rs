//! Server-side apply by kubectl and by kube.

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::api_clients::{kubectl, object, reports};
use crate::api_support::*;

const SERVER_SIDE: [&str; 4] = ["apply", "--server-side", "-f", "-"];

/// Returns kubectl's answer when it is given `manifest`.
pub async fn given(setup: &Setup, args: &[&str], manifest: &Value) -> Result<String, String> {
    let (args, input) = (args.iter().copied(), manifest.to_string());
    let said = setup.cluster.kubectl_with_input(args, &input).await;
    Ok(said.map_err(|error| error.to_string())?.trim().to_owned())
}

/// `manager operation` of all entries.
async fn managers(setup: &Setup, name: &str) -> Vec<String> {
    let object = setup.get(&format!("{REPORTS}/{name}")).await.expect(200);
    let entries = object.json()["metadata"]["managedFields"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = entries.as_array().unwrap().iter();
    let mut names: Vec<String> = entries
        .map(|entry| format!("{} {}", text(&entry["manager"]), text(&entry["operation"])))
        .collect();
    names.sort();
    names
}

async fn version(setup: &Setup, name: &str) -> String {
    let path = "jsonpath={.metadata.resourceVersion}";
    kubectl(setup, &["get", "polr", name, "-o", path]).await
}

pub async fn kubectl_applies(setup: &Setup) {
    let name = "policyreport.wgpolicyk8s.io/served";
    let mut manifest = report("served");
    let applied = given(setup, &SERVER_SIDE, &manifest).await.unwrap();
    assert_eq!(applied, format!("{name} serverside-applied"));
    let before = version(setup, "served").await;
    given(setup, &SERVER_SIDE, &manifest).await.unwrap();
    assert_eq!(version(setup, "served").await, before, "nothing changes");
    assert_eq!(managers(setup, "served").await, ["kubectl Apply"]);
    let diff = given(setup, &["diff", "--server-side", "-f", "-"], &manifest).await;
    assert_eq!(diff.unwrap(), "");

    manifest["summary"]["pass"] = json!(7);
    let other = [&SERVER_SIDE[..], &["--field-manager=other"]].concat();
    let refused = given(setup, &other, &manifest).await.unwrap_err();
    let words = "Apply failed with 1 conflict: conflict with \"kubectl\": .summary.pass";
    assert!(refused.contains(words), "{refused}");
    let force = [&other[..], &["--force-conflicts"]].concat();
    given(setup, &force, &manifest).await.unwrap();
    let show = [
        "get",
        "polr",
        "served",
        "--show-managed-fields",
        "-o",
        "yaml",
    ];
    let shown = kubectl(setup, &show).await;
    assert!(shown.contains("manager: other"), "{shown}");

    from_client_side(setup).await;
    kubectl(setup, &["delete", "polr", "served", "migrated"]).await;
}

/// kubectl makes the entry of client-side apply one of server-side apply when it applies on the
/// server first, and has another keep the annotation.
async fn from_client_side(setup: &Setup) {
    let mut manifest = report("migrated");
    given(setup, &["apply", "-f", "-"], &manifest)
        .await
        .unwrap();
    assert_eq!(
        managers(setup, "migrated").await,
        ["kubectl-client-side-apply Update"]
    );
    manifest["summary"]["pass"] = json!(2);
    manifest["metadata"]["labels"] = json!({"another": "label"});
    given(setup, &SERVER_SIDE, &manifest).await.unwrap();
    let after = ["kubectl Apply", "kubectl-last-applied Apply"];
    assert_eq!(managers(setup, "migrated").await, after);
    let object = setup.get(&format!("{REPORTS}/migrated")).await.json();
    assert_eq!(object["summary"]["pass"], 2);
    assert_eq!(object["metadata"]["labels"], json!({"another": "label"}));
    // Whoever goes back finds what was applied last. The server leaves out the empty map of
    // annotations that kubectl has in its own account of it, so the first time writes that.
    for said in ["configured", "unchanged"] {
        let back = given(setup, &["apply", "-f", "-"], &manifest)
            .await
            .unwrap();
        assert_eq!(back, format!("policyreport.wgpolicyk8s.io/migrated {said}"));
    }
}

pub async fn kube_applies(setup: &Setup) {
    let api = reports(setup, "default");
    let mut wanted = object("by-kube");
    let apply = async |params: PatchParams, wanted: &DynamicObject| {
        api.patch("by-kube", &params, &Patch::Apply(wanted)).await
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let created = apply(one.clone(), &wanted).await.unwrap();
    let again = apply(one, &wanted).await.unwrap();
    assert_eq!(again, created);
    wanted.data["summary"]["pass"] = json!(3);
    let refused = apply(two.clone(), &wanted).await;
    let kube::Error::Api(status) = refused.unwrap_err() else {
        panic!("no Status")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let details = status.details.unwrap();
    assert_eq!(details.causes[0].field, ".summary.pass");
    let taken = apply(two.force(), &wanted).await.unwrap();
    assert_eq!(taken.data["summary"]["pass"], 3);
    kubectl(setup, &["delete", "polr", "by-kube"]).await;
}
