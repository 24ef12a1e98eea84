//! Rules of admission, matched as the kube-apiserver matches them
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules`). Conditions and selectors of
//! objects are not evaluated: what could match counts.

use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use serde::Deserialize;

/// Operations of a write. There is no CONNECT to a report.
const OPERATIONS: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];
/// The word that stands for everything in a rule.
const ALL: &str = "*";

/// A kind of write that the server would answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    group: String,
    version: String,
    resource: String,
    namespaced: bool,
    operation: &'static str,
}

/// The reach of a rule that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// It names the API group.
    Group,
    /// It is for every API group.
    Everything,
}

/// All kinds of writes to the resources of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    group: String,
    all: Vec<Request>,
}

impl Requests {
    /// Returns none yet, for the resources of `group`.
    #[must_use]
    pub fn new(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            all: Vec::new(),
        }
    }

    /// Adds the writes to a resource.
    pub fn add<'a>(
        &mut self,
        resource: &str,
        namespaced: bool,
        versions: impl Iterator<Item = &'a String>,
    ) {
        for version in versions {
            let requests = OPERATIONS.map(|operation| Request {
                group: self.group.clone(),
                version: version.clone(),
                resource: resource.to_owned(),
                namespaced,
                operation,
            });
            self.all.extend(requests);
        }
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns how far an object reaches that covers some of these writes, each as `covers` says;
    /// the nearest wins.
    #[must_use]
    pub fn scope(&self, covers: impl Fn(&Request) -> Option<Scope>) -> Option<Scope> {
        self.all.iter().filter_map(covers).min()
    }

    /// Returns the names by which a quota counts the objects.
    pub fn counts(&self) -> impl Iterator<Item = String> {
        let namespaced = self.all.iter().filter(|request| request.namespaced);
        namespaced.map(|request| format!("count/{}.{}", request.resource, request.group))
    }
}

/// The specification of a policy, validating or mutating.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    match_constraints: Option<MatchResources>,
}

impl Policy {
    /// Returns how far it reaches if it covers `request` where it is bound.
    #[must_use]
    pub fn covers(&self, request: &Request) -> Option<Scope> {
        covers(self.match_constraints.as_ref(), request)
    }
}

/// The specification of the binding of a policy.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Name of the policy.
    #[serde(default)]
    pub policy_name: String,
    match_resources: Option<MatchResources>,
}

impl Binding {
    /// Returns whether the policy is in force for `request`.
    #[must_use]
    pub fn covers(&self, request: &Request) -> bool {
        covers(self.match_resources.as_ref(), request).is_some()
    }
}

/// The content of a webhook configuration, validating or mutating.
#[derive(Debug, Deserialize)]
pub struct Webhooks {
    #[serde(default)]
    webhooks: Option<Vec<Webhook>>,
}

#[derive(Debug, Deserialize)]
struct Webhook {
    #[serde(default)]
    rules: Option<Vec<NamedRuleWithOperations>>,
}

impl Webhooks {
    /// Returns how far it reaches if one of the webhooks is asked about `request`.
    #[must_use]
    pub fn covers(&self, request: &Request) -> Option<Scope> {
        let webhooks = self.webhooks.iter().flatten();
        let rules = webhooks.flat_map(|webhook| webhook.rules.iter().flatten());
        nearest(rules, request)
    }
}

/// Returns how far resources reach that cover `request`. Those that name no rule cover all that is
/// not excluded.
fn covers(resources: Option<&MatchResources>, request: &Request) -> Option<Scope> {
    let Some(resources) = resources else {
        return Some(Scope::Everything);
    };
    let mut excluded = resources.exclude_resource_rules.iter().flatten();
    // What is excluded by name leaves the other names.
    if excluded.any(|rule| is_for_any_name(rule) && scope(rule, request).is_some()) {
        return None;
    }
    let rules = resources.resource_rules.as_deref().unwrap_or_default();
    if rules.is_empty() {
        return Some(Scope::Everything);
    }
    nearest(rules.iter(), request)
}

fn nearest<'a>(
    rules: impl Iterator<Item = &'a NamedRuleWithOperations>,
    request: &Request,
) -> Option<Scope> {
    rules.filter_map(|rule| scope(rule, request)).min()
}

fn is_for_any_name(rule: &NamedRuleWithOperations) -> bool {
    rule.resource_names.as_ref().is_none_or(Vec::is_empty)
}

/// Returns how far a rule reaches if it matches `request`. With `matchPolicy: Equivalent` a rule
/// for one served version is for all of them; as there are requests of each, it needs no regard.
fn scope(rule: &NamedRuleWithOperations, request: &Request) -> Option<Scope> {
    let has = |list: &Option<Vec<String>>, value: &str| {
        list.iter().flatten().any(|one| one == ALL || one == value)
    };
    let scoped = match rule.scope.as_deref() {
        Some("Namespaced") => request.namespaced,
        Some("Cluster") => !request.namespaced,
        _ => true,
    };
    let matches = scoped
        && has(&rule.api_groups, &request.group)
        && has(&rule.api_versions, &request.version)
        && has(&rule.operations, request.operation)
        && rule
            .resources
            .iter()
            .flatten()
            .any(|pattern| is_for(pattern, request));
    let names_group = rule
        .api_groups
        .iter()
        .flatten()
        .any(|group| *group == request.group);
    let scope = if names_group {
        Scope::Group
    } else {
        Scope::Everything
    };
    matches.then_some(scope)
}

/// Returns whether a rule's resource, such as `pods`, `pods/*` or `*/scale`, covers the objects
/// themselves; the server has no subresource of reports.
fn is_for(pattern: &str, request: &Request) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == ALL || resource == request.resource)
        && (subresource.is_empty() || subresource == ALL)
}
