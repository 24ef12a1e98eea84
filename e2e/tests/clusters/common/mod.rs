//! The parts that the tests of the whole line share.

pub mod faults;
pub mod recreate;
pub mod rights;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use e2e::chaos::Flaw;
use e2e::takeover::{COUNT_PERIOD, Database, Takeover, TakeoverOptions};
use testcluster::{Cluster, ClusterOptions};
use testreports::Input;

/// The flaws that no client may ever suffer, also on a machine that is busy with other tests.
pub const NEVER: [Flaw; 4] = [
    Flaw::Lost,
    Flaw::Resurrected,
    Flaw::Missed,
    Flaw::FailedRequest,
];

/// Returns whether everything is to be tested whole (`hack/test --full`).
pub fn full() -> bool {
    std::env::var_os("E2E_FULL").is_some()
}

/// The line at small size. The images come from `hack/image`, which `hack/test` has run.
pub fn options(input: Input, reports: usize) -> TakeoverOptions {
    let images = std::env::var_os("REPORTS_SERVER_IMAGES")
        .map(PathBuf::from)
        .expect("REPORTS_SERVER_IMAGES names the folder that hack/image wrote to; see hack/test");
    let mut cluster = ClusterOptions::node();
    cluster.apiserver_args.push(COUNT_PERIOD.to_owned());
    TakeoverOptions {
        reports,
        input,
        rate: if full() { 30.0 } else { 15.0 },
        images,
        manifests: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests")),
        cluster,
        database: Database::Embedded,
        incumbent: None,
    }
}

/// Returns the program Helm, or none where it is not there, which is a failure with `CI=true`.
pub fn helm() -> Option<PathBuf> {
    let helm = std::env::var_os("REPORTS_SERVER_HELM").map(PathBuf::from);
    let required = std::env::var("CI").as_deref() == Ok("true");
    assert!(
        helm.is_some() || !required,
        "REPORTS_SERVER_HELM is not set"
    );
    if helm.is_none() {
        println!(
            "skipped: REPORTS_SERVER_HELM is not set; hack/ways helm prints what it has to be"
        );
    }
    helm
}

/// Runs a script of bash beside a cluster, as a person in `folder` does; returns what it printed.
/// `commands` are what the person types of it.
pub async fn bash(
    cluster: &Cluster,
    folder: &Path,
    (commands, script): (&str, &str),
    limit: Duration,
) -> String {
    println!("$ {commands}");
    let mut bash = cluster.command("bash");
    let run = bash
        .arg("-c")
        .arg(script)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let run = tokio::time::timeout(limit, run).await;
    let run = run
        .unwrap_or_else(|_| panic!("not over: {commands}"))
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&run.stdout), text(&run.stderr));
    println!("{said}{errors}");
    assert!(run.status.success(), "{commands}\n{said}\n{errors}");
    said
}

/// Reasons of the warnings that a first start without a fault may have, and why.
const ALLOWED: [(&str, &str); 1] = [(
    "Straggler",
    "a client's write was under way when its group was switched, and was found",
)];

/// Makes sure that a first start, in which nothing went wrong, was told without a warning.
pub async fn nothing_was_warned_of(line: &Takeover) {
    let about = "--field-selector=type=Warning,involvedObject.kind=ReportsServer";
    let output = "jsonpath={range .items[*]}{.reason}{\" \"}{.message}{\"\\n\"}{end}";
    let args = ["get", "events", "-A", about, "-o", output];
    let events = line.cluster.kubectl(args).await.unwrap();
    let is_allowed = |event: &&str| ALLOWED.iter().any(|(reason, _)| event.starts_with(reason));
    let warnings: Vec<&str> = events.lines().filter(|event| !is_allowed(event)).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

/// Progress goes to the test's output.
pub fn say(text: &str) {
    println!("{text}");
}
