//! The context of a trace that a request brings along.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The header of W3C Trace Context that names the span of the sender.
const TRACEPARENT: &str = "traceparent";

/// Makes the span that the header `traceparent` names the parent of `span`, which must not have been
/// entered yet. A header that cannot be read changes nothing.
pub fn continue_from(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() || !headers.contains_key(TRACEPARENT) {
        return;
    }
    let context = TraceContextPropagator::new()
        .extract_with_context(&Context::new(), &HeaderExtractor(headers));
    // Only a span that has begun, or one that is exported nowhere, refuses it.
    let _ = span.set_parent(context);
}
