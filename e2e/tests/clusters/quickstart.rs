//! The commands of docs/quickstart.md, as they stand there, on a cluster with a node and generated
//! reports: but for those that need Docker or the network, and the steps with Kyverno's own
//! example.

use std::path::Path;
use std::time::Duration;

use crate::common::{bash, helm, options, say};
use e2e::page::{Block, Page};
use e2e::takeover::Takeover;
use testreports::Input;

const PAGE: Page = Page {
    name: "docs/quickstart.md",
    text: include_str!("../../../docs/quickstart.md"),
};
const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests");
const REPORTS: usize = 200;
const FROM_NOTHING: &str = "From nothing";
const FROM_KYVERNO: &str = "From an existing Kyverno installation";
const BACK: &str = "Back";
/// Longest time of one command: longer than any of the page waits.
const COMMAND_LIMIT: Duration = Duration::from_mins(12);
/// Every report, by name.
const ALL: &str = "kubectl get polr,cpolr,ephr,cephr --all-namespaces --output name | sort";
/// The command of docs/uninstall.md.
const UNINSTALL: &str =
    "helm uninstall reports-server-operator --namespace reports-server-system --wait";

/// Beginnings of the commands that are not run here, by heading. Docker, images and a cluster are
/// there already, Kyverno's charts would be fetched, and its example needs PostgreSQL's own image.
const NOT_RUN: [(&str, &[&str]); 2] = [
    (
        FROM_NOTHING,
        &[
            "kind ",
            "hack/image",
            "helm repo add ",
            "helm install kyverno",
        ],
    ),
    (
        FROM_KYVERNO,
        &[
            "awk ",
            "kubectl get reportsserver ",
            "kubectl apply ",
            "kubectl wait ",
        ],
    ),
];

/// Returns the commands under a heading, in order.
fn commands(heading: &str) -> Vec<String> {
    let blocks = PAGE.under(heading, "console");
    for block in &blocks {
        let output = block.output();
        assert!(output.is_empty(), "output of a command: {output:?}");
    }
    let commands: Vec<_> = blocks.iter().flat_map(Block::commands).collect();
    assert!(!commands.is_empty(), "no commands under '{heading}'");
    commands
}

/// Returns those that are run here.
fn run_here(heading: &str) -> Vec<String> {
    let named = NOT_RUN.iter().find(|(of, _)| *of == heading);
    let left_out = named.map_or(&[][..], |(_, beginnings)| *beginnings);
    let mut commands = commands(heading);
    for beginning in left_out {
        let before = commands.len();
        commands.retain(|command| !command.starts_with(*beginning));
        assert!(
            commands.len() < before,
            "no command begins with '{beginning}'"
        );
    }
    commands
}

/// Somebody who reads the page, with a shell in a folder that has the manifests.
struct Reader<'a> {
    line: &'a Takeover,
    folder: tempfile::TempDir,
}

impl<'a> Reader<'a> {
    fn new(line: &'a Takeover, helm: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("bin")).unwrap();
        std::os::unix::fs::symlink(helm, at("bin/helm")).unwrap();
        std::os::unix::fs::symlink(MANIFESTS, at("manifests")).unwrap();
        let values = PAGE.under(FROM_NOTHING, "yaml");
        assert_eq!(values.len(), 1, "{values:?}");
        std::fs::write(at("values.yaml"), values[0].text()).unwrap();
        Self { line, folder }
    }

    /// Runs a command; returns what it printed.
    async fn runs(&self, command: &str) -> String {
        // A person ends a watch.
        let command = command.replace(" --watch", "");
        let script = format!("set -euo pipefail\nPATH=\"$PWD/bin:$PATH\"\n{command}\n");
        let (cluster, folder) = (&self.line.cluster, self.folder.path());
        bash(cluster, folder, (&command, &script), COMMAND_LIMIT).await
    }

    /// Runs the commands under a heading; returns what all of them printed.
    async fn follows(&self, heading: &str) -> String {
        let mut said = String::new();
        for command in run_here(heading) {
            said.push_str(&self.runs(&command).await);
        }
        said
    }
}

#[test]
fn most_commands_of_the_quickstart_are_run() {
    let run: usize = [FROM_NOTHING, FROM_KYVERNO, BACK]
        .map(|heading| run_here(heading).len())
        .iter()
        .sum();
    assert!(run > 10, "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_leads_to_a_switched_cluster_and_back() {
    let Some(helm) = helm() else { return };
    let options = options(Input::Generated { seed: 3 }, REPORTS);
    let line = Takeover::prepare(options, say).await.unwrap();
    let reader = Reader::new(&line, &helm);
    let before = reader.runs(ALL).await;
    assert!(before.lines().count() >= REPORTS, "{before}");

    let said = reader.follows(FROM_NOTHING).await;
    let service = "policy-reports/policy-reports-server";
    assert!(said.contains(service), "{said}");
    assert_eq!(reader.runs(ALL).await, before);

    reader.follows(BACK).await;
    assert_eq!(reader.runs(ALL).await, before);
    reader.runs(UNINSTALL).await;
    reader.follows(FROM_KYVERNO).await;
}
