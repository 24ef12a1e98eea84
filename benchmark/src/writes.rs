//! Creates, updates and gets: rates, latencies, CPU time of each process.

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;

use super::bodies::{Bodies, Change, Template, base_name};
use super::book::Book;
use super::client::{Reply, Request};
use super::ground::CREATED;
use super::load::{Fixed, Work};
use super::measure;
use super::names::namespace;
use super::target::Target;

/// Most reports that one run of updates touches.
const TOUCHED: usize = 2048;
/// Most reports that are put back as they are.
const UNCHANGED: usize = 512;
/// The body of a DELETE, as client-go sends it.
const DELETE_OPTIONS: &str = r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#;
/// Connections that read the versions for the updates.
const READERS: usize = 8;

/// Deals requests out to this many connections and measures them.
async fn send(
    book: &mut Book,
    metric: &str,
    target: &Target,
    requests: Vec<Request>,
    connections: usize,
) -> anyhow::Result<()> {
    let work = Fixed::deal(requests, connections);
    measure::load(book, metric, target, work).await?;
    Ok(())
}

/// Creates the base set, each report once.
///
/// # Errors
/// If a request fails.
pub async fn base(
    book: &mut Book,
    target: &Target,
    bodies: &Bodies,
    reports: usize,
    connections: usize,
) -> anyhow::Result<()> {
    let group = target.kind.group();
    let requests = (0..reports)
        .map(|index| {
            let space = namespace(index);
            let body = bodies.create(&group, &space, &base_name(index), index);
            Request::new(Method::POST, target.collection(&space), body)
        })
        .collect();
    send(book, "load", target, requests, connections).await
}

/// Creates new reports, then deletes each by name, as clients do.
///
/// # Errors
/// If a request fails.
pub async fn create(
    book: &mut Book,
    target: &Target,
    bodies: &Bodies,
    connections: usize,
    count: usize,
) -> anyhow::Result<()> {
    let group = target.kind.group();
    let collection = target.collection(CREATED);
    let name = |index| format!("created-{index:06}");
    let requests = (0..count)
        .map(|index| {
            let body = bodies.create(&group, CREATED, &name(index), index);
            Request::new(Method::POST, &collection, body)
        })
        .collect();
    let metric = format!("create@{connections}");
    send(book, &metric, target, requests, connections).await?;
    let requests = (0..count)
        .map(|index| {
            let path = format!("{collection}/{}", name(index));
            Request::new(Method::DELETE, path, DELETE_OPTIONS)
        })
        .collect();
    let metric = format!("delete@{connections}");
    send(book, &metric, target, requests, connections).await
}

/// Puts reports of the base set back as they are.
///
/// # Errors
/// If a request fails.
pub async fn no_op(
    book: &mut Book,
    target: &Target,
    reports: usize,
    connections: usize,
    count: usize,
) -> anyhow::Result<()> {
    let mut reader = target.endpoint.connect().await?;
    let mut puts = Vec::new();
    for index in 0..reports.min(UNCHANGED).min(count) {
        let path = target.base(index);
        let read = reader.send(&Request::get(&path)).await?.success()?;
        puts.push(Request::new(Method::PUT, path, read.body));
    }
    let requests = puts.into_iter().cycle().take(count).collect();
    let metric = format!("no-op@{connections}");
    send(book, &metric, target, requests, connections).await
}

/// Updates reports of the base set with their resource versions, under the name of the change.
///
/// # Errors
/// If a request fails; a conflict is one, too.
pub async fn update(
    book: &mut Book,
    target: &Target,
    (bodies, change): (&Bodies, Change),
    reports: usize,
    connections: usize,
    count: usize,
) -> anyhow::Result<()> {
    let touched: Vec<usize> = (0..touched(reports, connections, count)).collect();
    let work = touching(target, (bodies, change), &touched, connections, count).await?;
    let metric = format!("{}@{connections}", change.name());
    measure::load(book, &metric, target, work).await?;
    Ok(())
}

/// Returns the work of this many connections that update the base set this many times in all.
///
/// # Errors
/// If a report cannot be read.
pub async fn updaters(
    target: &Target,
    bodies: &Bodies,
    reports: usize,
    connections: usize,
    count: usize,
) -> anyhow::Result<Vec<Updater>> {
    let touched: Vec<usize> = (0..touched(reports, connections, count)).collect();
    let bodies = (bodies, Change::Finding);
    touching(target, bodies, &touched, connections, count).await
}

/// Returns work as [`updaters`] does, on reports that lie far apart in the base set.
///
/// # Errors
/// If a report cannot be read.
pub async fn scattered(
    target: &Target,
    bodies: &Bodies,
    reports: usize,
    connections: usize,
    count: usize,
) -> anyhow::Result<Vec<Updater>> {
    let touched = touched(reports, connections, count);
    let far: Vec<usize> = (0..touched).map(|turn| turn * reports / touched).collect();
    let bodies = (bodies, Change::Finding);
    touching(target, bodies, &far, connections, count).await
}

/// Returns the number of reports that a run of `count` updates touches.
fn touched(reports: usize, connections: usize, count: usize) -> usize {
    reports.min(TOUCHED).min(count).max(connections)
}

async fn touching(
    target: &Target,
    (bodies, change): (&Bodies, Change),
    touched: &[usize],
    connections: usize,
    count: usize,
) -> anyhow::Result<Vec<Updater>> {
    let group = target.kind.group();
    let mut work: Vec<Updater> = (0..connections).map(|_| Updater::default()).collect();
    let paths: Vec<String> = touched.iter().map(|index| target.base(*index)).collect();
    let versions = versions(target, &paths).await?;
    let found = touched.iter().zip(paths).zip(versions);
    for (turn, ((index, path), version)) in found.enumerate() {
        work[turn % connections].slots.push(Slot {
            path,
            template: bodies.update(&group, *index, change),
            version,
            turn: 0,
        });
    }
    for (index, updater) in work.iter_mut().enumerate() {
        updater.left = (count + connections - 1 - index) / connections;
    }
    Ok(work)
}

/// Returns the resource versions of objects.
async fn versions(target: &Target, paths: &[String]) -> anyhow::Result<Vec<String>> {
    let share = paths.len().div_ceil(READERS).max(1);
    let parts = paths.chunks(share).map(|paths| async move {
        let mut reader = target.endpoint.connect().await?;
        let mut versions = Vec::with_capacity(paths.len());
        for path in paths {
            let reply = reader.send(&Request::get(path)).await?.success()?;
            let version = reply.resource_version();
            versions.push(version.context("no resourceVersion")?.to_owned());
        }
        anyhow::Ok(versions)
    });
    Ok(try_join_all(parts).await?.concat())
}

/// Returns the work of this many connections that update each report of the base set once.
///
/// # Errors
/// If a report cannot be read.
pub async fn all(
    target: &Target,
    bodies: &Bodies,
    reports: usize,
    connections: usize,
) -> anyhow::Result<Vec<Updater>> {
    let bodies = (bodies, Change::Finding);
    let all: Vec<usize> = (0..reports).collect();
    touching(target, bodies, &all, connections, reports).await
}

/// The work of updating its reports in turn.
#[derive(Default)]
pub struct Updater {
    slots: Vec<Slot>,
    left: usize,
    at: usize,
}

struct Slot {
    path: String,
    template: Template,
    version: String,
    turn: usize,
}

impl Updater {
    /// Lets it go on for this many updates.
    pub fn allow(&mut self, updates: usize) {
        self.left = updates;
    }
}

impl Work for Updater {
    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        self.at = (self.at + 1) % self.slots.len();
        let slot = &mut self.slots[self.at];
        slot.turn += 1;
        let body = slot.template.fill(&slot.version, slot.turn);
        Some(Request::new(Method::PUT, &slot.path, body))
    }

    fn answered(&mut self, reply: &Reply) -> anyhow::Result<()> {
        let version = reply
            .resource_version()
            .context("the answer has no resourceVersion")?;
        version.clone_into(&mut self.slots[self.at].version);
        Ok(())
    }
}

/// Reads reports of the base set.
///
/// # Errors
/// If a request fails.
pub async fn get(
    book: &mut Book,
    target: &Target,
    reports: usize,
    connections: usize,
    count: usize,
) -> anyhow::Result<()> {
    let requests = (0..count)
        .map(|turn| {
            // A stride that meets all reports, far apart.
            let index = turn * 7919 % reports;
            Request::get(target.base(index))
        })
        .collect();
    let metric = format!("get@{connections}");
    send(book, &metric, target, requests, connections).await
}
