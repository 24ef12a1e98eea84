//! The context of a trace that a request brings along.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The header of W3C Trace Context that names the span of the sender.
const TRACEPARENT: &str = "traceparent";
/// The header of W3C Trace Context with the data of tracing systems.
const TRACESTATE: &str = "tracestate";
/// Longest such data that is taken over, in bytes: what the standard asks for. Each span keeps it.
const MAX_TRACESTATE: usize = 512;

/// Makes the span that the header `traceparent` names the parent of `span`, which must not have been
/// entered yet. A header that cannot be read changes nothing.
pub fn continue_from(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key(TRACEPARENT) {
        return;
    }
    // Only a span that has begun, or one that is exported nowhere, refuses it.
    let _ = span.set_parent(context(headers));
}

fn context(headers: &HeaderMap) -> Context {
    let bounded = Bounded(HeaderExtractor(headers));
    let propagator = TraceContextPropagator::new();
    propagator.extract_with_context(&Context::new(), &bounded)
}

/// Headers without data of tracing systems that are too long.
struct Bounded<'a>(HeaderExtractor<'a>);

impl Extractor for Bounded<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let text = self.0.get(key)?;
        (key != TRACESTATE || text.len() <= MAX_TRACESTATE).then_some(text)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceContextExt as _;

    use super::*;

    /// Returns what is taken over of so many members of data, of 100 bytes each.
    fn state(members: usize) -> String {
        let members: Vec<String> = (0..members)
            .map(|member| format!("k{member}={}", "x".repeat(97)))
            .collect();
        let mut headers = HeaderMap::new();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        headers.insert(TRACEPARENT, parent.parse().unwrap());
        headers.insert(TRACESTATE, members.join(",").parse().unwrap());
        let context = context(&headers);
        let span = context.span();
        assert!(span.span_context().is_valid());
        span.span_context().trace_state().header()
    }

    #[test]
    fn data_of_tracing_systems_is_taken_over_unless_it_is_long() {
        assert_eq!(state(5).len(), 504);
        assert_eq!(state(6), "");
    }
}
