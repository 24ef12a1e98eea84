//! The information about a request, read from its method, path and query.
//!
//! The rules are those of `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`, restricted to
//! the prefix `/apis` (an aggregated server has no core group). The kube-apiserver authorizes a
//! request by its own reading of the path, so this reading must not differ from it.

mod query;
#[cfg(test)]
mod tests;

use http::Method;
use percent_encoding::percent_decode_str;

pub use query::Query;

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

/// The information about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The verb: for a resource one of get, list, watch, create, update, patch, delete,
    /// deletecollection (empty for a method that means nothing); else the method in lower case.
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

    /// Reads the parts after `/apis/<group>/<version>/`.
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

    /// Reads the verb of a collection: without a name a get is a list or a watch, and a delete is a
    /// deletecollection.
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

    /// Returns whether the answer is a stream without an end of its own, which no deadline or limit
    /// on requests in flight applies to.
    #[must_use]
    pub fn is_long_running(&self) -> bool {
        self.is_resource_request && self.verb == "watch"
    }

    /// Returns whether the request may change something: the kube-apiserver's division for its
    /// limits.
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

/// Returns the parts of a path, without the slashes at its ends; empty parts within stay.
fn split_path(path: &str) -> Vec<&str> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        Vec::new()
    } else {
        path.split('/').collect()
    }
}

/// Returns the name that a field selector demands by `metadata.name=x`, when it is a legal path
/// segment.
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
