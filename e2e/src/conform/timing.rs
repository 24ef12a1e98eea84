//! How long requests take, by verb.

use std::{collections::BTreeMap, time::Duration};

use crate::serving::request::Outgoing;

/// Sums by verb.
#[derive(Clone, Debug, Default)]
pub struct Timing(BTreeMap<&'static str, (u32, Duration)>);

impl Timing {
    /// Adds one request.
    pub fn add(&mut self, verb: &'static str, time: Duration) {
        let sum = self.0.entry(verb).or_default();
        sum.0 += 1;
        sum.1 += time;
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (verb, (count, time)) in &other.0 {
            let sum = self.0.entry(verb).or_default();
            sum.0 += count;
            sum.1 += *time;
        }
    }

    /// Mean milliseconds by verb.
    #[must_use]
    pub fn milliseconds(&self) -> BTreeMap<&'static str, f64> {
        let mean =
            |(count, time): &(u32, Duration)| time.as_secs_f64() * 1000.0 / f64::from(*count);
        self.0
            .iter()
            .map(|(verb, sum)| (*verb, mean(sum)))
            .collect()
    }
}

/// What a request does, in Kubernetes' words.
#[must_use]
pub fn verb(request: &Outgoing) -> &'static str {
    let (path, query) = request.uri.split_once('?').unwrap_or((&request.uri, ""));
    // /apis/G/V/PLURAL or /apis/G/V/namespaces/N/PLURAL
    let parts = path.split('/').skip(4).collect::<Vec<_>>();
    let named = match parts.first() {
        Some(&"namespaces") => parts.len() > 3,
        _ => parts.len() > 1,
    };
    let apply = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-type") && value.starts_with("application/apply-patch")
    };
    match request.method.as_str() {
        "GET" if query.contains("watch=") => "watch",
        "GET" if named => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" if request.headers.iter().any(apply) => "apply",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("GET", "/apis/g/v/things", "list")]
    #[case("GET", "/apis/g/v/things/a", "get")]
    #[case("GET", "/apis/g/v/namespaces/n/things?limit=1", "list")]
    #[case("GET", "/apis/g/v/namespaces/n/things/a", "get")]
    #[case("GET", "/apis/g/v/things?watch=1", "watch")]
    #[case("DELETE", "/apis/g/v/namespaces/n/things", "deletecollection")]
    #[case("DELETE", "/apis/g/v/namespaces/n/things/a", "delete")]
    fn verbs(#[case] method: &str, #[case] uri: &str, #[case] expected: &str) {
        assert_eq!(verb(&Outgoing::new(method, uri)), expected);
    }

    #[test]
    fn sums_are_means() {
        let mut timing = Timing::default();
        timing.add("get", Duration::from_millis(2));
        timing.add("get", Duration::from_millis(4));
        let mut all = Timing::default();
        all.merge(&timing);
        assert!((all.milliseconds()["get"] - 3.0).abs() < 1e-9);
    }
}
