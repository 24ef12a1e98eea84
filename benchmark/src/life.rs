//! The life of a report as it was recorded of Kyverno's background scan: an ephemeral report is
//! looked for by the name of its subject, posted under a generated name, found again by label, made
//! part of the subject's report, and deleted.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use http::Method;
use serde_json::Value;
use testreports::{ReportKind, shape, subject_uid};

use super::bodies::{Bodies, Change};
use super::book::Book;
use super::client::{Connection, Reply, Request};
use super::ground::CREATED;
use super::target::Target;
use super::{measure, usage};

/// Scans of a subject: the first posts its report, the others put it.
const SCANS: usize = 5;
/// Lives at one time.
const CLIENTS: usize = 4;
/// Label by which the ephemeral reports of a subject are found, escaped for a query.
const SUBJECT_LABEL: &str = "audit.kyverno.io%2Fresource.uid";

/// Lives about `count` lives and notes their rate and the CPU time of each.
///
/// # Errors
/// If an answer is not the one that Kyverno has.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub async fn run(
    book: &mut Book,
    target: &Target,
    bodies: &Bodies,
    count: usize,
) -> anyhow::Result<()> {
    let subjects = (count / SCANS).max(CLIENTS);
    let lives = u32::try_from(subjects * SCANS)?;
    let before = usage::cpu_ms(&target.processes)?;
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|client| live(target, bodies, client, subjects));
    try_join_all(clients).await?;
    let rate = f64::from(lives) / begun.elapsed().as_secs_f64();
    let system = target.system();
    let cpu = measure::processors(book, "life", target, &before, lives)?;
    book.add("life rate", &system, rate);
    eprintln!("  life         {system:<20} {rate:>8.0} /s  CPU {cpu:.3} ms a life ({lives} lives)");
    let remove = Request::new(Method::DELETE, target.collection(CREATED), "");
    target.endpoint.once(&remove).await?.success()?;
    Ok(())
}

/// Scans every subject whose turn is this client's.
async fn live(
    target: &Target,
    bodies: &Bodies,
    client: usize,
    subjects: usize,
) -> anyhow::Result<()> {
    let mut connection = target.endpoint.connect().await?;
    connection.send(&target.warm()).await?.success()?;
    for index in (client..subjects).step_by(CLIENTS) {
        let subject = Subject::new(target, bodies, index);
        for scan in 0..SCANS {
            let life = subject.scan(&mut connection, scan).await;
            life.with_context(|| format!("scan {scan} of {}", subject.uid))?;
        }
    }
    Ok(())
}

/// An object of the cluster that is scanned again and again.
struct Subject<'a> {
    target: &'a Target,
    bodies: &'a Bodies,
    index: usize,
    uid: String,
    ephemerals: String,
    report: String,
}

impl<'a> Subject<'a> {
    fn new(target: &'a Target, bodies: &'a Bodies, index: usize) -> Self {
        let uid = subject_uid(ReportKind::EphemeralReport, index);
        Self {
            target,
            bodies,
            index,
            ephemerals: target.kind.ephemerals().collection(CREATED),
            report: format!("{}/{uid}", target.collection(CREATED)),
            uid,
        }
    }

    /// Lives one life.
    async fn scan(&self, connection: &mut Connection, scan: usize) -> anyhow::Result<()> {
        let (ephemerals, uid) = (&self.ephemerals, &self.uid);
        let missing = Request::get(format!("{ephemerals}/{uid}"));
        let missing = connection.send(&missing).await?;
        ensure!(missing.status == 404, "a name is taken: {}", missing.status);
        let group = self.target.kind.ephemerals().group;
        let body = self.bodies.ephemeral(&group, CREATED, self.index);
        let post = Request::new(Method::POST, ephemerals, body);
        let posted = connection.send(&post).await?.success()?;
        let name = name_of(&posted.body)?;
        let read = connection.send(&Request::get(&self.report)).await?;
        let found = Request::get(format!(
            "{ephemerals}?labelSelector={SUBJECT_LABEL}%3D{uid}"
        ));
        let found = connection.send(&found).await?.success()?;
        ensure!(names(&found.body)? == [name.as_str()], "not one was found");
        let write = self.write(scan, &read)?;
        connection.send(&write).await?.success()?;
        let delete = Request::new(Method::DELETE, format!("{ephemerals}/{name}"), "");
        connection.send(&delete).await?.success()?;
        Ok(())
    }

    /// Returns the write of the subject's own report, after this answer to a GET of it.
    fn write(&self, scan: usize, read: &Reply) -> anyhow::Result<Request> {
        if scan == 0 {
            ensure!(read.status == 404, "a report is there: {}", read.status);
            let group = self.target.kind.group();
            let body = self.bodies.create(&group, CREATED, &self.uid, self.index);
            let path = self.target.collection(CREATED);
            return Ok(Request::new(Method::POST, path, body));
        }
        ensure!(read.status == 200, "the report is gone: {}", read.status);
        if changes_nothing(self.index * (SCANS - 1) + scan - 1) {
            return Ok(Request::new(Method::PUT, &self.report, read.body.clone()));
        }
        let mut report: Value = serde_json::from_slice(&read.body)?;
        let round = u64::try_from(scan)?;
        self.bodies.rescan(&mut report, Change::Finding, round);
        Ok(Request::new(Method::PUT, &self.report, report.to_string()))
    }
}

/// Returns whether the PUT with this number changes nothing, as the recorded part of them does, evenly
/// spread.
fn changes_nothing(put: usize) -> bool {
    let share = usize::try_from(shape::NO_OP_UPDATES).unwrap_or(0);
    (put + 1) * share / 1000 > put * share / 1000
}

/// Returns the name of an object.
fn name_of(body: &[u8]) -> anyhow::Result<String> {
    let object: Value = serde_json::from_slice(body)?;
    let name = object["metadata"]["name"].as_str();
    Ok(name.context("an object has no name")?.to_owned())
}

/// Returns the names of the objects in a list.
fn names(body: &[u8]) -> anyhow::Result<Vec<String>> {
    let list: Value = serde_json::from_slice(body)?;
    let items = list["items"].as_array().context("a list has no items")?;
    let names = items.iter().map(|item| item["metadata"]["name"].as_str());
    let names = names.map(|name| name.unwrap_or_default().to_owned());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_part_of_the_puts_changes_nothing() {
        let no_ops = (0..1000).filter(|put| changes_nothing(*put)).count();
        assert_eq!(no_ops, 420);
        let early = (0..50).filter(|put| changes_nothing(*put)).count();
        assert_eq!(early, 21, "they are spread evenly");
    }

    #[test]
    fn names_are_those_of_the_objects() {
        let list = br#"{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
        assert_eq!(names(list).unwrap(), ["a", "b"]);
        assert_eq!(name_of(br#"{"metadata":{"name":"a"}}"#).unwrap(), "a");
        assert!(name_of(b"{}").is_err());
        assert!(names(b"{}").is_err());
    }
}
