//! From the end of a server's process by SIGKILL to serving again.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::book::Book;
use super::client::Request;
use super::ground::Ground;
use super::target::{Kind, Way};

const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Kills the server, starts it at once and notes the time until it is ready and until a client has
/// had an answer through the kube-apiserver.
///
/// # Errors
/// If it does not come back.
pub async fn run(book: &mut Book, ground: &mut Ground, kind: Kind) -> anyhow::Result<()> {
    let begun = Instant::now();
    ground.kill_server(kind).await?;
    let ready = ground.start_server(kind).await?.as_secs_f64();
    let target = ground.target(kind, Way::Aggregated)?;
    while !serves(&target).await {
        ensure!(
            begun.elapsed() < PATIENCE,
            "{} did not come back",
            kind.name()
        );
        tokio::time::sleep(PAUSE).await;
    }
    let serving = begun.elapsed().as_secs_f64();
    book.add("start to ready", kind.name(), ready);
    book.add("killed to serving", kind.name(), serving);
    eprintln!(
        "  start        {:<20} ready after {ready:.2} s, serving after {serving:.2} s",
        kind.name()
    );
    Ok(())
}

async fn serves(target: &super::target::Target) -> bool {
    let page = Request::get(format!("{}?limit=1", target.all()));
    match target.endpoint.once(&page).await {
        Ok(reply) => reply.status == 200,
        Err(_) => false,
    }
}
