//! The namespaces of a test, and a place where a write can be stopped: it looks its namespace up
//! between its read of the object and its write of it.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use reports_server::cluster::{NamespaceError, NamespaceLookup, NamespacePhase};
use tokio::sync::oneshot;

/// Namespaces as the test says; those it says nothing of exist.
#[derive(Default)]
pub struct Namespaces {
    phases: Mutex<HashMap<String, NamespacePhase>>,
    stop: Mutex<Option<Stop>>,
}

/// A lookup that stops.
struct Stop {
    /// Tells that the lookup has begun.
    reached: oneshot::Sender<()>,
    /// Ends the stop.
    go_on: oneshot::Receiver<()>,
}

impl Namespaces {
    pub fn set(&self, name: &str, phase: NamespacePhase) {
        self.phases.lock().unwrap().insert(name.to_owned(), phase);
    }

    /// Stops the next lookup: the receiver is told when it has begun, the sender has it go on.
    pub fn stop_next(&self) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (reached, is_reached) = oneshot::channel();
        let (let_go, go_on) = oneshot::channel();
        *self.stop.lock().unwrap() = Some(Stop { reached, go_on });
        (is_reached, let_go)
    }
}

#[async_trait]
impl NamespaceLookup for Namespaces {
    async fn phase(&self, name: &str) -> Result<NamespacePhase, NamespaceError> {
        let stop = self.stop.lock().unwrap().take();
        if let Some(Stop { reached, go_on }) = stop {
            // A test that has ended waits for nothing.
            let _ = reached.send(());
            let _ = go_on.await;
        }
        if name == "unknown" {
            return Err(NamespaceError {
                name: name.to_owned(),
                why: "no answer".to_owned(),
            });
        }
        let known = self.phases.lock().unwrap().get(name).copied();
        Ok(known.unwrap_or(NamespacePhase::Active))
    }
}
