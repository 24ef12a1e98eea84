//! What a request is about, read off its method, path and query.
//!
//! The rules are those of `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`, restricted to
//! the prefix `/apis` (an aggregated server has no core group). The kube-apiserver authorizes a
//! request by its own reading of the path, so this reading must not differ from it.

use http::Method;
use percent_encoding::percent_decode_str;

/// A request that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestInfoError {
    /// A percent-escape that is not UTF-8.
    #[error("the path of the request is not valid UTF-8")]
    PathNotUtf8,
    /// `/apis/<group>/<version>/watch` with nothing behind it.
    #[error("unable to determine kind and namespace from url, {0}")]
    Incomplete(String),
}

/// Decoded query parameters in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the part of a URL behind `?`.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        Self(
            form_urlencoded::parse(raw.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// The first value of a parameter, as Go's `url.Values.Get` (but told apart from absence).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean parameter as the API's query conversion reads it: absent, `false` and `0` are
    /// false, everything else (an empty value too) is true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// All parameters in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// For a resource one of get, list, watch, create, update, patch, delete, deletecollection
    /// (empty for a method that means nothing); else the method in lower case.
    pub verb: String,
    /// API group; empty for anything that is not a resource.
    pub api_group: String,
    /// Version of the API group.
    pub version: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name of the object; for list and watch also the name that a field selector demands.
    pub name: String,
    /// False for discovery, OpenAPI, health and everything else that is not below
    /// `/apis/<group>/<version>/`.
    pub is_resource_request: bool,
    /// Path parts from the resource on: `[resource, name, subresource, …]`.
    pub parts: Vec<String>,
    /// Decoded path.
    pub path: String,
    /// Decoded query.
    pub query: Query,
}

impl RequestInfo {
    /// Reads a request.
    ///
    /// # Errors
    /// [`RequestInfoError`]; the caller answers with 400.
    pub fn parse(method: &Method, uri: &http::Uri) -> Result<Self, RequestInfoError> {
        let path = percent_decode_str(uri.path())
            .decode_utf8()
            .map_err(|_| RequestInfoError::PathNotUtf8)?
            .into_owned();
        let mut info = Self {
            verb: method.as_str().to_ascii_lowercase(),
            query: Query::parse(uri.query().unwrap_or_default()),
            ..Self::default()
        };
        let parts = split_path(&path);
        if let ["apis", group, version, rest @ ..] = parts.as_slice()
            && !rest.is_empty()
        {
            info.is_resource_request = true;
            (*group).clone_into(&mut info.api_group);
            (*version).clone_into(&mut info.version);
            info.read_resource(method, rest, &path)?;
        }
        info.path = path;
        Ok(info)
    }

    /// Reads what follows `/apis/<group>/<version>/`.
    fn read_resource(
        &mut self,
        method: &Method,
        parts: &[&str],
        path: &str,
    ) -> Result<(), RequestInfoError> {
        let (verb, mut parts) = match parts {
            // The verb in the path is the deprecated way to ask for a watch.
            ["watch" | "proxy"] => {
                return Err(RequestInfoError::Incomplete(path.to_owned()));
            }
            [special @ ("watch" | "proxy"), rest @ ..] => (*special, rest),
            parts => (verb_of(method), parts),
        };
        verb.clone_into(&mut self.verb);
        if let ["namespaces", namespace, rest @ ..] = parts {
            (*namespace).clone_into(&mut self.namespace);
            if !matches!(rest, [] | ["status" | "finalize", ..]) {
                parts = rest;
            }
        }
        let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
        self.resource = part(0);
        self.name = part(1);
        if !matches!(verb, "watch" | "proxy") {
            self.subresource = part(2);
        }
        self.parts = parts.iter().map(|part| (*part).to_owned()).collect();
        if self.name.is_empty() {
            self.read_collection_verb();
        }
        Ok(())
    }

    /// Without a name a get is a list or a watch, and a delete is a deletecollection.
    fn read_collection_verb(&mut self) {
        match self.verb.as_str() {
            "get" => {
                let verb = if self.query.flag("watch") {
                    "watch"
                } else {
                    "list"
                };
                verb.clone_into(&mut self.verb);
                let name = self.query.get("fieldSelector").and_then(exact_name);
                self.name = name.unwrap_or_default().to_owned();
            }
            "delete" => "deletecollection".clone_into(&mut self.verb),
            _ => {}
        }
    }

    /// Whether the answer is a stream without an end of its own, which no deadline or limit on
    /// requests in flight applies to.
    #[must_use]
    pub fn is_long_running(&self) -> bool {
        self.is_resource_request && self.verb == "watch"
    }

    /// Whether the request may change something: the kube-apiserver's division for its limits.
    #[must_use]
    pub fn is_mutating(&self) -> bool {
        !matches!(
            self.verb.as_str(),
            "get" | "list" | "watch" | "head" | "options"
        )
    }
}

fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Parts of a path, without the slashes at its ends; empty parts within stay.
fn split_path(path: &str) -> Vec<&str> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        Vec::new()
    } else {
        path.split('/').collect()
    }
}

/// The name that a field selector pins down by `metadata.name=x`, when it is a legal path segment.
fn exact_name(selector: &str) -> Option<&str> {
    let name = selector.split(',').find_map(|term| {
        let value = term.trim().strip_prefix("metadata.name")?;
        let value = value
            .strip_prefix("==")
            .or_else(|| value.strip_prefix('='))?;
        Some(value)
    })?;
    let legal = !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '%', '\\', '=', '!']);
    legal.then_some(name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        RequestInfo::parse(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap()
    }

    /// Cases of `requestinfo_test.go`, moved to a named group, and those of the report clients.
    /// Expected: verb, namespace, resource, subresource, name.
    #[rstest]
    #[case("GET", "/apis/g/v1/namespaces", "list", "", "namespaces", "", "")]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/other",
        "get",
        "other",
        "namespaces",
        "",
        "other"
    )]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/other/reports",
        "list",
        "other",
        "reports",
        "",
        ""
    )]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/other/reports/foo",
        "get",
        "other",
        "reports",
        "",
        "foo"
    )]
    #[case(
        "HEAD",
        "/apis/g/v1/namespaces/other/reports/foo",
        "get",
        "other",
        "reports",
        "",
        "foo"
    )]
    #[case("GET", "/apis/g/v1/reports", "list", "", "reports", "", "")]
    #[case("HEAD", "/apis/g/v1/reports", "list", "", "reports", "", "")]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/other/reports/foo/status",
        "get",
        "other",
        "reports",
        "status",
        "foo"
    )]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/other/status",
        "get",
        "other",
        "namespaces",
        "status",
        "other"
    )]
    #[case("GET", "/apis/g/v1/watch/reports", "watch", "", "reports", "", "")]
    #[case(
        "GET",
        "/apis/g/v1/watch/namespaces/other/reports/foo/x",
        "watch",
        "other",
        "reports",
        "",
        "foo"
    )]
    #[case("GET", "/apis/g/v1/reports?watch=true", "watch", "", "reports", "", "")]
    #[case("GET", "/apis/g/v1/reports?watch=1", "watch", "", "reports", "", "")]
    #[case("GET", "/apis/g/v1/reports?watch=", "watch", "", "reports", "", "")]
    #[case(
        "GET",
        "/apis/g/v1/reports?watch=anything",
        "watch",
        "",
        "reports",
        "",
        ""
    )]
    #[case("GET", "/apis/g/v1/reports?watch=false", "list", "", "reports", "", "")]
    #[case("GET", "/apis/g/v1/reports?watch=False", "list", "", "reports", "", "")]
    #[case("GET", "/apis/g/v1/reports?watch=0", "list", "", "reports", "", "")]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/a/reports/x?watch=true",
        "get",
        "a",
        "reports",
        "",
        "x"
    )]
    #[case(
        "GET",
        "/apis/g/v1/reports?fieldSelector=metadata.name%3Dfoo",
        "list",
        "",
        "reports",
        "",
        "foo"
    )]
    #[case(
        "GET",
        "/apis/g/v1/reports?watch=1&fieldSelector=metadata.namespace%3Da,metadata.name%3D%3Dfoo",
        "watch",
        "",
        "reports",
        "",
        "foo"
    )]
    #[case(
        "GET",
        "/apis/g/v1/reports?fieldSelector=metadata.name!%3Dfoo",
        "list",
        "",
        "reports",
        "",
        ""
    )]
    #[case(
        "GET",
        "/apis/g/v1/reports?fieldSelector=metadata.name%3Da/b",
        "list",
        "",
        "reports",
        "",
        ""
    )]
    #[case(
        "GET",
        "/apis/g/v1/reports?fieldSelector=metadata.name%3D",
        "list",
        "",
        "reports",
        "",
        ""
    )]
    #[case(
        "POST",
        "/apis/g/v1/namespaces/a/reports",
        "create",
        "a",
        "reports",
        "",
        ""
    )]
    #[case(
        "POST",
        "/apis/g/v1/namespaces/a/reports/x",
        "create",
        "a",
        "reports",
        "",
        "x"
    )]
    #[case(
        "PUT",
        "/apis/g/v1/namespaces/a/reports/x",
        "update",
        "a",
        "reports",
        "",
        "x"
    )]
    #[case(
        "PATCH",
        "/apis/g/v1/namespaces/a/reports/x",
        "patch",
        "a",
        "reports",
        "",
        "x"
    )]
    #[case(
        "DELETE",
        "/apis/g/v1/namespaces/a/reports/x",
        "delete",
        "a",
        "reports",
        "",
        "x"
    )]
    #[case(
        "DELETE",
        "/apis/g/v1/namespaces/a/reports",
        "deletecollection",
        "a",
        "reports",
        "",
        ""
    )]
    #[case(
        "DELETE",
        "/apis/g/v1/namespaces/a/reports/",
        "deletecollection",
        "a",
        "reports",
        "",
        ""
    )]
    #[case(
        "OPTIONS",
        "/apis/g/v1/namespaces/a/reports/x",
        "",
        "a",
        "reports",
        "",
        "x"
    )]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/a/reports/x%20y",
        "get",
        "a",
        "reports",
        "",
        "x y"
    )]
    #[case(
        "GET",
        "/apis/g/v1/namespaces/a/reports/x%2Fy",
        "get",
        "a",
        "reports",
        "y",
        "x"
    )]
    fn reads_resource_requests(
        #[case] method: &str,
        #[case] uri: &str,
        #[case] verb: &str,
        #[case] namespace: &str,
        #[case] resource: &str,
        #[case] subresource: &str,
        #[case] name: &str,
    ) {
        let info = parse(method, uri);
        assert!(info.is_resource_request);
        assert_eq!(
            (info.api_group.as_str(), info.version.as_str()),
            ("g", "v1")
        );
        assert_eq!(
            (
                info.verb.as_str(),
                info.namespace.as_str(),
                info.resource.as_str(),
                info.subresource.as_str(),
                info.name.as_str()
            ),
            (verb, namespace, resource, subresource, name)
        );
    }

    #[rstest]
    #[case("GET", "/", "get")]
    #[case("GET", "/apis", "get")]
    #[case("GET", "/apis/g", "get")]
    #[case("GET", "/apis/g/v1", "get")]
    #[case("POST", "/apis/g/v1/", "post")]
    #[case("GET", "/openapi/v3/apis/g/v1", "get")]
    #[case("GET", "/api/v1/pods", "get")]
    fn reads_other_requests(#[case] method: &str, #[case] uri: &str, #[case] verb: &str) {
        let info = parse(method, uri);
        assert!(!info.is_resource_request);
        assert_eq!((info.verb.as_str(), info.path.as_str()), (verb, uri));
        assert_eq!((info.resource.as_str(), info.api_group.as_str()), ("", ""));
    }

    #[test]
    fn refuses_what_cannot_be_read() {
        let read = |uri: &str| RequestInfo::parse(&Method::GET, &uri.parse().unwrap());
        assert_eq!(
            read("/apis/g/v1/watch"),
            Err(RequestInfoError::Incomplete("/apis/g/v1/watch".to_owned()))
        );
        assert_eq!(read("/apis/%ff"), Err(RequestInfoError::PathNotUtf8));
    }

    #[test]
    fn keeps_repeated_query_values_in_order() {
        let query = Query::parse("dryRun=All&x=1&dryRun=b%20c&empty");
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "b c"]);
        assert_eq!(query.get("empty"), Some(""));
        assert_eq!(query.get("none"), None);
        assert!(query.flag("empty") && !query.flag("none"));
    }

    #[test]
    fn only_watches_run_long_and_only_writes_mutate() {
        assert!(parse("GET", "/apis/g/v1/reports?watch=1").is_long_running());
        assert!(!parse("GET", "/apis/g/v1/reports").is_long_running());
        assert!(!parse("GET", "/apis/g/v1?watch=1").is_long_running());
        assert!(parse("DELETE", "/apis/g/v1/reports").is_mutating());
        assert!(!parse("HEAD", "/apis/g/v1/reports").is_mutating());
    }
}
