//! One server with very many reports: its cost with a tenth of them, then with all, so that the
//! growth shows. `hack/scale`; `docs/performance.md` says how it is measured.

mod fill;
mod record;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use crds::control::{self, StoredResource};
use serde::{Deserialize, Serialize};
use testreports::Input;

use super::bodies::{Bodies, UNIQUE_LABEL, base_name};
use super::book::Book;
use super::client::Request;
use super::clients::{self, PAGE};
use super::ground::{Ground, GroundOptions};
use super::names::namespace;
use super::sizes::{self, MIB};
use super::target::{Kind, Target, Way};
use super::{inside, measure, usage, watches, writes};

pub use record::{Books, Facts, Record};

/// Longest wait for a server that reads all reports.
const PATIENCE: Duration = Duration::from_mins(30);
/// Connections that update.
const UPDATERS: usize = 16;
/// Updates a second while events are timed, and the seconds of that.
const STEADY: (u32, u32) = (100, 5);
const MEGABYTE: f64 = 1e6;

/// The database of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    /// A file beside it.
    Sqlite,
    /// A PostgreSQL of its own.
    Postgres,
}

impl Database {
    fn kind(self) -> Kind {
        match self {
            Self::Sqlite => Kind::Sqlite,
            Self::Postgres => Kind::Postgres,
        }
    }

    /// Returns the name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Returns the number of reports of a whole run.
    #[must_use]
    pub fn whole(self) -> usize {
        match self {
            Self::Sqlite => 200_000,
            Self::Postgres => 1_000_000,
        }
    }

    /// Returns the name of what is measured in [`Books`].
    #[must_use]
    pub fn system(self) -> String {
        self.kind().system(Way::Direct)
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct ScaleOptions {
    /// The `reports-server` to measure: a release build.
    pub server: PathBuf,
    /// This program.
    pub own: PathBuf,
    /// The source of the reports.
    pub input: Input,
    /// The database.
    pub database: Database,
    /// Number of reports in the end, ten pages at least.
    pub reports: usize,
}

impl ScaleOptions {
    /// Returns the number of reports at the first of both sizes.
    #[must_use]
    pub fn tenth(&self) -> usize {
        self.reports / 10
    }

    /// Returns the number of updates in a run of them, the same at both sizes.
    fn updates(&self) -> usize {
        self.tenth().clamp(1_000, 10_000)
    }
}

/// Starts a server and measures it at both sizes. The samples are returned even when that failed on
/// the way.
///
/// # Errors
/// If a part does not start, a request fails or a report is missing.
pub async fn run(options: ScaleOptions) -> (Books, anyhow::Result<()>) {
    let mut books = Books::default();
    let outcome = both(&mut books, options).await;
    (books, outcome)
}

async fn both(books: &mut Books, options: ScaleOptions) -> anyhow::Result<()> {
    let bodies = Arc::new(Bodies::new(options.input.corpus()?));
    eprintln!("starting the control plane and the server");
    let ground = Ground::start(GroundOptions {
        server: options.server.clone(),
        own: options.own.clone(),
        engines: vec![options.database.kind()],
        input: options.input.clone(),
        alone: true,
        patience: PATIENCE,
    })
    .await?;
    let inside = inside::runtime(ground.founder())?;
    let mut scale = Scale {
        options,
        ground,
        bodies,
        books: std::mem::take(books),
    };
    let measured = inside.spawn(async move {
        let outcome = scale.run().await;
        (scale.books, outcome)
    });
    let outcome;
    (*books, outcome) = measured.await?;
    inside.shutdown_background();
    outcome
}

struct Scale {
    options: ScaleOptions,
    ground: Ground,
    bodies: Arc<Bodies>,
    books: Books,
}

impl Scale {
    async fn run(&mut self) -> anyhow::Result<()> {
        self.ground.prepare().await?;
        let Self {
            options,
            ground,
            bodies,
            books,
        } = self;
        let (tenth, all) = (options.tenth(), options.reports);
        grow(&mut books.tenth, ground, options, bodies, 0..tenth).await?;
        grow(&mut books.all, ground, options, bodies, tenth..all).await
    }
}

/// Creates these reports and measures the server with all that there are then.
async fn grow(
    book: &mut Book,
    ground: &mut Ground,
    options: &ScaleOptions,
    bodies: &Arc<Bodies>,
    numbers: Range<usize>,
) -> anyhow::Result<()> {
    let (kind, reports) = (options.database.kind(), numbers.end);
    eprintln!("{reports} reports");
    let target = ground.target(kind, Way::Direct)?;
    fill::run(book, &target, bodies, numbers).await?;
    memory(book, ground, &target, "memory after loading")?;
    start(book, ground, kind).await?;
    let target = ground.target(kind, Way::Direct)?;
    memory(book, ground, &target, "memory after the start")?;
    stored(book, &target, reports).await?;
    reads(book, &target, reports).await?;
    let updates = options.updates();
    let work = writes::scattered(&target, bodies, reports, UPDATERS, updates).await?;
    let metric = format!("update@{UPDATERS}");
    measure::load(book, &metric, &target, work).await?;
    let (rate, seconds) = STEADY;
    watches::latency(book, &target, &target, bodies, reports, rate, seconds).await?;
    sizes_of(book, ground, &target, reports).await
}

/// Kills the server and notes the time from its next start until it is ready, and what that takes.
async fn start(book: &mut Book, ground: &mut Ground, kind: Kind) -> anyhow::Result<()> {
    ground.kill_server(kind).await?;
    let ready = ground.start_server(kind).await?.as_secs_f64();
    let target = ground.target(kind, Way::Direct)?;
    let server = ground.server(kind)?;
    let busy = Duration::from_millis(server.cpu_ms()?).as_secs_f64();
    let peak = mib(usage::peak(server.pid)?);
    let system = target.system();
    book.add("start", &system, ready);
    let metric = format!("start CPU of {}", server.name);
    book.add(&metric, &system, busy);
    book.add("memory at the start's peak", &system, peak);
    eprintln!(
        "  start        {system:<20} ready after {ready:.2} s, CPU {busy:.2} s, up to {peak:.0} MiB"
    );
    Ok(())
}

/// Notes the mean size of a report's JSON.
///
/// # Errors
/// If the server has not as many reports as were created.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
async fn stored(book: &mut Book, target: &Target, reports: usize) -> anyhow::Result<()> {
    let served = target.kind.reports();
    let name = control::stored_resource_name(&served.plural, &served.group);
    let (group, version, resources) = (control::GROUP, control::VERSION, control::PLURAL);
    let request = Request::get(format!("/apis/{group}/{version}/{resources}/{name}"));
    let reply = target.endpoint.once(&request).await?.success()?;
    let stored: StoredResource = serde_json::from_slice(&reply.body)?;
    let objects = usize::try_from(stored.status.objects)?;
    ensure!(
        objects == reports,
        "the server has {objects} of {reports} reports after a start"
    );
    let json = stored.status.bytes as f64 / reports as f64;
    book.add("JSON a report", &target.system(), json);
    Ok(())
}

/// Measures pages at the beginning, in the middle and at the end, and lists by label.
async fn reads(book: &mut Book, target: &Target, reports: usize) -> anyhow::Result<()> {
    let all = target.all();
    let one = Request::get(format!("{all}?limit=1"));
    measure::repeat(book, "limit=1", target, &one, 50).await?;
    let paths = clients::pages(book, target, reports).await?;
    ends(target, &paths).await?;
    let page = |index: usize| {
        let path = paths.get(index).context("there is no such page")?;
        anyhow::Ok(Request::get(path))
    };
    // The last page that is full.
    let last = (reports / PAGE).saturating_sub(1);
    let middle = paths.len() / 2;
    for (metric, request) in [
        ("page first", page(0)?),
        ("page middle", page(middle)?),
        ("page last", page(last)?),
        ("page middle gzip", page(middle)?.compressed()),
    ] {
        measure::repeat(book, metric, target, &request, 20).await?;
    }
    let number = reports / 2;
    let query = format!("labelSelector={UNIQUE_LABEL}%3D{}", base_name(number));
    let collection = target.collection(&namespace(number));
    for (metric, path) in [("label", all), ("label in a namespace", collection)] {
        let request = Request::get(format!("{path}?{query}"));
        measure::repeat(book, metric, target, &request, 20).await?;
    }
    Ok(())
}

/// Checks that nothing follows the last page.
async fn ends(target: &Target, paths: &[String]) -> anyhow::Result<()> {
    let last = paths.last().context("there are no pages")?;
    let reply = target.endpoint.once(&Request::get(last)).await?.success()?;
    ensure!(
        clients::continuation(&reply.body).is_none(),
        "more reports are listed than were created"
    );
    Ok(())
}

/// Notes the memory and the disk that all of it took.
#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
async fn sizes_of(
    book: &mut Book,
    ground: &Ground,
    target: &Target,
    reports: usize,
) -> anyhow::Result<()> {
    let resident = memory(book, ground, target, "memory at the end")?;
    let system = target.system();
    let each = |bytes: u64| bytes as f64 / reports as f64;
    book.add("memory a report", &system, each(resident));
    let disk = sizes::stored(ground, target.kind).await?;
    book.add("disk", &system, disk.kept as f64 / MEGABYTE);
    book.add("disk a report", &system, each(disk.kept));
    book.add("log", &system, disk.log as f64 / MEGABYTE);
    Ok(())
}

/// Notes the resident memory of the server, and returns its bytes.
fn memory(book: &mut Book, ground: &Ground, target: &Target, metric: &str) -> anyhow::Result<u64> {
    let resident = usage::resident(ground.server(target.kind)?.pid)?;
    let system = target.system();
    book.add(metric, &system, mib(resident));
    eprintln!("  {metric:<24} {system:<20} {:.0} MiB", mib(resident));
    Ok(resident)
}

#[allow(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_has_two_sizes_and_enough_updates() {
        let options = |reports| ScaleOptions {
            server: PathBuf::new(),
            own: PathBuf::new(),
            input: Input::Generated { seed: 1 },
            database: Database::Sqlite,
            reports,
        };
        let sizes = |reports| (options(reports).tenth(), options(reports).updates());
        assert_eq!(sizes(20_000), (2_000, 2_000));
        assert_eq!(sizes(10_000), (1_000, 1_000));
        assert_eq!(sizes(1_000_000), (100_000, 10_000));
    }
}
