//! Operators of other installations. The Lease decides between the pods of one installation, and each
//! installation has one of its own, in its namespace.

use std::collections::HashMap;

use crds::names::ANNOTATION_OPERATOR_ACCOUNT;
use crds::v1alpha1::ReportsServer;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::debug;

use super::may_claim;

/// The other installations, as their Leases tell of them.
pub(super) struct Rivals {
    client: Client,
    /// Namespace of this installation.
    namespace: String,
    /// Name of every installation's Lease.
    name: String,
    /// By namespace.
    seen: HashMap<String, Seen>,
}

/// A Lease as it was last seen to change.
struct Seen {
    record: LeaseSpec,
    /// Local time at which it was first seen like this.
    since: Instant,
    /// It has changed since it was first seen: somebody renews it.
    renewed: bool,
}

impl Seen {
    /// Returns whether the Lease has a holder that has not let it expire: nobody else could claim it.
    fn is_alive(&self) -> bool {
        !may_claim(Some(&self.record), "", self.since.elapsed())
    }
}

/// The state of the cluster that a look sees.
#[derive(Clone, Copy)]
pub(super) enum View {
    /// The one that the kube-apiserver has in memory: for looks that are repeated while this operator waits.
    Any,
    /// The newest.
    Newest,
}

impl Rivals {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            seen: HashMap::new(),
        }
    }

    /// Returns the namespace of an operator that has the rights of one, and may lead: its Lease has a
    /// holder, and was not seen unchanged for as long as it lasts.
    ///
    /// # Errors
    /// If the cluster does not answer. Where this operator may not ask, there is no rival.
    pub(super) async fn any(&mut self, view: View) -> Result<Option<String>, kube::Error> {
        self.find(view, |_| true).await
    }

    /// Returns the namespace of an operator that has the rights of one, and was seen to renew its Lease.
    ///
    /// # Errors
    /// As [`Self::any`].
    pub(super) async fn renewing(&mut self) -> Result<Option<String>, kube::Error> {
        self.find(View::Newest, |seen| seen.renewed).await
    }

    async fn find(
        &mut self,
        view: View,
        counts: fn(&Seen) -> bool,
    ) -> Result<Option<String>, kube::Error> {
        let all = Api::<Lease>::all(self.client.clone());
        let named = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let params = match view {
            View::Any => named.match_any(),
            View::Newest => named,
        };
        let leases = match all.list(&params).await {
            Ok(leases) => leases.items,
            Err(error) => return unless_forbidden(error).map(|()| None),
        };
        self.note(&leases);
        for lease in &leases {
            let namespace = lease.namespace().unwrap_or_default();
            let seen = self.seen.get(&namespace);
            if seen.is_some_and(|seen| seen.is_alive() && counts(seen))
                && self.is_operator(lease).await?
            {
                return Ok(Some(namespace));
            }
        }
        Ok(None)
    }

    /// Notes the Leases of other namespaces, and forgets those that are gone.
    fn note(&mut self, leases: &[Lease]) {
        let mut before = std::mem::take(&mut self.seen);
        for lease in leases {
            let namespace = lease.namespace().unwrap_or_default();
            if namespace == self.namespace {
                continue;
            }
            let record = lease.spec.clone().unwrap_or_default();
            let seen = match before.remove(&namespace) {
                Some(seen) if seen.record == record => seen,
                known => Seen {
                    record,
                    since: Instant::now(),
                    renewed: known.is_some(),
                },
            };
            self.seen.insert(namespace, seen);
        }
    }

    /// Returns whether the account that a Lease names may do what an operator does. Anybody who may
    /// make Leases in a namespace of theirs could stop every operator otherwise.
    async fn is_operator(&self, lease: &Lease) -> Result<bool, kube::Error> {
        let account = lease.annotations().get(ANNOTATION_OPERATOR_ACCOUNT);
        let account = account.map_or(self.name.as_str(), String::as_str);
        let review = review(&lease.namespace().unwrap_or_default(), account);
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        match reviews.create(&PostParams::default(), &review).await {
            Ok(review) => Ok(review.status.is_some_and(|status| status.allowed)),
            Err(error) => unless_forbidden(error).map(|()| false),
        }
    }
}

/// Returns the question whether an account may write the status of every `ReportsServer`.
fn review(namespace: &str, account: &str) -> SubjectAccessReview {
    let groups = [
        "system:authenticated".to_owned(),
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ];
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{account}")),
            groups: Some(groups.into()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(ReportsServer::group(&()).into_owned()),
                resource: Some(ReportsServer::plural(&()).into_owned()),
                subresource: Some("status".to_owned()),
                verb: Some("patch".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// Passes an error on, but for a right that this operator does not have.
fn unless_forbidden(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            debug!(%status, "operators of other installations cannot be looked for");
            Ok(())
        }
        error => Err(error),
    }
}
