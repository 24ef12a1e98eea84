//! `/livez`, `/readyz` and `/healthz`, in the kube-apiserver's words.

use apimachinery::request_info::RequestInfo;
use axum::response::Response;
use http::StatusCode;

use super::response::text;

/// A condition of health: its name, and a function that says whether it holds.
pub struct Check {
    name: &'static str,
    holds: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Check {
    /// Returns a condition that must be quick to evaluate and depend on nothing slow.
    pub fn new(name: &'static str, holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            name,
            holds: Box::new(holds),
        }
    }
}

/// The conditions of health. `ping` always holds.
#[derive(Default)]
pub struct Health {
    ready: Vec<Check>,
}

impl Health {
    /// Returns the conditions of health. The server lives while it answers, and is ready while all
    /// `ready` hold.
    #[must_use]
    pub fn new(ready: Vec<Check>) -> Self {
        Self { ready }
    }

    /// Returns whether a request is for one of the endpoints of health.
    #[must_use]
    pub fn is_endpoint(info: &RequestInfo) -> bool {
        let first = info.path.trim_matches('/').split('/').next();
        matches!(first, Some("livez" | "healthz" | "readyz"))
    }

    /// Answers a health request: `/<endpoint>[/<check>]` with `?verbose` and `?exclude=`. `None`
    /// for any other path.
    #[must_use]
    pub fn answer(&self, info: &RequestInfo) -> Option<Response> {
        let mut parts = info.path.trim_matches('/').split('/');
        let endpoint = parts.next()?;
        let checks: &[Check] = match endpoint {
            "livez" | "healthz" => &[],
            "readyz" => &self.ready,
            _ => return None,
        };
        let only = parts.next();
        if parts.next().is_some() {
            return None;
        }
        let ping = Check::new("ping", || true);
        let excluded = |name: &str| info.query.all("exclude").any(|out| out == name);
        let results: Vec<_> = std::iter::once(&ping)
            .chain(checks)
            .filter(|check| only.is_none_or(|name| name == check.name))
            .map(|check| (check.name, excluded(check.name), (check.holds)()))
            .collect();
        if results.is_empty() {
            return None;
        }
        Some(report(
            endpoint,
            &results,
            info.query.get("verbose").is_some(),
        ))
    }
}

/// Returns the answer for a list of (name, excluded, holds).
fn report(endpoint: &str, results: &[(&str, bool, bool)], verbose: bool) -> Response {
    let failed: Vec<_> = results
        .iter()
        .filter(|(_, out, ok)| !out && !ok)
        .map(|r| r.0)
        .collect();
    if failed.is_empty() && !verbose {
        return text(StatusCode::OK, "ok");
    }
    let mut lines: Vec<_> = results
        .iter()
        .map(|(name, excluded, holds)| match (excluded, holds) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (false, true) => format!("[+]{name} ok\n"),
            (false, false) => format!("[-]{name} failed: reason withheld\n"),
        })
        .collect();
    let (code, outcome) = if failed.is_empty() {
        (StatusCode::OK, "passed")
    } else {
        tracing::info!(endpoint, ?failed, "health check failed");
        (StatusCode::INTERNAL_SERVER_ERROR, "failed")
    };
    lines.push(format!("{endpoint} check {outcome}\n"));
    text(code, lines.concat())
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http_body_util::BodyExt;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/livez", 200, "ok")]
    #[case("/healthz", 200, "ok")]
    #[case("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n")]
    #[case(
        "/readyz",
        500,
        "[+]ping ok\n[+]good ok\n[-]bad failed: reason withheld\nreadyz check failed\n"
    )]
    #[case("/readyz/good", 200, "ok")]
    #[case(
        "/readyz/bad",
        500,
        "[-]bad failed: reason withheld\nreadyz check failed\n"
    )]
    #[case("/readyz?exclude=bad", 200, "ok")]
    #[case(
        "/readyz?exclude=bad&verbose=1",
        200,
        "[+]ping ok\n[+]good ok\n[+]bad excluded: ok\nreadyz check passed\n"
    )]
    #[tokio::test]
    async fn answers(#[case] uri: &str, #[case] code: u16, #[case] expected: &str) {
        let checks = vec![Check::new("good", || true), Check::new("bad", || false)];
        let info = RequestInfo::parse(&Method::GET, &uri.parse().unwrap()).unwrap();
        let response = Health::new(checks).answer(&info).unwrap();
        assert_eq!(response.status().as_u16(), code);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, expected.as_bytes());
    }

    #[rstest]
    #[case("/apis")]
    #[case("/readyz/unknown")]
    #[case("/readyz/good/more")]
    fn leaves_other_paths_alone(#[case] uri: &str) {
        let info = RequestInfo::parse(&Method::GET, &uri.parse().unwrap()).unwrap();
        assert!(
            Health::new(vec![Check::new("good", || true)])
                .answer(&info)
                .is_none()
        );
    }
}
