//! Closed loops: each connection sends its next request when the last one is answered.

use std::time::Instant;

use anyhow::Context as _;
use futures::future::try_join_all;
use hdrhistogram::Histogram;

use super::client::{Endpoint, Reply, Request};

/// The work of one connection.
pub trait Work: Send {
    /// Returns the next request; `None` at the end.
    fn next(&mut self) -> Option<Request>;

    /// Takes the answer, which was a success.
    ///
    /// # Errors
    /// If it is not the answer that was expected.
    fn answered(&mut self, reply: &Reply) -> anyhow::Result<()>;
}

/// Fixed requests whose answers only have to be successes.
pub struct Fixed(std::vec::IntoIter<Request>);

impl Fixed {
    /// Deals the requests out to `connections`.
    #[must_use]
    pub fn deal(requests: Vec<Request>, connections: usize) -> Vec<Self> {
        let mut hands = vec![Vec::new(); connections];
        for (index, request) in requests.into_iter().enumerate() {
            hands[index % connections].push(request);
        }
        hands
            .into_iter()
            .map(|hand| Self(hand.into_iter()))
            .collect()
    }
}

impl Work for Fixed {
    fn next(&mut self) -> Option<Request> {
        self.0.next()
    }

    fn answered(&mut self, _reply: &Reply) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The outcome of a loop.
#[derive(Debug)]
pub struct Load {
    /// Answered requests.
    pub operations: u64,
    /// Time from the first request to the last answer, in seconds.
    pub seconds: f64,
    latency: Histogram<u64>,
}

impl Load {
    /// Returns the requests a second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Returns a quantile of the latency in milliseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Returns a histogram of microseconds.
pub(super) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 600_000_000, 3)?)
}

/// Connects, warms each connection with `warm`, then lets all work go at once.
///
/// # Errors
/// If a connection breaks or a request is refused: a benchmark with failed requests says nothing.
pub async fn run<W: Work + 'static>(
    endpoint: &Endpoint,
    warm: &Request,
    work: Vec<W>,
) -> anyhow::Result<Load> {
    let (run, _) = run_with(endpoint, warm, work).await?;
    Ok(run)
}

/// Runs as [`run`], and returns the works.
///
/// # Errors
/// As [`run`].
pub async fn run_with<W: Work + 'static>(
    endpoint: &Endpoint,
    warm: &Request,
    work: Vec<W>,
) -> anyhow::Result<(Load, Vec<W>)> {
    let connect = work.iter().map(|_| async {
        let mut connection = endpoint.connect().await?;
        connection.send(warm).await?.success()?;
        anyhow::Ok(connection)
    });
    let connections = try_join_all(connect).await?;
    let begun = Instant::now();
    let tasks: Vec<_> = connections
        .into_iter()
        .zip(work)
        .map(|(mut connection, mut work)| {
            tokio::spawn(async move {
                let mut latency = histogram()?;
                while let Some(request) = work.next() {
                    let reply = connection.send(&request).await?;
                    let reply = reply
                        .success()
                        .with_context(|| format!("{} {}", request.method, request.path))?;
                    latency.saturating_record(
                        u64::try_from(reply.whole.as_micros()).unwrap_or(u64::MAX),
                    );
                    work.answered(&reply)?;
                }
                anyhow::Ok((latency, work))
            })
        })
        .collect();
    let mut latency = histogram()?;
    let mut done = Vec::new();
    for task in tasks {
        let (part, work) = task.await??;
        latency.add(part)?;
        done.push(work);
    }
    let load = Load {
        operations: latency.len(),
        seconds: begun.elapsed().as_secs_f64(),
        latency,
    };
    Ok((load, done))
}
