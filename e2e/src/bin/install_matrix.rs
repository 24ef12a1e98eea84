//! Tries ways of installing, each on a cluster of its own. See `hack/install-matrix`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use e2e::command;
use e2e::matrix::{self, LeftOut, Outcome, Previous, Way};
use e2e::takeover::{COUNT_PERIOD, Database, TakeoverOptions};
use serde_json::json;
use testcluster::ClusterOptions;
use testreports::Input;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WayChoice {
    /// `kubectl apply -f manifests/install.yaml`.
    Manifest,
    /// `kubectl apply -k manifests/kustomize/base`.
    Kustomize,
    /// The Helm chart.
    Helm,
    /// The example for Flux.
    Flux,
    /// The example for Argo CD.
    #[value(name = "argocd")]
    ArgoCd,
    /// Bundle and catalog by OLM v0.
    #[value(name = "olm0")]
    Olm0,
    /// Bundle and catalog by OLM v1, which cannot be tried here: the answer says what is tested.
    #[value(name = "olm1")]
    Olm1,
}

/// The answer to whoever asks for OLM v1.
const OLM1: LeftOut = LeftOut {
    way: "olm1",
    why: "not tried: OLM v1 cannot be built here; the unit tests in \
          operator/src/manifests/olm/tests/bundle.rs and operator/src/manifests/olm/tests/catalog.rs \
          hold bundle and catalog against its rules",
};

/// The use of a choice.
#[derive(Debug, PartialEq, Eq)]
enum Trial {
    /// It is tried.
    Way(Way),
    /// It cannot be tried.
    LeftOut(LeftOut),
}

/// Installs, upgrades and uninstalls the operator in each way, with clients that watch closely.
#[derive(Parser, Debug)]
#[command(name = "install-matrix")]
struct Args {
    /// Ways to try; all of them when none is named.
    #[arg(long, value_enum)]
    way: Vec<WayChoice>,
    /// Reports to load.
    #[arg(long, default_value_t = 1000)]
    reports: usize,
    /// The release before, which is installed first and upgraded: the folder that `hack/previous`
    /// prints.
    #[arg(long, value_name = "FOLDER")]
    previous: Option<PathBuf>,
    /// Also write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program Helm.
    #[arg(long, env = "REPORTS_SERVER_HELM")]
    helm: Option<PathBuf>,
    /// The folder that `hack/gitops flux` prints.
    #[arg(long, env = "REPORTS_SERVER_FLUX", value_name = "FOLDER")]
    flux: Option<PathBuf>,
    /// The folder that `hack/gitops argocd` prints.
    #[arg(long, env = "REPORTS_SERVER_ARGOCD", value_name = "FOLDER")]
    argocd: Option<PathBuf>,
    /// The folder that `hack/olm olm0` prints.
    #[arg(long, env = "REPORTS_SERVER_OLM0", value_name = "FOLDER")]
    olm0: Option<PathBuf>,
    /// Folder with the OCI archives of `hack/image`.
    #[arg(long, env = "REPORTS_SERVER_IMAGES")]
    images: PathBuf,
    /// The repository's manifests.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests"))]
    manifests: PathBuf,
}

impl Args {
    /// Returns what becomes of the chosen ways, or of all.
    fn trials(&self) -> anyhow::Result<Vec<Trial>> {
        let mut chosen = self.way.clone();
        if chosen.is_empty() {
            chosen.extend(WayChoice::value_variants());
        }
        let mut trials = Vec::new();
        for choice in chosen {
            let way = match choice {
                WayChoice::Manifest => Way::Manifest,
                WayChoice::Kustomize => Way::Kustomize,
                WayChoice::Helm => {
                    Way::Helm(self.helm.clone().context("--helm names the program")?)
                }
                WayChoice::Flux => Way::Flux(
                    self.flux
                        .clone()
                        .context("--flux names the folder of its parts")?,
                ),
                WayChoice::ArgoCd => {
                    let parts = self.argocd.clone();
                    Way::ArgoCd(parts.context("--argocd names the folder of its parts")?)
                }
                WayChoice::Olm0 => {
                    let parts = self.olm0.clone();
                    Way::Olm(parts.context("--olm0 names the folder of its parts")?)
                }
                WayChoice::Olm1 => {
                    trials.push(Trial::LeftOut(OLM1));
                    continue;
                }
            };
            trials.push(Trial::Way(way));
        }
        Ok(trials)
    }

    fn options(&self) -> TakeoverOptions {
        let mut cluster = ClusterOptions::node();
        cluster.apiserver_args.push(COUNT_PERIOD.to_owned());
        TakeoverOptions {
            reports: self.reports,
            input: Input::Generated { seed: 1 },
            rate: 30.0,
            images: self.images.clone(),
            manifests: self.manifests.clone(),
            cluster,
            database: match self.previous {
                // The servers are exchanged one by one.
                Some(_) => Database::Managed,
                None => Database::Embedded,
            },
            incumbent: None,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    command::log("warn,kube_client=off");
    match all(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("install-matrix: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Tries the ways one after the other; returns whether all are clean. What cannot be tried is no fault
/// where all ways are, but whoever names it does not get what was asked for.
async fn all(args: &Args) -> anyhow::Result<bool> {
    let previous = args.previous.as_deref().map(Previous::read).transpose()?;
    let mut results = Vec::new();
    let mut clean = true;
    for trial in args.trials()? {
        let result = match trial {
            Trial::Way(way) => {
                let name = way.name();
                let tried =
                    matrix::run(&way, args.options(), previous.clone(), command::clock()).await;
                // Without a cluster; the other ways have their own.
                let outcome = tried.unwrap_or_else(|error| Outcome {
                    way: name,
                    error: Some(error.to_string()),
                    ..Outcome::default()
                });
                clean &= outcome.is_clean();
                outcome.to_json()
            }
            Trial::LeftOut(left_out) => {
                clean &= args.way.is_empty();
                left_out.to_json()
            }
        };
        println!("{result}");
        results.push(result);
        // What is known stays, whatever becomes of the next way.
        command::write(args.json.as_deref(), &json!(results))?;
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn args(ways: &[&str]) -> Args {
        let ways = ways.iter().flat_map(|way| ["--way", *way]);
        let program = ["install-matrix", "--images", "images"];
        Args::parse_from(program.into_iter().chain(ways))
    }

    #[tokio::test]
    async fn what_cannot_be_tried_is_said_and_is_not_clean_where_it_is_named() {
        let args = args(&["olm1"]);
        assert_eq!(args.trials().unwrap(), [Trial::LeftOut(OLM1)]);
        assert!(!all(&args).await.unwrap());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tests = OLM1.why.split(' ').filter(|word| word.contains('/'));
        let tests: Vec<&str> = tests.collect();
        assert_eq!(tests.len(), 2, "{tests:?}");
        for test in tests {
            assert!(root.join(test).is_file(), "{test}");
        }
    }

    #[test]
    fn each_way_is_tried_as_it_is_named() {
        let trials = args(&["kustomize", "olm1", "manifest"]).trials().unwrap();
        let expected = [
            Trial::Way(Way::Kustomize),
            Trial::LeftOut(OLM1),
            Trial::Way(Way::Manifest),
        ];
        assert_eq!(trials, expected);
    }
}
