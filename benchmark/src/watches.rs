//! Watches: the time that a write takes to reach a watcher, and the number of watchers that can be
//! served.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::bodies::Bodies;
use super::book::Book;
use super::client::{Connection, Request, value_of};
use super::load::{Work as _, histogram};
use super::target::Target;
use super::{usage, writes};

/// Longest wait for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Writers at a steady rate; each has one request under way at most.
const WRITERS: usize = 32;

/// Sends updates to `writer` at `rate` a second and times each from its sending to its event at a
/// watch on `watcher`.
///
/// # Errors
/// If a request fails, an event is lost, or the rate is not reached.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub async fn latency(
    book: &mut Book,
    writer: &Target,
    watcher: &Target,
    bodies: &Bodies,
    reports: usize,
    rate: u32,
    seconds: u32,
) -> anyhow::Result<()> {
    let count = usize::try_from(rate * seconds)?;
    let work = writes::updaters(writer, bodies, reports, WRITERS, count).await?;
    let watch = open(watcher, &version(watcher).await?).await?;
    let sent: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
    let events = tokio::spawn(follow(watch, count));
    let turn = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let period = Duration::from_secs(1) / rate;
    let mut writers = Vec::new();
    for mut updater in work {
        // Turns go to whoever is free.
        updater.allow(count);
        let (sent, turn) = (Arc::clone(&sent), Arc::clone(&turn));
        let mut connection = writer.endpoint.connect().await?;
        writers.push(tokio::spawn(async move {
            loop {
                let index = turn.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return anyhow::Ok(());
                }
                let due = begun + period * u32::try_from(index)?;
                tokio::time::sleep_until(due.into()).await;
                let request = updater.next().context("a writer has no work left")?;
                let at = Instant::now();
                let reply = connection.send(&request).await?.success()?;
                let version = reply.resource_version().context("no resourceVersion")?;
                sent.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((version.to_owned(), at));
                updater.answered(&reply)?;
            }
        }));
    }
    for writer in writers {
        writer.await??;
    }
    let reached = count as f64 / begun.elapsed().as_secs_f64();
    let seen: HashMap<String, Instant> = events.await??.into_iter().collect();
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut latency = histogram()?;
    for (version, at) in sent {
        let arrived = seen
            .get(&version)
            .with_context(|| format!("the event {version} never came"))?;
        let micros = arrived.saturating_duration_since(at).as_micros();
        latency.saturating_record(u64::try_from(micros)?);
    }
    let metric = format!("watch@{rate}/s");
    let system = if writer.kind == watcher.kind {
        watcher.system()
    } else {
        format!("{} across replicas", writer.system())
    };
    let ms = |quantile| latency.value_at_quantile(quantile) as f64 / 1000.0;
    book.add(&format!("{metric} p50"), &system, ms(0.5));
    book.add(&format!("{metric} p99"), &system, ms(0.99));
    eprintln!(
        "  {metric:<12} {system:<20} p50 {:.2} ms, p99 {:.2} ms ({reached:.0} writes/s reached)",
        ms(0.5),
        ms(0.99)
    );
    Ok(())
}

/// Returns the present version of the collection.
async fn version(target: &Target) -> anyhow::Result<String> {
    let page = Request::get(format!("{}?limit=1", target.all()));
    let reply = target.endpoint.once(&page).await?.success()?;
    // The list's own version stands before the items or after them; its key is its metadata's.
    let list: serde_json::Value = serde_json::from_slice(&reply.body)?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.context("the list has no version")?.to_owned())
}

/// A watch, read line by line; its connection lives as long.
pub struct Watch {
    _connection: Connection,
    body: Incoming,
    rest: Vec<u8>,
}

async fn open(target: &Target, version: &str) -> anyhow::Result<Watch> {
    let path = format!(
        "{}?watch=1&resourceVersion={version}&timeoutSeconds=600",
        target.all()
    );
    on(target.endpoint.connect().await?, &path).await
}

/// Opens the watch at `path` on a connection.
///
/// # Errors
/// If it is refused.
pub async fn on(mut connection: Connection, path: &str) -> anyhow::Result<Watch> {
    let answer = connection.open(&Request::get(path)).await?;
    ensure!(answer.status() == 200, "{path}: {}", answer.status());
    Ok(Watch {
        _connection: connection,
        body: answer.into_body(),
        rest: Vec::new(),
    })
}

impl Watch {
    /// Waits for more and returns the number of lines that have ended; `line` is called with each.
    ///
    /// # Errors
    /// If nothing comes or the watch ends.
    pub async fn read(&mut self, mut line: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        let frame = timeout(PATIENCE, self.body.frame())
            .await
            .context("no event came")?
            .context("the watch ended")??;
        let Ok(data) = frame.into_data() else {
            return Ok(0);
        };
        let mut lines = 0;
        let mut data = &data[..];
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            if self.rest.is_empty() {
                line(&data[..end]);
            } else {
                self.rest.extend_from_slice(&data[..end]);
                line(&self.rest);
                self.rest.clear();
            }
            data = &data[end + 1..];
            lines += 1;
        }
        self.rest.extend_from_slice(data);
        Ok(lines)
    }
}

/// Returns the versions of the events and the times when they came.
async fn follow(mut watch: Watch, count: usize) -> anyhow::Result<Vec<(String, Instant)>> {
    let mut seen = Vec::with_capacity(count);
    while seen.len() < count {
        watch
            .read(|line| {
                let version = value_of(line, b"\"resourceVersion\":\"").unwrap_or_default();
                seen.push((version.to_owned(), Instant::now()));
            })
            .await?;
    }
    Ok(seen)
}

/// Opens `watchers` watches, makes `count` updates as fast as they are answered and measures how
/// many events a second reach the watchers, until all have all. Returns the mean size of an event,
/// in bytes.
///
/// # Errors
/// If a request fails or an event is lost.
pub async fn fan_out(
    book: &mut Book,
    target: &Target,
    bodies: &Bodies,
    reports: usize,
    watchers: usize,
    count: usize,
) -> anyhow::Result<usize> {
    let work = writes::updaters(target, bodies, reports, 1, count).await?;
    let version = version(target).await?;
    let mut streams = Vec::with_capacity(watchers);
    for _ in 0..watchers {
        streams.push(open(target, &version).await?);
    }
    let mut connection = target.endpoint.connect().await?;
    connection.send(&target.warm()).await?.success()?;
    let write = async move {
        for mut updater in work {
            while let Some(request) = updater.next() {
                let reply = connection.send(&request).await?.success()?;
                updater.answered(&reply)?;
            }
        }
        anyhow::Ok(())
    };
    deliveries(book, target, streams, count, write).await
}

/// Measures as many events of `size` bytes from the null backend, which has them in memory: the
/// cost of the wire.
///
/// # Errors
/// If a request fails.
pub async fn fan_out_of_wire(
    book: &mut Book,
    null: &Target,
    watchers: usize,
    count: usize,
    size: usize,
) -> anyhow::Result<()> {
    let path = format!("/apis/{}/v1/events/{count}/{size}", null.kind.group());
    // Each stream begins with its request, so they are all opened after the clock has started.
    let mut connections = Vec::with_capacity(watchers);
    for _ in 0..watchers {
        connections.push(null.endpoint.connect().await?);
    }
    let begun = Instant::now();
    let before = usage::cpu_ms(&null.processes)?;
    let mut tasks = Vec::new();
    for mut connection in connections {
        let request = Request::get(&path);
        tasks.push(tokio::spawn(async move {
            let body = connection.open(&request).await?.into_body();
            let rest = Vec::new();
            let watch = Watch {
                _connection: connection,
                body,
                rest,
            };
            drain(watch, count).await
        }));
    }
    let mut bytes = 0;
    for task in tasks {
        bytes += task.await??;
    }
    note(book, null, begun, &before, watchers * count, bytes)?;
    Ok(())
}

async fn deliveries(
    book: &mut Book,
    target: &Target,
    streams: Vec<Watch>,
    count: usize,
    write: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> anyhow::Result<usize> {
    let total = streams.len() * count;
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|watch| tokio::spawn(drain(watch, count)))
        .collect();
    let before = usage::cpu_ms(&target.processes)?;
    let begun = Instant::now();
    let writer = tokio::spawn(write);
    let mut bytes = 0;
    for task in tasks {
        bytes += task.await??;
    }
    writer.await??;
    note(book, target, begun, &before, total, bytes)
}

/// Counts newlines in steps that the compiler makes vectors of: gigabytes go through here.
fn newlines(data: &[u8]) -> usize {
    data.chunks(usize::from(u8::MAX))
        .map(|part| usize::from(part.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>()))
        .sum()
}

/// Reads `count` lines without looking at them; returns the bytes.
async fn drain(mut watch: Watch, count: usize) -> anyhow::Result<usize> {
    let (mut lines, mut bytes) = (0, 0);
    while lines < count {
        let frame = timeout(PATIENCE, watch.body.frame())
            .await
            .context("no event came")?
            .context("the watch ended")??;
        if let Ok(data) = frame.into_data() {
            bytes += data.len();
            lines += newlines(&data);
        }
    }
    Ok(bytes)
}

/// Notes a run; returns the mean size of an event, in bytes.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn note(
    book: &mut Book,
    target: &Target,
    begun: Instant,
    before: &BTreeMap<String, u64>,
    total: usize,
    bytes: usize,
) -> anyhow::Result<usize> {
    let seconds = begun.elapsed().as_secs_f64();
    let rate = total as f64 / seconds;
    let system = target.system();
    let mut cpu = 0;
    for (name, ms) in usage::cpu_ms(&target.processes)? {
        if target.serves(&name) {
            cpu += ms.saturating_sub(before.get(&name).copied().unwrap_or(ms));
        }
    }
    let each = cpu as f64 * 1000.0 / total as f64;
    book.add("fan-out rate", &system, rate);
    book.add("fan-out CPU", &system, each);
    eprintln!(
        "  fan-out      {system:<20} {rate:>8.0} deliveries/s, {:.0} MB/s, CPU {each:.1} us each",
        bytes as f64 / seconds / 1e6
    );
    Ok(bytes / total)
}
