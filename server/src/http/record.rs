//! The record of a request: one line in the log, one count in the metrics.

use std::time::Duration;

use apimachinery::request_info::RequestInfo;
use axum::response::Response;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::health::Health;
use super::negotiation::is_apply;
use super::pipeline::{SERVER_HEADER, guarded};
use crate::cluster::Served;
use crate::telemetry::{RequestLabels, RequestMetrics};

/// A request that takes longer is logged at info.
const SLOW: Duration = Duration::from_secs(1);

/// The facts of a request that are kept until it is answered.
pub(super) struct Seen {
    labels: RequestLabels,
    method_path: String,
    user_agent: String,
    started: Instant,
    is_watch: bool,
    /// True for health checks, which log their failures themselves and are made every few seconds.
    is_health: bool,
}

impl Seen {
    pub(super) fn new(
        info: &RequestInfo,
        headers: &HeaderMap,
        started: Instant,
        served: &Served,
    ) -> Self {
        let agent = headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok());
        Self {
            labels: labels(info, headers, served),
            method_path: format!("{} {}", info.verb, info.path),
            user_agent: agent.unwrap_or_default().to_owned(),
            started,
            is_watch: info.is_long_running(),
            is_health: Health::is_endpoint(info),
        }
    }

    /// Returns whether the resource of the request is served here.
    pub(super) fn is_known(&self) -> bool {
        !self.labels.resource.is_empty()
    }

    /// Counts and logs the answer, and marks it as ours.
    pub(super) fn finish(self, mut response: Response, metrics: &RequestMetrics) -> Response {
        let elapsed = self.started.elapsed();
        let code = response.status().as_u16();
        metrics.answered(&self.labels, code, (!self.is_watch).then_some(elapsed));
        self.log(code, elapsed);
        let version = HeaderValue::from_static(crate::VERSION);
        response.headers_mut().insert(SERVER_HEADER, version);
        if self.is_watch && response.status().is_success() {
            return guarded(response, metrics.watcher(&self.labels));
        }
        response
    }

    fn log(&self, code: u16, elapsed: Duration) {
        let (request, agent) = (self.method_path.as_str(), self.user_agent.as_str());
        let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if code >= 500 && !self.is_health {
            tracing::warn!(request, code, ms, agent, "request failed");
        } else if elapsed > SLOW && !self.is_watch {
            tracing::info!(request, code, ms, agent, "slow request");
        } else {
            tracing::debug!(request, code, ms, agent, "request");
        }
    }
}

/// Returns labels from a bounded set: a path that a client makes up is not named.
fn labels(info: &RequestInfo, headers: &HeaderMap, served: &Served) -> RequestLabels {
    let verb = match info.verb.as_str() {
        "get" => "get",
        "list" => "list",
        "watch" => "watch",
        "create" => "create",
        "update" => "update",
        "patch" if is_apply(headers) => "apply",
        "patch" => "patch",
        "delete" => "delete",
        "deletecollection" => "deletecollection",
        _ => "other",
    };
    let known = served.resource(&info.api_group, &info.resource).is_some()
        || (info.api_group == crds::control::GROUP
            && [crds::control::PLURAL, crds::control::DATABASES].contains(&info.resource.as_str()));
    if known {
        RequestLabels {
            verb,
            group: info.api_group.clone(),
            resource: info.resource.clone(),
        }
    } else {
        RequestLabels {
            verb,
            group: String::new(),
            resource: String::new(),
        }
    }
}
