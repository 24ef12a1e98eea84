//! Lists the objects that decide about writes.

use std::time::Duration;

use crds::v1alpha1::reasons;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;

use super::rules::Requests;
use super::{Bypass, Found, Kind};
use crate::migration::report::status::Problem;
use crate::said::{is_forbidden, said};

/// Objects in a page of a list.
const PAGE: u32 = 500;
/// The time for which all lists together are tried.
const PATIENCE: Duration = Duration::from_secs(20);
/// The API group of policies and webhooks.
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Objects of one resource that are listed.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural name.
    pub plural: &'static str,
    /// Versions in which a cluster may serve it; the first that it serves is read.
    versions: &'static [&'static str],
    /// The kind, or that of the policy which is bound.
    of: Kind,
    /// True for bindings.
    binds: bool,
}

impl Source {
    const fn admission(plural: &'static str, of: Kind, binds: bool) -> Self {
        Self {
            group: ADMISSION,
            plural,
            versions: &["v1"],
            of,
            binds,
        }
    }

    /// Since Kubernetes 1.36 in `v1`; some clusters have it as beta.
    const fn mutating(plural: &'static str, binds: bool) -> Self {
        Self {
            versions: &["v1", "v1beta1"],
            ..Self::admission(plural, Kind::MutatingPolicy, binds)
        }
    }

    fn resource(&self, version: &str) -> ApiResource {
        let suffix = if self.binds { "Binding" } else { "" };
        let kind = format!("{}{suffix}", self.of.as_str());
        let kind = GroupVersionKind::gvk(self.group, version, &kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }
}

/// All that is listed.
pub const SOURCES: [Source; 7] = [
    Source::admission("validatingadmissionpolicies", Kind::ValidatingPolicy, false),
    Source::admission(
        "validatingadmissionpolicybindings",
        Kind::ValidatingPolicy,
        true,
    ),
    Source::mutating("mutatingadmissionpolicies", false),
    Source::mutating("mutatingadmissionpolicybindings", true),
    Source::admission(
        "validatingwebhookconfigurations",
        Kind::ValidatingWebhook,
        false,
    ),
    Source::admission(
        "mutatingwebhookconfigurations",
        Kind::MutatingWebhook,
        false,
    ),
    Source {
        group: "",
        plural: "resourcequotas",
        versions: &["v1"],
        of: Kind::Quota,
        binds: false,
    },
];

/// The reason why it is not known what has no effect on reports.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A list fails.
    #[error("cannot list {plural}: {}", said(.source))]
    List {
        /// Plural name of what was listed.
        plural: &'static str,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// The lists take too long.
    #[error(
        "the kube-apiserver did not list policies, webhooks and quotas within {} s",
        PATIENCE.as_secs()
    )]
    Timeout,
}

impl ReadError {
    /// Returns the problem for the status.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::List { source, .. } if is_forbidden(source) => Problem::forbidden(self),
            Self::List { .. } | Self::Timeout => Problem {
                reason: reasons::PROGRESSING,
                message: self.to_string(),
                stalled: false,
            },
        }
    }
}

/// Reads the objects that have no effect on `requests` while the server answers them.
///
/// # Errors
/// See [`ReadError`].
pub async fn read(client: &kube::Client, requests: &Requests) -> Result<Bypass, ReadError> {
    let read = tokio::time::timeout(PATIENCE, read_all(client, requests)).await;
    read.unwrap_or(Err(ReadError::Timeout))
}

async fn read_all(client: &kube::Client, requests: &Requests) -> Result<Bypass, ReadError> {
    let mut found = Found::default();
    for source in &SOURCES {
        let listed = list(client, source, requests, &mut found).await;
        listed.map_err(|error| ReadError::List {
            plural: source.plural,
            source: Box::new(error),
        })?;
    }
    Ok(found.finish(requests))
}

/// Lists a resource in the first version in which it is served; where it is not served at all, there
/// is none.
async fn list(
    client: &kube::Client,
    source: &Source,
    requests: &Requests,
    found: &mut Found,
) -> Result<(), kube::Error> {
    for version in source.versions {
        let resource = source.resource(version);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match pages(&api, source, requests, found).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            listed => return listed,
        }
    }
    Ok(())
}

async fn pages(
    api: &Api<DynamicObject>,
    source: &Source,
    requests: &Requests,
    found: &mut Found,
) -> Result<(), kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        for object in page.items {
            found.add(requests, source.of, source.binds, object);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Server, pair};

    const EMPTY: &str = "";

    fn requests() -> Requests {
        let mut requests = Requests::new("a.example");
        requests.add("reports", true, ["v1".to_owned()].iter());
        requests
    }

    fn quotas(namespace: &str, token: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ResourceQuotaList", "metadata": {"continue": token},
            "items": [{"metadata": {"name": "q", "namespace": namespace},
                "spec": {"hard": {"count/reports.a.example": "5"}}}]})
    }

    fn policies() -> Value {
        let rule = json!({"apiGroups": ["a.example"], "apiVersions": ["v1"],
            "resources": ["reports"], "operations": ["UPDATE"], "scope": "*"});
        json!({"metadata": {}, "items": [{"metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": [rule]}}}]})
    }

    fn bindings() -> Value {
        json!({"metadata": {}, "items": [{"metadata": {"name": "b"}, "spec": {"policyName": "p"}}]})
    }

    /// Answers as a cluster does whose mutating policies are beta; gives the paths.
    async fn beta(server: &mut Server) -> Vec<String> {
        let mut paths = Vec::new();
        while let Some(request) = server.next_if_any().await {
            let uri = request.path.clone();
            let (path, query) = uri.split_once('?').unwrap_or((&uri, EMPTY));
            paths.push(path.to_owned());
            match path.trim_start_matches("/apis/admissionregistration.k8s.io/") {
                "v1beta1/mutatingadmissionpolicies" => request.answer(200, &policies()),
                "v1beta1/mutatingadmissionpolicybindings" => request.answer(200, &bindings()),
                path if path.starts_with("v1/mutatingadmission") => request.refuse(404, "NotFound"),
                "/api/v1/resourcequotas" if query.contains("continue=") => {
                    request.answer(200, &quotas("second", EMPTY));
                }
                "/api/v1/resourcequotas" => request.answer(200, &quotas("first", "next")),
                _ => request.answer(200, &json!({"metadata": {}, "items": []})),
            }
        }
        paths
    }

    #[tokio::test]
    async fn every_page_is_read_and_each_resource_in_the_version_that_is_served() {
        let (client, mut server) = pair();
        let task = tokio::spawn(async move { read(&client, &requests()).await });
        let paths = beta(&mut server).await;
        let expected = [
            "MutatingAdmissionPolicy p",
            "ResourceQuota first/q",
            "ResourceQuota second/q",
        ];
        assert_eq!(task.await.unwrap().unwrap().named, expected);
        // Two are asked for twice, because of their version, and one because of its pages.
        assert_eq!(paths.len(), SOURCES.len() + 3, "{paths:?}");
    }

    #[tokio::test]
    async fn a_missing_right_is_named_and_no_trouble_of_the_moment() {
        for (code, reason, stalled) in [
            (403, reasons::FORBIDDEN, true),
            (500, reasons::PROGRESSING, false),
        ] {
            let (client, mut server) = pair();
            let task = tokio::spawn(async move { read(&client, &requests()).await });
            server.refuse_all(code, "no").await;
            let problem = task.await.unwrap().unwrap_err().problem();
            assert_eq!((problem.reason, problem.stalled), (reason, stalled));
            let words = &problem.message;
            assert!(words.contains("validatingadmissionpolicies"), "{words}");
        }
    }
}
