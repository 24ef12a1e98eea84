//! Speed and size of our server beside the CRD, plain SQL and a server that costs nothing, in one
//! run on one machine, in interleaved rounds. `hack/bench`; `docs/performance.md` has results.

mod bodies;
pub mod book;
mod client;
mod clients;
mod compaction;
pub mod docs;
pub mod figures;
pub mod goals;
mod ground;
mod inside;
mod life;
mod lists;
mod load;
mod measure;
mod names;
pub mod null;
mod options;
pub mod rows;
pub mod scale;
mod sizes;
mod slow;
mod sql;
mod start;
mod storage;
mod target;
pub mod usage;
mod watches;
mod writes;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use pgtest::{Postgres, PostgresOptions};

use bodies::{Bodies, Change};
use book::Book;
use ground::{Ground, GroundOptions};
use target::{Kind, Target, Way};
use testreports::Input;

pub use options::{BenchOptions, Job, System};

/// Starts the needed parts and measures. The samples are returned even when that failed on the way.
///
/// # Errors
/// If a part does not start or a request fails.
pub async fn run(options: BenchOptions) -> (Book, anyhow::Result<()>) {
    let mut book = Book::default();
    let outcome = all(&mut book, options).await;
    (book, outcome)
}

async fn all(book: &mut Book, options: BenchOptions) -> anyhow::Result<()> {
    let bodies = Bodies::new(options.input.corpus()?);
    database_alone(book, &options, &bodies).await?;
    let only = &options.only;
    if !only.is_empty() && only.iter().all(|job| job.is_database_only()) {
        return Ok(());
    }
    say("starting the control plane and the servers");
    let ground = Ground::start(GroundOptions {
        server: options.server.clone(),
        own: options.own.clone(),
        engines: options.engines(),
        input: options.input.clone(),
        alone: false,
        patience: ground::PATIENCE,
    })
    .await?;
    let inside = inside::runtime(ground.founder())?;
    let mut bench = Bench {
        options,
        ground,
        bodies,
        book: std::mem::take(book),
    };
    let measured = inside.spawn(async move {
        let outcome = bench.run().await;
        (bench.book, outcome)
    });
    let outcome;
    (*book, outcome) = measured.await?;
    inside.shutdown_background();
    outcome
}

/// Measures the store and plain SQL, side by side on a PostgreSQL of their own.
async fn database_alone(
    book: &mut Book,
    options: &BenchOptions,
    bodies: &Bodies,
) -> anyhow::Result<()> {
    let (requests, rounds) = (options.requests, options.rounds);
    if options.wants(Job::Sql) || options.wants(Job::Compaction) {
        let postgres = Postgres::start(PostgresOptions::default()).await?;
        let database = ground::postmaster(&postgres)?;
        for round in 0..rounds {
            say(&format!("SQL, round {} of {rounds}", round + 1));
            if options.wants(Job::Sql) {
                for writers in [16, 64, 256] {
                    let (database, count) = (&database, requests / 2);
                    storage::run(book, &postgres, database, bodies, writers, count).await?;
                }
                let ways = sql::ways(requests / 2);
                let database = Some(&database);
                sql::run(book, &postgres, database, bodies, "", &[16, 32, 64], &ways).await?;
            }
            if options.wants(Job::Compaction) {
                compaction::run(book, &postgres, bodies, requests / 2).await?;
            }
        }
    }
    if options.wants(Job::SlowDisk) {
        for round in 0..rounds {
            say(&format!("slow disks, round {} of {rounds}", round + 1));
            slow::run(book, bodies, requests / 5).await?;
        }
    }
    Ok(())
}

struct Bench {
    options: BenchOptions,
    ground: Ground,
    bodies: Bodies,
    book: Book,
}

impl Bench {
    async fn run(&mut self) -> anyhow::Result<()> {
        say("preparing");
        self.ground.prepare().await?;
        say("the base set: created through the kube-apiserver, then each report updated once");
        for kind in self.kinds() {
            let reports = self.options.reports;
            sizes::grow(&mut self.book, &self.ground, kind, &self.bodies, reports).await?;
        }
        let ours = self.ground.engines();
        let ours = ours.first().context("no server of ours takes part")?;
        let ours = self.ground.target(*ours, Way::Direct)?;
        let reports = self.options.reports;
        let [object, list, page, label, json, protobuf] = lists::record(&ours, reports).await?;
        let (watch_list, ..) = clients::initial(&ours, reports).await?;
        let canned = [object, list, page, label, json, protobuf, watch_list];
        let canned = canned.each_ref().map(Vec::as_slice);
        self.ground.start_null(canned).await?;
        for round in 0..self.options.rounds {
            say(&format!("round {} of {}", round + 1, self.options.rounds));
            self.round(round).await?;
        }
        self.after().await
    }

    /// Returns the kinds, ours first: the kube-apiserver's memory never shrinks after the CRD's
    /// turn.
    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = self.ground.engines();
        kinds.extend(self.options.has(System::Crd).then_some(Kind::Crd));
        kinds
    }

    /// Returns all systems in all ways, in an order that changes from round to round.
    fn targets(&self, round: usize) -> anyhow::Result<Vec<Target>> {
        let mut targets = vec![self.ground.target(Kind::Null, Way::Aggregated)?];
        if self.options.has(System::Crd) {
            targets.push(self.ground.target(Kind::Crd, Way::Aggregated)?);
        }
        for kind in self.ground.engines() {
            targets.push(self.ground.target(kind, Way::Aggregated)?);
            targets.push(self.ground.target(kind, Way::Direct)?);
        }
        let first = round % targets.len();
        targets.rotate_left(first);
        Ok(targets)
    }

    async fn round(&mut self, round: usize) -> anyhow::Result<()> {
        let targets = self.targets(round)?;
        let (reports, requests) = (self.options.reports, self.options.requests);
        let Self {
            book,
            bodies,
            options,
            ..
        } = self;
        if options.wants(Job::Create) {
            for target in &targets {
                let count = target.count(requests);
                writes::create(book, target, bodies, 64, count).await?;
            }
        }
        if options.wants(Job::Update) {
            for connections in [16, 64, 256] {
                for target in &targets {
                    let count = target.count(requests).max(connections);
                    let bodies = (&*bodies, Change::Finding);
                    writes::update(book, target, bodies, reports, connections, count).await?;
                }
            }
            for target in targets.iter().filter(|target| target.is_straight()) {
                let (bodies, count) = ((&*bodies, Change::Verdict), target.count(requests));
                writes::update(book, target, bodies, reports, 64, count.max(64)).await?;
            }
        }
        if options.wants(Job::NoOp) {
            for target in &targets {
                let count = target.count(requests);
                writes::no_op(book, target, reports, 16, count).await?;
            }
        }
        if options.wants(Job::Life) {
            for target in targets.iter().filter(|target| target.is_straight()) {
                life::run(book, target, bodies, target.count(requests / 10)).await?;
            }
        }
        if options.wants(Job::Get) {
            for target in &targets {
                let count = target.count(requests * 2);
                writes::get(book, target, reports, 16, count).await?;
            }
        }
        if options.wants(Job::List) {
            for target in &targets {
                lists::run(book, target, reports).await?;
                clients::run(book, target, reports).await?;
            }
            let wire = self.ground.target(Kind::Null, Way::Direct)?;
            lists::run(book, &wire, reports).await?;
            clients::run(book, &wire, reports).await?;
        }
        if self.options.wants(Job::Watch) {
            self.watch().await?;
        }
        if self.options.wants(Job::FanOut) {
            self.fan_out().await?;
        }
        Ok(())
    }

    async fn watch(&mut self) -> anyhow::Result<()> {
        let reports = self.options.reports;
        let mut pairs = Vec::new();
        if self.options.has(System::Crd) {
            pairs.push((Kind::Crd, Kind::Crd, Way::Aggregated, 50));
        }
        for kind in self.ground.engines() {
            pairs.push((kind, kind, Way::Aggregated, 50));
            pairs.push((kind, kind, Way::Direct, 1000));
        }
        if self.options.has(System::Postgres) {
            pairs.push((Kind::Postgres, Kind::Second, Way::Direct, 50));
            pairs.push((Kind::Postgres, Kind::Second, Way::Direct, 1000));
        }
        for (writer, watcher, way, rate) in pairs {
            let writer = self.ground.target(writer, way)?;
            let watcher = self.ground.target(watcher, way)?;
            let (book, bodies) = (&mut self.book, &self.bodies);
            watches::latency(book, &writer, &watcher, bodies, reports, rate, 5).await?;
        }
        Ok(())
    }

    async fn fan_out(&mut self) -> anyhow::Result<()> {
        let (reports, watchers) = (self.options.reports, self.options.watchers);
        let events = (self.options.requests / 50).max(20);
        let mut size = 0;
        for kind in self.ground.engines() {
            let target = self.ground.target(kind, Way::Direct)?;
            let (book, bodies) = (&mut self.book, &self.bodies);
            size = watches::fan_out(book, &target, bodies, reports, watchers, events).await?;
        }
        let wire = self.ground.target(Kind::Null, Way::Direct)?;
        watches::fan_out_of_wire(&mut self.book, &wire, watchers, events, size).await
    }

    /// Runs the jobs that are done once, and change the measured systems.
    async fn after(&mut self) -> anyhow::Result<()> {
        for kind in self.ground.engines() {
            let (book, ground) = (&mut self.book, &mut self.ground);
            sizes::after_lists(book, ground, kind)?;
            if self.options.wants(Job::NoOp) {
                sizes::no_op(book, ground, kind).await?;
            }
            if self.options.wants(Job::Start) {
                for _ in 0..self.options.rounds {
                    start::run(book, ground, kind).await?;
                }
            }
            if self.options.wants(Job::Memory) {
                let more = self.options.reports * 10;
                sizes::hundred_thousand(book, ground, kind, &self.bodies, more).await?;
            }
        }
        Ok(())
    }
}

fn say(text: &str) {
    eprintln!("{text}");
}

/// Returns the server to measure: the given one, or the one that a release build leaves beside this
/// program.
///
/// # Errors
/// If it is not there; `script` is named as what builds it.
pub fn server(given: Option<PathBuf>, script: &str) -> anyhow::Result<PathBuf> {
    let server = match given {
        Some(server) => server,
        None => beside("reports-server")?,
    };
    ensure!(
        server.exists(),
        "{} is missing; {script} builds it",
        server.display()
    );
    Ok(server)
}

fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program is in no folder")?;
    Ok(folder.join(name))
}

/// Returns the reports to measure with: our own with a fixed seed where they are asked for, else
/// recorded ones where they are present.
#[must_use]
pub fn input(generated: bool) -> Input {
    if generated {
        Input::Generated { seed: 1 }
    } else {
        Input::detect()
    }
}

/// Installs the provider of TLS for this process.
///
/// # Errors
/// If another one is installed.
pub fn install_tls() -> anyhow::Result<()> {
    let installed = rustls::crypto::ring::default_provider().install_default();
    ensure!(installed.is_ok(), "another TLS provider is installed");
    Ok(())
}
