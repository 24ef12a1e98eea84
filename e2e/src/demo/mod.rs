//! The demo on a cluster that somebody has: reports of its own are taken out of etcd there, and
//! everything that it made is removed at the end. Nothing that was there is touched, but for report
//! CRDs without reports, which get their versions back.

mod checks;
mod error;
mod loader;
mod outcome;
mod remove;
mod site;

use std::path::{Path, PathBuf};

use kube::Client;
use tempfile::TempDir;

pub use error::DemoError;
pub use loader::Loader;
pub use outcome::Outcome;

use self::checks::name_of;
use self::remove::Definitions;
use self::site::Site;
use crate::round_trip;
use crate::takeover::{GROUPS, PRUNE_LIMIT, Takeover, TakeoverError, TakeoverOptions, load};

/// The beginning of the names of the namespaces with reports.
pub const PREFIX: &str = "reports-demo-";

/// Options of the demo on a cluster that somebody has.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The kubeconfig, whose current context is used.
    pub kubeconfig: PathBuf,
    /// The program kubectl.
    pub kubectl: PathBuf,
    /// The tool that puts images into the nodes.
    pub loader: Loader,
    /// Seed of the clients' choices on the way back; none where the reports do not go back under
    /// load.
    pub round_trip: Option<u64>,
    /// The options of the line. Its cluster is not started.
    pub line: TakeoverOptions,
}

/// Checks that the demo can be run in the cluster, and changes nothing.
///
/// # Errors
/// If it cannot, with a sentence that says why.
pub async fn check(options: &DemoOptions) -> Result<(), DemoError> {
    let folder = folder()?;
    let prepared = Box::pin(prepare(options, folder.path()));
    prepared.await.map(drop)
}

/// Returns a folder that nobody else can read.
fn folder() -> Result<TempDir, DemoError> {
    let made = tempfile::tempdir().map_err(|source| testcluster::Error::Io {
        what: "make a folder for the demo".to_owned(),
        source,
    })?;
    Ok(made)
}

/// Runs the demo, and removes what it made, also after an error and when `ended` comes before.
///
/// # Errors
/// If the cluster does not allow it, or a step fails. What cannot be removed is said then, and is
/// part of the outcome otherwise.
pub async fn run(
    options: &DemoOptions,
    say: impl Fn(&str) + Copy + Send + Sync + 'static,
    ended: impl Future<Output = ()>,
) -> Result<Outcome, DemoError> {
    let folder = folder()?;
    let mut prepared = Box::pin(prepare(options, folder.path())).await?;
    let (context, address) = (prepared.site.context.clone(), prepared.site.address());
    say(&format!(
        "on the cluster of context {context:?}, at {address}"
    ));
    if options.loader != Loader::Nothing {
        load_images(options, &context, say).await?;
        // Minutes have passed, and what is there by now must not be removed at the end.
        prepared = Box::pin(prepare(options, folder.path())).await?;
    }
    let (site, client, definitions) = (prepared.site, prepared.client, prepared.definitions);
    let shown = tokio::select! {
        shown = Box::pin(show(site.clone(), client.clone(), options, &definitions, say)) => shown,
        () = ended => Err(DemoError::Interrupted),
    };
    say("removing everything that the demo made; let it end");
    let removed = remove::everything(&site, &client, &definitions, &options.line);
    let removed = Box::pin(removed).await;
    match (shown, removed) {
        (Ok(outcome), removed) => Ok(Outcome {
            left: removed.err(),
            ..outcome
        }),
        (Err(error), removed) => {
            if let Err(left) = removed {
                say(&left);
            }
            Err(error)
        }
    }
}

/// A cluster of which everything speaks for the demo.
struct Prepared {
    site: Site,
    client: Client,
    definitions: Definitions,
}

/// Returns the cluster once everything speaks for the demo.
async fn prepare(options: &DemoOptions, folder: &Path) -> Result<Prepared, DemoError> {
    if !loader::is_in_path(&options.kubectl) {
        let missing = format!("the program {} is not in PATH", options.kubectl.display());
        return Err(DemoError::Refused(missing));
    }
    let path = options.line.manifests.join("install.yaml");
    if !path.exists() {
        let hint = "hack/gen makes it";
        return Err(TakeoverError::Missing { path, hint }.into());
    }
    options.line.database.spec(&options.line.images)?;
    let site = Site::read(&options.kubeconfig, &options.kubectl, folder).await?;
    options.loader.check(&site.context)?;
    let (client, release) = site.client().await?;
    let kept = checks::fits(&client, release).await?;
    let mut missing = options.line.input.crds(&GROUPS)?;
    missing.retain(|crd| kept.iter().all(|was| name_of(was) != name_of(crd)));
    Ok(Prepared {
        site,
        client,
        definitions: Definitions { kept, missing },
    })
}

/// Loads the images by the tool of the cluster.
async fn load_images(
    options: &DemoOptions,
    context: &str,
    say: impl Fn(&str),
) -> Result<(), DemoError> {
    let archives = options.line.archives();
    if let Some(path) = archives.iter().find(|path| !path.exists()) {
        let (path, hint) = (path.clone(), "hack/image makes it");
        return Err(TakeoverError::Missing { path, hint }.into());
    }
    say("loading the images into the nodes");
    options.loader.load(context, &archives).await
}

/// Goes the line.
async fn show(
    site: Site,
    client: Client,
    options: &DemoOptions,
    definitions: &Definitions,
    say: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Outcome, DemoError> {
    say("installing the report CRDs that are missing");
    load::install_crds(&client, definitions.missing.clone()).await?;
    let of = options.line.clone();
    let (loaded, input, database) = (of.reports, of.input.name(), of.database.name());
    let line = Takeover::fill(site, client, of, PREFIX, say).await?;
    let before = line.figures().await?;
    let witness = line.witness().await?;
    let seconds = line.switch().await?;
    line.prune(PRUNE_LIMIT).await?;
    line.say("settling the witness's account");
    let account = witness.finish().await?;
    let after = line.figures().await?;
    let back = match options.round_trip {
        Some(seed) => {
            line.say("giving the groups back to their CRDs");
            Some(Box::pin(round_trip::way_back_at(&line, seed)).await?)
        }
        None => None,
    };
    Ok(Outcome {
        reports: loaded,
        input,
        database,
        before,
        after,
        seconds,
        account,
        back,
        left: None,
    })
}
