//! The work whose costs are counted.

use std::ops::Range;
use std::time::Duration;

use allocations::Allocations;
use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::json;
use storage::store::Store;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::book::{Book, Margin, TEXT, USUAL};
use super::database::Database;
use super::ground::Ground;
use super::meter::ALLOCATOR;
use super::reports::{self, Reports};
use super::requests::{self, APPLY, JSON, MERGE_PATCH};

/// Reports that are there: fewer than a dictionary is trained for.
const REPORTS: usize = 600;
/// Rounds in which each kind of request is counted.
const ROUNDS: usize = 3;
/// Requests of a round, each for another report: so few that their writes do not fill the log of
/// SQLite.
const PART: usize = 48;
/// Lists of a round.
const LISTS: usize = 4;
/// Writers at one time.
const MANY: usize = 16;
/// The first scan after those by which the reports became what they are.
const SCANS: u64 = 10;
/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Counts on SQLite, and the memory, which is the same on every database.
pub fn on_sqlite(reports: &Reports, book: &mut Book) {
    let database = Database::sqlite();
    run(async {
        let store = Store::open(database.options()).await.unwrap();
        let ground = Ground::over(store, reports).await;
        Scene::new(&database, &ground, reports, book).fill().await;
        ground.store.close().await;
    });
    // All that was in memory went with the runtime.
    run(async {
        let before = ALLOCATOR.read().held();
        let store = Store::open(database.options()).await.unwrap();
        let held = ALLOCATOR.read().held().saturating_sub(before);
        let ground = Ground::over(store, reports).await;
        let mut scene = Scene::new(&database, &ground, reports, book);
        scene.note_each("memory after a start", held, USUAL);
        scene.memory();
        scene.requests().await;
        ground.store.close().await;
    });
}

pub fn on_postgres(reports: &Reports, book: &mut Book) {
    run(async {
        let database = Database::postgres().await;
        let store = Store::open(database.options()).await.unwrap();
        let ground = Ground::over(store, reports).await;
        database.prepare().await;
        let mut scene = Scene::new(&database, &ground, reports, book);
        scene.fill().await;
        scene.requests().await;
        ground.store.close().await;
    });
}

/// Runs work on one thread.
fn run(work: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work);
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Get,
    Page,
    ZippedPage,
    Update,
    NoOp,
    Patch,
    Apply,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Page => "page of 500",
            Self::ZippedPage => "page of 500 in gzip",
            Self::Update => "update",
            Self::NoOp => "update that changes nothing",
            Self::Patch => "patch of a label",
            Self::Apply => "apply",
        }
    }

    /// Returns the reports that the requests of a round are for; those that write have some of
    /// their own. Each list is of all.
    fn reports(self) -> Range<usize> {
        let part = |number: usize| number * PART..(number + 1) * PART;
        match self {
            Self::Page | Self::ZippedPage => 0..LISTS,
            Self::Get | Self::Update => part(0),
            Self::NoOp => part(1),
            Self::Patch => part(2),
            Self::Apply => part(3),
        }
    }

    fn is_list(self) -> bool {
        matches!(self, Self::Page | Self::ZippedPage)
    }

    fn is_read(self) -> bool {
        self.is_list() || self == Self::Get
    }
}

/// The costs of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    requests: u64,
    allocations: Allocations,
    /// Bytes of the database's log.
    log: u64,
    statements: u64,
    /// Bytes of the answers' bodies.
    wire: u64,
}

struct Scene<'a> {
    database: &'a Database,
    ground: &'a Ground,
    reports: &'a Reports,
    book: &'a mut Book,
    /// Number of the newest scan.
    scan: u64,
}

impl<'a> Scene<'a> {
    fn new(
        database: &'a Database,
        ground: &'a Ground,
        reports: &'a Reports,
        book: &'a mut Book,
    ) -> Self {
        Self {
            database,
            ground,
            reports,
            book,
            scan: 0,
        }
    }

    /// Creates all reports, then updates each once, and counts the disk that they take then.
    async fn fill(&mut self) {
        let counted = ROUNDS * PART;
        for (what, at_once, first) in [("create", 1, 0), ("create, 16 at a time", MANY, counted)] {
            let mut rounds = Vec::new();
            for round in 0..ROUNDS {
                let from = first + round * PART;
                let requests = self.creations(from..from + PART);
                rounds.push(self.round(requests, at_once).await);
            }
            self.note_work(what, &rounds);
            self.note_writes(what, &rounds);
        }
        let rest = self.creations(2 * counted..REPORTS);
        Box::pin(self.ground.send_all(rest, MANY)).await;
        let mut updates = Vec::new();
        for index in 0..REPORTS {
            updates.push(self.request(Work::Update, index).await);
        }
        Box::pin(self.ground.send_all(updates, MANY)).await;
        let stored = self.database.stored().await;
        self.note_each("disk", stored.kept, USUAL);
        self.note_each("disk of the log of changes", stored.changes, USUAL);
    }

    /// Notes the memory of the reports, as the server counts it.
    fn memory(&mut self) {
        let snapshot = self.ground.reports().snapshot();
        assert_eq!(snapshot.range(None, None).count(), REPORTS);
        let objects = snapshot.range(None, None);
        let memory: u64 = objects.map(|object| object.memory() as u64).sum();
        self.note_each("memory of objects", memory, TEXT);
    }

    /// Counts requests of each kind.
    async fn requests(&mut self) {
        self.scan = SCANS;
        for (work, at_once) in [
            (Work::Get, 1),
            (Work::Page, 1),
            (Work::ZippedPage, 1),
            (Work::Update, 1),
            (Work::Update, MANY),
            (Work::NoOp, 1),
            (Work::Patch, 1),
            (Work::Apply, 1),
        ] {
            self.count(work, at_once).await;
        }
        self.events().await;
    }

    /// Counts requests of a kind, after as many that are not counted.
    async fn count(&mut self, work: Work, at_once: usize) {
        let first = self.make(work).await;
        Box::pin(self.ground.send_all(first, at_once)).await;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let requests = self.make(work).await;
            rounds.push(self.round(requests, at_once).await);
        }
        let what = match at_once {
            1 => work.name().to_owned(),
            many => format!("{}, {many} at a time", work.name()),
        };
        self.note_work(&what, &rounds);
        if work.is_list() {
            self.note_wire(&what, &rounds);
        }
        if !work.is_read() {
            self.note_writes(&what, &rounds);
        }
    }

    /// Counts the events of updates, delivered to a first watch and to another one.
    async fn events(&mut self) {
        let (mut first, mut other) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let since = self.ground.reports().current_rv();
            let updates = self.make(Work::Update).await;
            Box::pin(self.ground.send_all(updates, 1)).await;
            first.push(self.delivery(since).await);
            other.push(self.delivery(since).await);
        }
        self.note_allocations("event to a first watch", &first);
        self.note_allocations("event to another watch", &other);
    }

    /// Opens a watch at a version, and counts the delivery of the events of a round.
    async fn delivery(&self, since: u64) -> Round {
        let watch = format!(
            "{}?watch=true&resourceVersion={since}",
            reports::collection()
        );
        let mut body = Box::pin(self.ground.open(requests::get(&watch))).await;
        let before = ALLOCATOR.read();
        let mut events = 0;
        while events < PART {
            let frame = timeout(PATIENCE, body.frame()).await;
            let frame = frame.expect("an event in time").expect("another event");
            let data = frame.unwrap().into_data().unwrap();
            events += data.split(|byte| *byte == b'\n').count() - 1;
        }
        Round {
            requests: PART as u64,
            allocations: ALLOCATOR.read().since(before),
            ..Round::default()
        }
    }

    fn creations(&self, indexes: Range<usize>) -> Vec<Request<Body>> {
        let collection = reports::collection();
        let request = |index| {
            let report = self.reports.report(index);
            requests::with_body(Method::POST, &collection, JSON, &report)
        };
        indexes.map(request).collect()
    }

    /// Returns the requests of a round.
    async fn make(&mut self, work: Work) -> Vec<Request<Body>> {
        self.scan += 1;
        let mut requests = Vec::new();
        for index in work.reports() {
            requests.push(self.request(work, index).await);
        }
        requests
    }

    async fn request(&self, work: Work, index: usize) -> Request<Body> {
        let path = reports::path(index);
        let page = || format!("{}?limit=500", reports::collection());
        match work {
            Work::Get => requests::get(&path),
            Work::Page => requests::get(&page()),
            Work::ZippedPage => requests::get_zipped(&page()),
            Work::Update => {
                let report = self.ground.read(&path).await;
                let report = self.reports.scanned(report, self.scan);
                requests::with_body(Method::PUT, &path, JSON, &report)
            }
            Work::NoOp => {
                let report = self.ground.read(&path).await;
                requests::with_body(Method::PUT, &path, JSON, &report)
            }
            Work::Patch => {
                let labels = json!({"metadata": {"labels": {"scan": self.scan.to_string()}}});
                requests::with_body(Method::PATCH, &path, MERGE_PATCH, &labels)
            }
            Work::Apply => {
                let report = self.reports.scanned(self.reports.report(index), self.scan);
                let path = format!("{path}?fieldManager=owner&force=true");
                requests::with_body(Method::PATCH, &path, APPLY, &report)
            }
        }
    }

    /// Sends the requests of a round, so many at a time.
    async fn round(&self, requests: Vec<Request<Body>>, at_once: usize) -> Round {
        let count = requests.len() as u64;
        let begin = self.database.begin().await;
        let questions = self.ground.store.stats().questions;
        let before = ALLOCATOR.read();
        let wire = Box::pin(self.ground.send_all(requests, at_once)).await;
        let allocations = ALLOCATOR.read().since(before);
        let questions = self.ground.store.stats().questions - questions;
        let end = self.database.mark().await;
        Round {
            requests: count,
            allocations,
            log: end.log - begin.log,
            statements: end.statements - begin.statements + questions,
            wire,
        }
    }

    /// Notes what requests ask of the server and of its database.
    fn note_work(&mut self, what: &str, rounds: &[Round]) {
        self.note_allocations(what, rounds);
        if matches!(self.database, Database::Postgres(_)) {
            let statements = least(rounds, |round| 1000 * round.statements);
            self.note(what, "statements of 1,000", statements, USUAL);
        }
    }

    fn note_allocations(&mut self, what: &str, rounds: &[Round]) {
        let count = least(rounds, |round| round.allocations.count);
        let bytes = least(rounds, |round| round.allocations.bytes);
        self.note(what, "allocations", count, USUAL);
        self.note(what, "allocated bytes", bytes, USUAL);
    }

    /// Notes the bytes that writes add to the database's log.
    fn note_writes(&mut self, what: &str, rounds: &[Round]) {
        let log: u64 = rounds.iter().map(|round| round.log).sum();
        let requests: u64 = rounds.iter().map(|round| round.requests).sum();
        self.note(what, "write-ahead log in bytes", log / requests, USUAL);
    }

    fn note_wire(&mut self, what: &str, rounds: &[Round]) {
        let wire = least(rounds, |round| round.wire);
        self.note(what, "wire in bytes", wire, TEXT);
    }

    fn note(&mut self, what: &str, quantity: &str, number: u64, margin: Margin) {
        let name = format!("{}: {what}: {quantity}", self.database.name());
        self.book.note(name, number, margin);
    }

    /// Notes a size of all reports for each of them.
    fn note_each(&mut self, what: &str, bytes: u64, margin: Margin) {
        let each = bytes / REPORTS as u64;
        self.note("a report", &format!("{what} in bytes"), each, margin);
    }
}

/// Returns the least of a quantity a request: the clock can only add to it.
fn least(rounds: &[Round], of: fn(&Round) -> u64) -> u64 {
    let each = rounds.iter().map(|round| of(round) / round.requests);
    each.min().unwrap()
}
