//! The questions to the authorizer.

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::request_info::RequestInfo;
use fieldmanager::go::quote;

use super::user::UserInfo;

/// One question to the authorizer: may this user do this?
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// The user who asks.
    pub user: Arc<UserInfo>,
    /// Verb of the API, or the HTTP method in lower case for a path.
    pub verb: String,
    /// The target of the verb.
    pub target: Target,
}

/// The target of a verb.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An object or a collection.
    Resource(ResourceTarget),
    /// Anything else, by its path.
    Path(String),
}

impl Default for Target {
    fn default() -> Self {
        Self::Path(String::new())
    }
}

/// An object or a collection. An empty namespace or name means all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceTarget {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
}

impl Attributes {
    /// Returns the question that a request raises.
    ///
    /// Selectors are left out: an authorizer may only ever allow more on account of a selector, so
    /// without it the answer is at most stricter, and a list by label (Kyverno makes one for every
    /// report) does not cost a review of its own.
    #[must_use]
    pub fn of(info: &RequestInfo, user: Arc<UserInfo>) -> Self {
        let target = if info.is_resource_request {
            Target::Resource(ResourceTarget {
                group: info.api_group.clone(),
                version: info.version.clone(),
                resource: info.resource.clone(),
                subresource: info.subresource.clone(),
                namespace: info.namespace.clone(),
                name: info.name.clone(),
            })
        } else {
            Target::Path(info.path.clone())
        };
        Self {
            user,
            verb: info.verb.clone(),
            target,
        }
    }

    /// Returns the same question for every name, then for every namespace too; those that differ
    /// from this one, widest first.
    #[must_use]
    pub fn widened(&self) -> Vec<Self> {
        let Target::Resource(target) = &self.target else {
            return Vec::new();
        };
        let any_name = ResourceTarget {
            name: String::new(),
            ..target.clone()
        };
        let anywhere = ResourceTarget {
            namespace: String::new(),
            ..any_name.clone()
        };
        let mut wider = Vec::with_capacity(2);
        if anywhere != any_name {
            wider.push(anywhere);
        }
        if any_name != *target {
            wider.push(any_name);
        }
        wider
            .into_iter()
            .map(|t| Self {
                target: Target::Resource(t),
                ..self.clone()
            })
            .collect()
    }

    /// Returns the 403 for a refusal; `reason` is the authorizer's explanation, or empty.
    #[must_use]
    pub fn forbidden(&self, reason: &str) -> ApiError {
        let user = quote(&self.user.username);
        let mut why = match &self.target {
            Target::Path(path) => {
                format!("User {user} cannot {} path {}", self.verb, quote(path))
            }
            Target::Resource(target) => {
                let resource = if target.subresource.is_empty() {
                    target.resource.clone()
                } else {
                    format!("{}/{}", target.resource, target.subresource)
                };
                let place = if target.namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {}", quote(&target.namespace))
                };
                format!(
                    "User {user} cannot {} resource {} in API group {} {place}",
                    self.verb,
                    quote(&resource),
                    quote(&target.group),
                )
            }
        };
        // As the kube-apiserver does, so that no browser takes the text for a page.
        why = why
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match &self.target {
            Target::Path(_) => ApiError::forbidden("", "", "", &why),
            Target::Resource(target) => {
                ApiError::forbidden(&target.group, &target.resource, &target.name, &why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;

    fn attributes(method: &str, uri: &str) -> Attributes {
        let method: Method = method.parse().unwrap();
        let info = RequestInfo::parse(&method, &uri.parse().unwrap()).unwrap();
        let user = UserInfo {
            username: "u".to_owned(),
            ..UserInfo::default()
        };
        Attributes::of(&info, Arc::new(user))
    }

    #[rstest]
    #[case(
        "/apis/wgpolicyk8s.io/v1alpha2/namespaces/n/policyreports/x",
        "policyreports.wgpolicyk8s.io \"x\" is forbidden: User \"u\" cannot get resource \
         \"policyreports\" in API group \"wgpolicyk8s.io\" in the namespace \"n\""
    )]
    #[case(
        "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports",
        "clusterpolicyreports.wgpolicyk8s.io is forbidden: User \"u\" cannot list resource \
         \"clusterpolicyreports\" in API group \"wgpolicyk8s.io\" at the cluster scope"
    )]
    #[case("/metrics", "forbidden: User \"u\" cannot get path \"/metrics\"")]
    #[case("/a<b", "forbidden: User \"u\" cannot get path \"/a&lt;b\"")]
    fn refusals_read_as_in_the_kube_apiserver(#[case] uri: &str, #[case] expected: &str) {
        let uri = uri.replace('<', "%3C");
        assert_eq!(attributes("GET", &uri).forbidden("").to_string(), expected);
    }

    #[test]
    fn the_authorizers_reason_follows_the_refusal() {
        let error = attributes("GET", "/metrics").forbidden("no rule");
        assert_eq!(
            error.to_string(),
            "forbidden: User \"u\" cannot get path \"/metrics\": no rule"
        );
    }

    #[rstest]
    #[case("/apis/g/v1/namespaces/n/reports/x", &[("", ""), ("n", "")])]
    #[case("/apis/g/v1/namespaces/n/reports", &[("", "")])]
    #[case("/apis/g/v1/reports/x", &[("", "")])]
    #[case("/apis/g/v1/reports", &[])]
    #[case("/apis", &[])]
    fn widens_name_and_namespace(#[case] uri: &str, #[case] expected: &[(&str, &str)]) {
        let wider = attributes("GET", uri).widened();
        let places: Vec<_> = wider
            .iter()
            .map(|attributes| match &attributes.target {
                Target::Resource(target) => (target.namespace.as_str(), target.name.as_str()),
                Target::Path(_) => panic!("a path was widened"),
            })
            .collect();
        assert_eq!(places, expected);
    }
}
