//! kubectl's commands about reports, as users give them. They are given with the CRDs behind first,
//! so that nothing is expected here that a CRD does not do.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::api_clients::applies::given;
use crate::api_clients::{create, kubectl, timed};
use crate::api_support::*;

const NAME: &str = "policyreport.wgpolicyk8s.io/printed";

/// All of them; leaves no report.
pub async fn commands(setup: &Setup) {
    create(setup, "default", "printed").await;
    timed("prints", prints(setup)).await;
    timed("selects", selects(setup)).await;
    timed("changes", changes(setup)).await;
    timed("waits", waits(setup)).await;
    timed("shows_differences", shows_differences(setup)).await;
    timed("replaces", replaces(setup)).await;
    timed("says_who_may", says_who_may(setup)).await;
    timed("deletes", deletes(setup)).await;
}

/// Returns kubectl's answer, however it ends, and whether it succeeded.
async fn run(setup: &Setup, args: &[&str], input: &Value) -> (bool, String) {
    let mut command = setup.cluster.command("kubectl");
    command.args(args).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(input.to_string().as_bytes()).await;
    drop(stdin);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().await.unwrap();
    let text = [stdout, stderr].concat();
    (status.success(), String::from_utf8(text).unwrap())
}

#[track_caller]
fn refused((good, said): (bool, String), words: &str) {
    assert!(!good && said.contains(words), "{said}");
}

/// A file with this text, for the forms that take one.
fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

/// Every form of `-o`.
async fn prints(setup: &Setup) {
    let path = file("{.summary.pass}");
    let template = file("{{.summary.pass}}");
    let columns = file("N             P\n.metadata.name .summary.pass\n");
    let form =
        |form: &str, file: &tempfile::NamedTempFile| format!("{form}={}", file.path().display());
    for (form, expected) in [
        ("name".to_owned(), NAME),
        ("jsonpath={.summary.pass}".to_owned(), "1"),
        (form("jsonpath-file", &path), "1"),
        ("go-template={{.summary.pass}}".to_owned(), "1"),
        (form("go-template-file", &template), "1"),
        ("template={{.summary.pass}}".to_owned(), "1"),
        (
            "custom-columns=N:.metadata.name,P:.summary.pass".to_owned(),
            "N P printed 1",
        ),
        (form("custom-columns-file", &columns), "N P printed 1"),
    ] {
        let shown = kubectl(setup, &["get", "polr", "printed", "-o", &form]).await;
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!(words.join(" "), expected, "-o {form}");
    }
    let json = kubectl(setup, &["get", "polr", "printed", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["results"][0]["policy"], "p");
    assert_eq!(json["metadata"].get("managedFields"), None);
    let form = "jsonpath-as-json={.summary.pass}";
    let json = kubectl(setup, &["get", "polr", "printed", "-o", form]).await;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json!([1]));
    for (form, words) in [
        ("yaml", "kind: PolicyReport\n"),
        ("kyaml", "kind: \"PolicyReport\","),
    ] {
        let shown = kubectl(setup, &["get", "polr", "printed", "-o", form]).await;
        assert!(shown.contains(words), "-o {form}: {shown}");
    }
    let list = kubectl(setup, &["get", "polr,cpolr", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let versions = kubectl(setup, &["api-versions"]).await;
    assert!(versions.contains("wgpolicyk8s.io/v1alpha2\n"), "{versions}");
    let explained = kubectl(setup, &["explain", "polr", "--recursive"]).await;
    assert!(explained.contains("resourceSelector"), "{explained}");
    let raw = kubectl(setup, &["get", "--raw", REPORTS]).await;
    assert!(raw.contains(r#""kind":"PolicyReportList""#), "{raw}");
}

/// The forms of tables, and the selections of reports.
async fn selects(setup: &Setup) {
    for (args, words) in [
        (&["--no-headers", "--show-labels"][..], "app=printed"),
        (&["-L", "app"], "APP"),
        (&["--show-kind"], NAME),
        (&["-o", "wide", "-A"], "NAMESPACE"),
        (&["--field-selector", "metadata.name=printed"], "printed"),
        (&["-l", "app in (printed,other)"], "printed"),
        (&["-l", "app=other"], "No resources found"),
        (&["--sort-by=.metadata.name", "--chunk-size=1"], "printed"),
        (&["other", "--ignore-not-found"], ""),
    ] {
        let args = [&["get", "polr"], args].concat();
        let (good, said) = run(setup, &args, &Value::Null).await;
        assert!(good && said.contains(words), "{args:?}: {said}");
    }
    let watched = [
        "get",
        "polr",
        "-w",
        "--output-watch-events",
        "--request-timeout=2s",
    ];
    let (_, said) = run(setup, &watched, &Value::Null).await;
    assert!(said.contains("ADDED"), "{said}");
    let described = kubectl(setup, &["describe", "polr", "-l", "app=printed"]).await;
    assert!(
        described.contains("API Version:  wgpolicyk8s.io/v1alpha2"),
        "{described}"
    );
}

/// Labels, annotations and patches, also those that are refused.
async fn changes(setup: &Setup) {
    let on = |args: &[&'static str]| [&args[..1], &["polr", "printed"], &args[1..]].concat();
    kubectl(setup, &on(&["label", "team=a"])).await;
    let again = run(setup, &on(&["label", "team=b"]), &Value::Null).await;
    refused(again, "already has a value (a)");
    kubectl(setup, &on(&["label", "team=b", "--overwrite"])).await;
    kubectl(setup, &["annotate", "polr", "--all", "note=x", "other=y"]).await;
    kubectl(setup, &on(&["annotate", "other-"])).await;
    let meta = kubectl(setup, &on(&["get", "-o", "jsonpath={.metadata}"])).await;
    let meta: Value = serde_json::from_str(&meta).unwrap();
    assert_eq!(meta["labels"], json!({"app": "printed", "team": "b"}));
    assert_eq!(meta["annotations"], json!({"note": "x"}));

    let strategic = on(&["patch", "-p", r#"{"summary":{"pass":2}}"#]);
    refused(
        run(setup, &strategic, &Value::Null).await,
        "application/merge-patch+json",
    );
    let wrong = on(&["patch", "--type=merge", "-p", r#"{"summary":{"pass":"x"}}"#]);
    refused(run(setup, &wrong, &Value::Null).await, "summary.pass");
    let dry = on(&[
        "patch",
        "--type=merge",
        "--dry-run=server",
        "-p",
        r#"{"summary":{"pass":9}}"#,
    ]);
    let dry = kubectl(
        setup,
        &[&dry[..], &["-o", "jsonpath={.summary.pass}"]].concat(),
    )
    .await;
    let stored = kubectl(setup, &on(&["get", "-o", "jsonpath={.summary.pass}"])).await;
    assert_eq!((dry.as_str(), stored.as_str()), ("9", "1"));
}

/// `kubectl wait` for a value, a creation and a deletion.
async fn waits(setup: &Setup) {
    let wait = async |name: &str, what: &str| {
        let args = ["wait", name, &format!("--for={what}"), "--timeout=60s"];
        let said = kubectl(setup, &args).await;
        // Nothing is said of what is gone already.
        let gone = what == "delete" && said.is_empty();
        assert!(
            gone || said.trim() == format!("{name} condition met"),
            "{said}"
        );
    };
    let (value, other) = (
        "jsonpath={.summary.pass}=2",
        "policyreport.wgpolicyk8s.io/other",
    );
    let patch = r#"{"summary":{"pass":2}}"#;
    let patch = ["patch", "polr", "printed", "--type=merge", "-p", patch];
    tokio::join!(wait(NAME, value), kubectl(setup, &patch));
    tokio::join!(wait(other, "create"), create(setup, "default", "other"));
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    let release = r#"{"metadata":{"finalizers":null}}"#;
    kubectl(
        setup,
        &["patch", "polr", "other", "--type=merge", "-p", hold],
    )
    .await;
    kubectl(setup, &["delete", "polr", "other", "--wait=false"]).await;
    let release = ["patch", "polr", "other", "--type=merge", "-p", release];
    tokio::join!(wait(other, "delete"), kubectl(setup, &release));
    let args = [
        "wait",
        "polr",
        "printed",
        "--for=jsonpath={.summary.pass}=7",
        "--timeout=1s",
    ];
    refused(run(setup, &args, &Value::Null).await, "timed out waiting");
}

/// `kubectl diff` in both ways, and what `apply` keeps of what was applied last.
async fn shows_differences(setup: &Setup) {
    let mut manifest = report("compared");
    manifest["metadata"]["labels"] = json!({"app": "compared", "dropped": "x"});
    given(setup, &["apply", "-f", "-"], &manifest)
        .await
        .unwrap();
    let last = [
        "apply",
        "view-last-applied",
        "polr",
        "compared",
        "-o",
        "json",
    ];
    let last: Value = serde_json::from_str(&kubectl(setup, &last).await).unwrap();
    assert_eq!(last["summary"], manifest["summary"]);
    manifest["summary"]["pass"] = json!(8);
    manifest["metadata"]["labels"] = json!({"app": "compared"});
    let (same, said) = run(setup, &["diff", "-f", "-"], &manifest).await;
    assert!(
        !same && said.contains("\n+  pass: 8\n") && said.contains("\n-    dropped: x\n"),
        "{said}"
    );
    let forced = ["diff", "--server-side", "--force-conflicts", "-f", "-"];
    let (same, said) = run(setup, &forced, &manifest).await;
    assert!(!same && said.contains("\n+  pass: 8\n"), "{said}");
    let dry = ["apply", "--dry-run=server", "-f", "-"];
    let dry = given(setup, &dry, &manifest).await.unwrap();
    assert!(
        dry.ends_with("compared configured (server dry run)"),
        "{dry}"
    );
    given(setup, &["apply", "-f", "-"], &manifest)
        .await
        .unwrap();
    let labels = [
        "get",
        "polr",
        "compared",
        "-o",
        "jsonpath={.metadata.labels}",
    ];
    assert_eq!(kubectl(setup, &labels).await, r#"{"app":"compared"}"#);
    let (same, said) = run(setup, &["diff", "-f", "-"], &manifest).await;
    assert!(same && said.is_empty(), "{said}");
}

/// `create` and `replace`, also by deletion.
async fn replaces(setup: &Setup) {
    let mut manifest = report("compared");
    refused(
        run(setup, &["create", "-f", "-"], &manifest).await,
        "AlreadyExists",
    );
    let uid = ["get", "polr", "compared", "-o", "jsonpath={.metadata.uid}"];
    let before = kubectl(setup, &uid).await;
    manifest["summary"]["pass"] = json!(3);
    let said = given(setup, &["replace", "-f", "-"], &manifest)
        .await
        .unwrap();
    assert!(said.ends_with("compared replaced"), "{said}");
    assert_eq!(kubectl(setup, &uid).await, before);
    given(setup, &["replace", "--force", "-f", "-"], &manifest)
        .await
        .unwrap();
    assert_ne!(kubectl(setup, &uid).await, before);
}

/// `auth can-i`, and that it is true.
async fn says_who_may(setup: &Setup) {
    assert_eq!(
        kubectl(setup, &["auth", "can-i", "create", "polr"])
            .await
            .trim(),
        "yes"
    );
    let reader = "--as=system:serviceaccount:default:reader";
    let on = |args: &[&'static str]| [args, &[reader]].concat();
    let may = async |verb: &'static str| {
        let (_, said) = run(setup, &on(&["auth", "can-i", verb, "polr"]), &Value::Null).await;
        said.trim() == "yes"
    };
    assert!(!may("list").await);
    let role = [
        "create",
        "role",
        "reader",
        "--verb=get,list",
        "--resource=policyreports.wgpolicyk8s.io",
    ];
    kubectl(setup, &role).await;
    let to = "--serviceaccount=default:reader";
    kubectl(
        setup,
        &["create", "rolebinding", "reader", "--role=reader", to],
    )
    .await;
    setup
        .until("the reader may read", async || may("list").await)
        .await;
    assert!(!may("delete").await);
    let all = kubectl(setup, &on(&["auth", "can-i", "--list"])).await;
    assert!(all.contains("policyreports.wgpolicyk8s.io"), "{all}");
    let read = kubectl(setup, &on(&["get", "polr", "-o", "name"])).await;
    assert!(read.contains(NAME), "{read}");
    let deleted = run(setup, &on(&["delete", "polr", "printed"]), &Value::Null).await;
    refused(deleted, "Forbidden");
    refused(
        run(setup, &on(&["get", "polr", "-A"]), &Value::Null).await,
        "at the cluster scope",
    );
    kubectl(setup, &["delete", "role,rolebinding", "reader"]).await;
}

/// By file, selector, and all.
async fn deletes(setup: &Setup) {
    let dry = kubectl(setup, &["delete", "polr", "printed", "--dry-run=server"]).await;
    assert!(dry.contains("deleted"), "{dry}");
    kubectl(setup, &["get", "polr", "printed"]).await;
    given(setup, &["delete", "-f", "-"], &report("compared"))
        .await
        .unwrap();
    kubectl(
        setup,
        &[
            "delete",
            "polr",
            "-l",
            "app=printed",
            "--cascade=background",
        ],
    )
    .await;
    let missing = run(setup, &["delete", "polr", "printed"], &Value::Null).await;
    refused(missing, "NotFound");
    kubectl(setup, &["delete", "polr", "printed", "--ignore-not-found"]).await;
    create(setup, "default", "one").await;
    create(setup, "default", "two").await;
    kubectl(setup, &["delete", "polr", "--all", "--now"]).await;
    let left = kubectl(setup, &["get", "polr", "-o", "name"]).await;
    assert_eq!(left, "");
}
