//! The commands of the pages about installing, upgrading and uninstalling, as they stand there.

use std::fs::create_dir;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::{TempDir, tempdir_in};
use testcluster::Cluster;

use super::error::MatrixError;
use super::tool;
use crate::page::{Block, Page};

const INSTALL: Page = Page {
    name: "docs/install.md",
    text: include_str!("../../../docs/install.md"),
};
const UPGRADE: Page = Page {
    name: "docs/upgrade.md",
    text: include_str!("../../../docs/upgrade.md"),
};
const UNINSTALL: Page = Page {
    name: "docs/uninstall.md",
    text: include_str!("../../../docs/uninstall.md"),
};

/// A block of commands on a page, known by its heading and the beginning of its first command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    page: Page,
    heading: &'static str,
    begins: &'static str,
}

impl Passage {
    const fn of(page: Page, heading: &'static str, begins: &'static str) -> Self {
        Self {
            page,
            heading,
            begins,
        }
    }

    /// Returns the commands.
    ///
    /// # Errors
    /// If the page has none, or has several such blocks.
    pub fn commands(&self) -> Result<Vec<String>, MatrixError> {
        let blocks = self.page.under(self.heading, "console");
        let mut found: Vec<_> = blocks.iter().map(Block::commands).collect();
        found.retain(|commands| {
            let first = commands.first();
            first.is_some_and(|first| first.starts_with(self.begins))
        });
        match <[_; 1]>::try_from(found) {
            Ok([commands]) => Ok(commands),
            Err(_) => Err(MatrixError::Example(format!(
                "{} does not have one block '{}' under '{}'",
                self.page.name, self.begins, self.heading
            ))),
        }
    }
}

/// The installations.
pub const BY_MANIFEST: Passage = Passage::of(INSTALL, "By manifest", "kubectl apply");
pub const BY_KUSTOMIZE: Passage = Passage::of(INSTALL, "By kustomize", "kubectl apply");
pub const BY_HELM: Passage = Passage::of(INSTALL, "By Helm", "helm install");
/// Closes the namespace that Helm has made.
pub const CLOSE_NAMESPACE: Passage = Passage::of(INSTALL, "By Helm", "kubectl label");
/// Has one operator in place of two.
pub const ONE_OPERATOR: Passage = Passage::of(INSTALL, NODES, "kubectl -n");
/// The upgrades.
pub const UPGRADE_MANIFEST: Passage = Passage::of(UPGRADE, BOTH, "kubectl apply -f");
pub const UPGRADE_KUSTOMIZE: Passage = Passage::of(UPGRADE, BOTH, "kubectl apply -k");
pub const UPGRADE_HELM: Passage = Passage::of(UPGRADE, "By Helm", "helm upgrade");
/// The way back to the revision before.
pub const ROLL_BACK: Passage = Passage::of(UPGRADE, "By Helm", "helm rollback");
/// The way back of the reports, and the question for what is left of the server.
pub const GIVE_BACK: Passage = Passage::of(UNINSTALL, GIVING_BACK, "kubectl delete reportsserver");
pub const IS_ANYTHING_LEFT: Passage = Passage::of(UNINSTALL, GIVING_BACK, "kubectl get");
/// The uninstallations.
pub const REMOVE_MANIFEST: Passage = Passage::of(UNINSTALL, REMOVING, "kubectl delete -f");
pub const REMOVE_KUSTOMIZE: Passage = Passage::of(UNINSTALL, REMOVING, "kubectl delete -k");
pub const REMOVE_HELM: Passage = Passage::of(UNINSTALL, REMOVING, "helm uninstall");
pub const REMOVE_OLM: Passage =
    Passage::of(UNINSTALL, REMOVING, "kubectl -n reports-server-system");
pub const REMOVE_ARGOCD: Passage = Passage::of(UNINSTALL, REMOVING, "kubectl -n argocd");
pub const REMOVE_FLUX: Passage = Passage::of(UNINSTALL, REMOVING, "kubectl -n flux-system");
/// The CRD, and the operator's namespace.
pub const REMOVE_REST: Passage = Passage::of(UNINSTALL, REMOVING, "kubectl delete crd");
/// The refusal of Helm, and the way to stay all the same.
pub const REFUSAL: Passage = Passage::of(UNINSTALL, "Helm refuses", "kubectl");
pub const STAY: Passage = Passage::of(UNINSTALL, "Helm refuses", "helm history");
/// The way from the manifest to Helm.
pub const ALL_BUT_SERVERS: Passage = Passage::of(UNINSTALL, CHANGING, "kubectl delete");
pub const TAKE_OVER: Passage = Passage::of(UNINSTALL, CHANGING, "helm install");

const NODES: &str = "When nodes come and go";
const BOTH: &str = "By manifest and by kustomize";
const GIVING_BACK: &str = "1. Give the APIs back";
const REMOVING: &str = "2. Remove the operator";
const CHANGING: &str = "Change the way of installing";

/// The file of a release that holds what stands beside a bundle of OLM, and the same among the
/// manifests.
const BESIDE: [&str; 2] = ["olm-beside.yaml", "olm/beside.yaml"];

/// The reader of the pages, with a shell in a folder that has the manifests and the files of a
/// release.
pub struct Reader<'a> {
    pub cluster: &'a Cluster,
    pub manifests: &'a Path,
    /// The program Helm, if it is needed.
    pub helm: Option<&'a Path>,
}

impl Reader<'_> {
    /// Runs the commands of a passage; returns what they printed.
    ///
    /// # Errors
    /// If one of them fails, or they are not over in ten minutes.
    pub async fn follows(&self, passage: &Passage) -> Result<String, MatrixError> {
        self.runs(&passage.commands()?).await
    }

    /// Runs commands; returns what they printed.
    ///
    /// # Errors
    /// If one of them fails, or they are not over in ten minutes.
    pub async fn runs(&self, commands: &[String]) -> Result<String, MatrixError> {
        self.types("set -euo pipefail", commands).await
    }

    /// Runs commands, of which any but the last may fail; returns what they printed.
    ///
    /// # Errors
    /// If the last one fails, or they are not over in ten minutes.
    pub async fn asks(&self, passage: &Passage) -> Result<String, MatrixError> {
        self.types("set -u", &passage.commands()?).await
    }

    async fn types(&self, first: &str, commands: &[String]) -> Result<String, MatrixError> {
        let folder = self.folder().map_err(|source| MatrixError::File {
            path: self.cluster.directory().to_owned(),
            source,
        })?;
        let commands = commands.join("\n");
        let script = format!("{first}\nPATH=\"$PWD/bin:$PATH\"\n{commands}");
        let mut bash = self.cluster.command("timeout");
        bash.args(["10m", "bash", "-c", &script])
            .current_dir(folder.path());
        tool::run(&commands, bash).await
    }

    fn folder(&self) -> std::io::Result<TempDir> {
        let folder = tempdir_in(self.cluster.directory())?;
        let at = |name: &str| folder.path().join(name);
        let [release, generated] = BESIDE;
        symlink(self.manifests, at("manifests"))?;
        symlink(self.manifests.join(generated), at(release))?;
        create_dir(at("bin"))?;
        if let Some(helm) = self.helm {
            symlink(helm, at("bin/helm"))?;
        }
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The passages that the ways run.
    const RUN: [Passage; 22] = [
        BY_MANIFEST,
        BY_KUSTOMIZE,
        BY_HELM,
        CLOSE_NAMESPACE,
        ONE_OPERATOR,
        UPGRADE_MANIFEST,
        UPGRADE_KUSTOMIZE,
        UPGRADE_HELM,
        ROLL_BACK,
        GIVE_BACK,
        IS_ANYTHING_LEFT,
        REMOVE_MANIFEST,
        REMOVE_KUSTOMIZE,
        REMOVE_HELM,
        REMOVE_OLM,
        REMOVE_ARGOCD,
        REMOVE_FLUX,
        REMOVE_REST,
        REFUSAL,
        STAY,
        ALL_BUT_SERVERS,
        TAKE_OVER,
    ];

    /// The beginnings of commands that the ways do not run as they stand, by page and heading, each
    /// with what shows that they work.
    const NOT_RUN: &[(Page, &str, &[&str], &str)] = &[
        (
            INSTALL,
            "By OLM",
            &[
                "kubectl apply -f olm-beside.yaml",
                "kubectl apply -f olm-subscription.yaml",
                "kubectl -n reports-server-system get clusterserviceversions",
                "kubectl apply -f olm/beside.yaml",
                "kubectl apply -f olm/subscription.yaml",
            ],
            "olm.rs applies the same files, with an address in place of the catalog's image",
        ),
        (
            INSTALL,
            "By OLM",
            &["manifestgen ", "podman "],
            "hack/release and the tests of operator/src/manifests/olm write files and images; \
             there is no registry to push to",
        ),
        (
            INSTALL,
            "2. A ReportsServer",
            &[
                "kubectl apply -f manifests/examples/minimal.yaml",
                "kubectl get reportsserver policy-reports --watch",
                "kubectl wait --for=condition=Ready",
            ],
            "quickstart.rs waits in the same way; examples.rs applies the examples",
        ),
        (
            INSTALL,
            "2. A ReportsServer",
            &["kubectl create namespace ", "kubectl label namespace "],
            "each test of the whole line applies such a namespace with its ReportsServer",
        ),
        (
            INSTALL,
            "2. A ReportsServer",
            &["kubectl describe "],
            "it only shows something",
        ),
        (
            INSTALL,
            "2. A ReportsServer",
            &["kubectl -n policy-reports annotate serviceaccount "],
            "unit tests of the operator have accounts with the annotation",
        ),
        (
            INSTALL,
            "3. Back, and away",
            &["kubectl patch ", "kubectl delete reportsserver "],
            "round_trip.rs of the library sets the owner, quickstart.rs deletes the ReportsServer",
        ),
        (
            INSTALL,
            "3. Back, and away",
            &["kubectl delete namespace "],
            "namespace.rs is refused",
        ),
        (
            INSTALL,
            "When the namespace went first",
            &["kubectl delete reportsserver "],
            "namespace.rs deletes it then",
        ),
        (
            INSTALL,
            "Rights",
            &["kubectl -n policy-reports create rolebinding "],
            "the operator binds the role itself; its unit tests hold the binding",
        ),
        (
            UPGRADE,
            "A CRD that is older than the operator",
            &["kubectl apply "],
            "older_crd.rs installs the newer CRD",
        ),
        (
            UPGRADE,
            "By OLM",
            &["kubectl "],
            "olm.rs applies the same files, with an address in place of the catalog's image",
        ),
        (
            UPGRADE,
            "Before and after",
            &["kubectl get "],
            "it only shows something",
        ),
        (
            UNINSTALL,
            "1. Give the APIs back",
            &[
                "kubectl -n argocd delete application policy-reports",
                "kubectl -n flux-system delete kustomization policy-reports",
            ],
            "gitops.rs deletes the same objects, where a tool has the ReportsServer",
        ),
    ];

    /// Returns whether a command is left out; such commands stand under `heading` of `page`.
    fn is_left_out(page: Page, heading: &str, command: &str) -> bool {
        let mut entries = NOT_RUN.iter();
        entries.any(|(of, under, beginnings, _)| {
            let mut beginnings = beginnings.iter();
            *of == page
                && *under == heading
                && beginnings.any(|beginning| command.starts_with(beginning))
        })
    }

    #[test]
    fn each_command_of_the_pages_is_run_or_left_out_for_a_reason() {
        for page in [INSTALL, UPGRADE, UNINSTALL] {
            let blocks = page.blocks().into_iter();
            for block in blocks.filter(|block| block.language == "console") {
                let commands = block.commands();
                let mut passages = RUN.iter().filter(|passage| passage.page == page);
                let is_run = passages.any(|passage| {
                    passage.heading == block.heading && commands[0].starts_with(passage.begins)
                });
                for command in commands {
                    let left_out = is_left_out(page, block.heading, &command);
                    let (name, heading) = (page.name, block.heading);
                    assert_ne!(is_run, left_out, "{name}, {heading}: {command}");
                }
            }
        }
    }

    #[test]
    fn what_is_run_and_what_is_left_out_is_on_the_pages() {
        for passage in RUN {
            assert!(!passage.commands().unwrap().is_empty());
        }
        for (page, heading, beginnings, _) in NOT_RUN {
            let blocks = page.under(heading, "console");
            let commands: Vec<_> = blocks.iter().flat_map(Block::commands).collect();
            for beginning in *beginnings {
                let mut found = commands.iter();
                assert!(
                    found.any(|command| command.starts_with(beginning)),
                    "{} has no command '{beginning}' under '{heading}'",
                    page.name
                );
            }
        }
    }

    #[test]
    fn a_passage_is_one_block() {
        let none = Passage::of(UNINSTALL, REMOVING, "by nothing");
        let several = Passage::of(UNINSTALL, REMOVING, "kubectl");
        for passage in [none, several] {
            assert!(passage.commands().is_err(), "{passage:?}");
        }
    }
}
