//! Tries ways of installing, each on a cluster of its own. See `hack/install-matrix`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use e2e::command;
use e2e::matrix::{self, Outcome, Previous, Way};
use e2e::takeover::{COUNT_PERIOD, Database, TakeoverOptions};
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
    /// Returns the ways to try.
    fn ways(&self) -> anyhow::Result<Vec<Way>> {
        let mut chosen = self.way.clone();
        if chosen.is_empty() {
            chosen.extend(WayChoice::value_variants());
        }
        let mut ways = Vec::new();
        for choice in chosen {
            ways.push(match choice {
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
            });
        }
        Ok(ways)
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

/// Tries the ways one after the other; returns whether all are clean.
async fn all(args: &Args) -> anyhow::Result<bool> {
    let previous = args.previous.as_deref().map(Previous::read).transpose()?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for way in args.ways()? {
        let outcome = matrix::run(&way, args.options(), previous.clone(), command::clock()).await?;
        println!("{}", outcome.to_json());
        outcomes.push(outcome);
    }
    let results = outcomes.iter().map(Outcome::to_json).collect();
    command::write(args.json.as_deref(), &results)?;
    Ok(outcomes.iter().all(Outcome::is_clean))
}
