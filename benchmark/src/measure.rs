//! One measured run of a load against a target.

use std::collections::BTreeMap;

use anyhow::ensure;

use super::book::Book;
use super::client::Request;
use super::load::{self, Load, Work};
use super::target::Target;
use super::usage;

/// Runs `work` against `target` and notes rate, latencies and CPU time under `metric`.
///
/// # Errors
/// If a request fails.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub async fn load<W: Work + 'static>(
    book: &mut Book,
    metric: &str,
    target: &Target,
    work: Vec<W>,
) -> anyhow::Result<(Load, Vec<W>)> {
    let system = target.system();
    let before = usage::cpu_ms(&target.processes)?;
    let (load, work) = load::run_with(&target.endpoint, &target.warm(), work).await?;
    let after = usage::cpu_ms(&target.processes)?;
    let operations = load.operations as f64;
    book.add(&format!("{metric} rate"), &system, load.rate());
    book.add(&format!("{metric} p50"), &system, load.latency_ms(0.5));
    book.add(&format!("{metric} p99"), &system, load.latency_ms(0.99));
    let (mut service, mut all) = (0.0, 0.0);
    for (name, ms) in after {
        let ms = ms.saturating_sub(before.get(&name).copied().unwrap_or(ms)) as f64 / operations;
        book.add(&format!("{metric} CPU of {name}"), &system, ms);
        all += ms;
        if target.serves(&name) {
            service += ms;
        }
    }
    book.add(&format!("{metric} CPU"), &system, service);
    book.add(&format!("{metric} CPU of all"), &system, all);
    eprintln!(
        "  {metric:<12} {system:<20} {:>8.0} /s  p50 {:>7.1} ms  p99 {:>7.1} ms  CPU {service:.3} ms/op ({} requests)",
        load.rate(),
        load.latency_ms(0.5),
        load.latency_ms(0.99),
        load.operations,
    );
    Ok((load, work))
}

/// Sends a request some times on one warm connection and notes the time to its first and last byte
/// and the CPU time of each.
///
/// # Errors
/// If a request fails.
pub async fn repeat(
    book: &mut Book,
    metric: &str,
    target: &Target,
    request: &Request,
    times: u32,
) -> anyhow::Result<()> {
    let system = target.system();
    let mut connection = target.endpoint.connect().await?;
    connection.send(&target.warm()).await?.success()?;
    let before = usage::cpu_ms(&target.processes)?;
    let mut bytes = 0;
    let mut whole = Vec::new();
    for _ in 0..times {
        let reply = connection.send(request).await?.success()?;
        ensure!(
            reply.is_gzip() == request.gzip,
            "{metric}: the answer has another encoding than was asked for"
        );
        let ms = reply.whole.as_secs_f64() * 1000.0;
        book.add(metric, &system, ms);
        let first = reply.first_byte.as_secs_f64() * 1000.0;
        book.add(&format!("{metric} first byte"), &system, first);
        bytes = reply.body.len();
        whole.push(ms);
    }
    processors(book, metric, target, &before, times)?;
    eprintln!("  {metric:<12} {system:<20} {whole:.1?} ms, {bytes} bytes");
    Ok(())
}

/// Notes the CPU time of each process since `before`, and of the service as a whole, by the number of
/// times that something was done.
///
/// # Errors
/// If a process has ended.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub fn processors(
    book: &mut Book,
    metric: &str,
    target: &Target,
    before: &BTreeMap<String, u64>,
    times: u32,
) -> anyhow::Result<f64> {
    let system = target.system();
    let mut service = 0.0;
    for (name, ms) in usage::cpu_ms(&target.processes)? {
        let ms = ms.saturating_sub(before.get(&name).copied().unwrap_or(ms));
        let each = ms as f64 / f64::from(times);
        book.add(&format!("{metric} CPU of {name}"), &system, each);
        if target.serves(&name) {
            service += each;
        }
    }
    book.add(&format!("{metric} CPU"), &system, service);
    Ok(service)
}
