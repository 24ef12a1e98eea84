//! The times of requests, by verb.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::serving::request::Outgoing;

/// The head of a watch, which says that it is open.
pub const WATCH: &str = "watch";
/// The opening of a watch as informers do it, until the first event about the existing objects.
pub const INITIAL_EVENTS: &str = "initial events";
/// Name among the verbs for the time from the sending of a write to its event in a watch.
pub const EVENT_OF_A_WRITE: &str = "write to event";

/// Times by verb.
#[derive(Clone, Debug, Default)]
pub struct Timing(BTreeMap<&'static str, Vec<Duration>>);

impl Timing {
    /// Adds one request.
    pub fn add(&mut self, verb: &'static str, time: Duration) {
        self.0.entry(verb).or_default().push(time);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (verb, times) in &other.0 {
            self.0.entry(verb).or_default().extend(times);
        }
    }

    /// Returns mean milliseconds by verb.
    #[must_use]
    pub fn mean(&self) -> BTreeMap<&'static str, f64> {
        self.each(|times| {
            let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
            times.iter().sum::<Duration>() / count.max(1)
        })
    }

    /// Returns median milliseconds by verb: a few requests that are slow on purpose do not count.
    #[must_use]
    pub fn median(&self) -> BTreeMap<&'static str, f64> {
        self.each(|times| {
            let mut times = times.to_vec();
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        })
    }

    fn each(&self, figure: impl Fn(&[Duration]) -> Duration) -> BTreeMap<&'static str, f64> {
        let figure = |(verb, times): (&&'static str, &Vec<Duration>)| {
            (*verb, figure(times).as_secs_f64() * 1000.0)
        };
        self.0.iter().map(figure).collect()
    }
}

/// Returns the verb of a request, in Kubernetes' words; `None` where the time of its answer says
/// nothing: it is not for the group, or waits for the end of a watch.
#[must_use]
pub fn verb(request: &Outgoing, group: &str) -> Option<&'static str> {
    let (path, query) = request.uri.split_once('?').unwrap_or((&request.uri, ""));
    let version = path.strip_prefix("/apis/")?.strip_prefix(group)?;
    // /VERSION/PLURAL or /VERSION/namespaces/N/PLURAL
    let parts = version.strip_prefix('/')?.split('/').skip(1);
    let parts = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let named = match parts.first() {
        Some(&"namespaces") => parts.len() > 3,
        _ => parts.len() > 1,
    };
    let apply = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-type") && value.starts_with("application/apply-patch")
    };
    Some(match request.method.as_str() {
        "GET" if parts.is_empty() => "discovery",
        "GET" if parts[0] == "watch" || query.contains("watch=") => return None,
        "GET" if named => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" if request.headers.iter().any(apply) => "apply",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => "other",
    })
}

/// Returns whether a watch begins with the existing objects and a bookmark at their end, so that an
/// event comes at once.
#[must_use]
pub fn informs(request: &Outgoing) -> bool {
    let asked = |parameter| request.uri.contains(parameter);
    asked("sendInitialEvents=true") && asked("allowWatchBookmarks=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("GET", "/apis/g/v", Some("discovery"))]
    #[case("GET", "/apis/g/v/things", Some("list"))]
    #[case("GET", "/apis/g/v/things/a", Some("get"))]
    #[case("GET", "/apis/g/v/namespaces/n/things?limit=1", Some("list"))]
    #[case("GET", "/apis/g/v/namespaces/n/things/a", Some("get"))]
    #[case("GET", "/apis/g/v/things?watch=1", None)]
    #[case("GET", "/apis/g/v/watch/things", None)]
    #[case("DELETE", "/apis/g/v/namespaces/n/things", Some("deletecollection"))]
    #[case("DELETE", "/apis/g/v/namespaces/n/things/a", Some("delete"))]
    #[case("POST", "/api/v1/namespaces/n/configmaps", None)]
    #[case("GET", "/apis/gg/v/things", None)]
    fn verbs(#[case] method: &str, #[case] uri: &str, #[case] expected: Option<&str>) {
        assert_eq!(verb(&Outgoing::new(method, uri), "g"), expected);
    }

    #[test]
    fn watches_of_informers() {
        let uri = "/apis/g/v/things?watch=1&sendInitialEvents=true&allowWatchBookmarks=true";
        assert!(informs(&Outgoing::get(uri)));
        assert!(!informs(&Outgoing::get("/apis/g/v/things?watch=1")));
        let unmarked = "/apis/g/v/things?watch=1&sendInitialEvents=true";
        assert!(!informs(&Outgoing::get(unmarked)));
    }

    #[test]
    fn means_and_medians() {
        let mut timing = Timing::default();
        for milliseconds in [2, 12, 4] {
            timing.add("get", Duration::from_millis(milliseconds));
        }
        let mut all = Timing::default();
        all.merge(&timing);
        assert!((all.mean()["get"] - 6.0).abs() < 1e-9);
        assert!((all.median()["get"] - 4.0).abs() < 1e-9);
    }
}
