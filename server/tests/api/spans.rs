//! The spans that a request has below the API.

use std::sync::{Arc, Mutex};

use tracing::span::{Attributes, Id};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::harness::*;

/// The names of the spans of a thread, on which the test's server runs.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<&'static str>>>);

impl<S: Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().target() == traces::TARGET {
            self.0.lock().unwrap().push(attributes.metadata().name());
        }
    }
}

impl Spans {
    /// Returns the spans since the last call.
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn each_write_waits_for_its_commit_in_a_span() {
    // While there is one dispatcher alone, a span that another thread meets first is decided on by that
    // thread's, which is none, and is recorded nowhere from then on.
    let _second = Dispatch::new(NoSubscriber::new());
    let spans = Spans::default();
    let layers = tracing_subscriber::registry().with(spans.clone());
    let _guard = layers.set_default();
    let server = Server::start().await;
    assert!(spans.take().is_empty());
    server.created("a").await;
    assert_eq!(spans.take(), ["commit"]);
    let path = format!("{REPORTS}/a");
    server.get(&path).await.expect(200);
    assert!(spans.take().is_empty());
    server.delete(&path).await.expect(200);
    assert_eq!(spans.take(), ["commit"]);
}
