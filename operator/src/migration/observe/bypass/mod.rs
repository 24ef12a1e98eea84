//! The objects by which a cluster decides about writes of reports and which have no effect once the
//! server answers for them: the kube-apiserver runs no admission for requests that it passes on to
//! another API server. Pure: matches rules against resources, as the kube-apiserver does.

pub mod read;
pub mod rules;

use crds::names::ANNOTATION_ACCEPT_BYPASS;
use k8s_openapi::api::core::v1::ResourceQuotaSpec;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

use self::rules::{Binding, Policy, Request, Requests, Scope, Webhooks};

/// The number of objects that are named.
const NAMED: usize = 10;

/// The kind of an object that decides about writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A `ValidatingAdmissionPolicy` that is bound.
    ValidatingPolicy,
    /// A `MutatingAdmissionPolicy` that is bound.
    MutatingPolicy,
    /// A `ValidatingWebhookConfiguration`.
    ValidatingWebhook,
    /// A `MutatingWebhookConfiguration`.
    MutatingWebhook,
    /// A `ResourceQuota` that counts objects.
    Quota,
}

impl Kind {
    /// Returns the kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ValidatingPolicy => "ValidatingAdmissionPolicy",
            Self::MutatingPolicy => "MutatingAdmissionPolicy",
            Self::ValidatingWebhook => "ValidatingWebhookConfiguration",
            Self::MutatingWebhook => "MutatingWebhookConfiguration",
            Self::Quota => "ResourceQuota",
        }
    }
}

/// One object whose rules match reports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ruling {
    /// True when no rule that matches names the group: it is meant for everything, perhaps not for
    /// reports. These are named last.
    any_group: bool,
    kind: Kind,
    namespace: String,
    name: String,
}

impl std::fmt::Display for Ruling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind.as_str())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)?;
        if self.any_group {
            f.write_str(" (a rule for every API group)")?;
        }
        Ok(())
    }
}

/// The objects that have no effect on reports of one group while the server answers for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// The number of these objects.
    pub count: usize,
    /// The first of them, as `Kind name` or `Kind namespace/name`; those that name the group come
    /// before those that match every group.
    pub named: Vec<String>,
}

impl Bypass {
    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn new(mut all: Vec<Ruling>) -> Self {
        all.sort();
        Self {
            count: all.len(),
            named: all.iter().take(NAMED).map(Ruling::to_string).collect(),
        }
    }
}

impl std::fmt::Display for Bypass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.named.join(", "))?;
        match self.count.saturating_sub(self.named.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The policies, bindings and rulings that were found while the objects of a cluster are listed, of
/// each kind in any order.
#[derive(Debug, Default)]
pub struct Found {
    policies: Vec<(Kind, DynamicObject)>,
    bindings: Vec<(Kind, DynamicObject)>,
    rulings: Vec<Ruling>,
}

impl Found {
    /// Takes in an object. Where it `binds` a policy, `kind` is that of the policy.
    pub fn add(&mut self, requests: &Requests, kind: Kind, binds: bool, object: DynamicObject) {
        match kind {
            Kind::ValidatingPolicy | Kind::MutatingPolicy if binds => {
                self.bindings.push((kind, object));
            }
            Kind::ValidatingPolicy | Kind::MutatingPolicy => self.policies.push((kind, object)),
            Kind::ValidatingWebhook | Kind::MutatingWebhook => {
                let webhooks = serde_json::from_value::<Webhooks>(object.data.clone()).ok();
                let matched = webhooks.and_then(|webhooks| requests.scope(|r| webhooks.covers(r)));
                self.rulings.extend(ruling(kind, &object, matched));
            }
            Kind::Quota => {
                let spec: Option<ResourceQuotaSpec> = part(&object, "spec");
                let hard = spec.and_then(|spec| spec.hard).unwrap_or_default();
                let matched = requests.counts().any(|count| hard.contains_key(&count));
                let matched = matched.then_some(Scope::Group);
                self.rulings.extend(ruling(kind, &object, matched));
            }
        }
    }

    /// Returns the objects that match, once all are taken in.
    #[must_use]
    pub fn finish(self, requests: &Requests) -> Bypass {
        let Self {
            policies,
            bindings,
            mut rulings,
        } = self;
        let bindings: Vec<(Kind, Binding)> = bindings
            .iter()
            .filter_map(|(kind, binding)| Some((*kind, part(binding, "spec")?)))
            .collect();
        for (kind, object) in policies {
            let Some(policy) = part::<Policy>(&object, "spec") else {
                continue;
            };
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let bound = |request: &Request| {
                let mut bindings = bindings.iter();
                bindings.any(|(of, binding)| {
                    *of == kind && binding.policy_name == name && binding.covers(request)
                })
            };
            let covers = |request: &Request| policy.covers(request).filter(|_| bound(request));
            rulings.extend(ruling(kind, &object, requests.scope(covers)));
        }
        Bypass::new(rulings)
    }
}

/// Returns the entry for an object that matched, unless its owner says that it need not have an
/// effect.
fn ruling(kind: Kind, object: &DynamicObject, matched: Option<Scope>) -> Option<Ruling> {
    let annotations = object.metadata.annotations.as_ref();
    let accepted = annotations.and_then(|all| all.get(ANNOTATION_ACCEPT_BYPASS));
    if accepted.is_some_and(|value| value == "true") {
        return None;
    }
    Some(Ruling {
        any_group: matched? == Scope::Everything,
        kind,
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    })
}

/// Returns one member of the content of an object; nothing where it is not what the API promises.
fn part<T: DeserializeOwned>(object: &DynamicObject, member: &str) -> Option<T> {
    serde_json::from_value(object.data.get(member)?.clone()).ok()
}

#[cfg(test)]
mod tests;
