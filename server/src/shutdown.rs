//! The end of the service: in an order that costs no client a request.

use std::io;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after a second signal.
const EXIT_FORCED: i32 = 130;

/// The progress of the end. Each step is a condition that others wait for.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Cancelled by the first signal.
    pub requested: CancellationToken,
    /// Cancelled when watches are to end and connections to be drained.
    pub drain: CancellationToken,
    unready: Arc<AtomicBool>,
}

impl Shutdown {
    /// Returns whether `/readyz` must fail by now.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.unready.load(Ordering::Relaxed)
    }

    /// Waits for the request to end, lets `/readyz` fail for `delay` while everything is still
    /// served (clients and Services learn of it in that time), then starts the drain.
    pub async fn sequence(&self, delay: Duration) {
        self.requested.cancelled().await;
        self.unready.store(true, Ordering::Relaxed);
        tracing::info!(
            ?delay,
            "shutting down: not ready from now on, still serving"
        );
        tokio::time::sleep(delay).await;
        tracing::info!("shutting down: ending watches and draining connections");
        self.drain.cancel();
    }

    /// Takes SIGTERM and SIGINT as the request to end; a second one ends the process at once.
    ///
    /// # Errors
    /// If the system takes no signal handlers.
    pub fn on_signals(&self) -> io::Result<()> {
        let (mut term, mut int) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let requested = self.requested.clone();
        tokio::spawn(async move {
            next(&mut term, &mut int).await;
            requested.cancel();
            next(&mut term, &mut int).await;
            tracing::warn!("second signal: ending at once");
            exit(EXIT_FORCED);
        });
        Ok(())
    }
}

async fn next(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
