//! Rules of RBAC that give the operator what it lacks, as they are written into a role.

use std::fmt;

/// A rule for resources of one API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API group; empty for the core group.
    pub group: String,
    /// Plurals, with the subresource behind a slash.
    pub resources: Vec<String>,
    /// Verbs.
    pub verbs: Vec<String>,
    /// Namespace; all when absent.
    pub namespace: Option<String>,
    /// Name of the one object that it covers; all when absent.
    pub name: Option<String>,
}

impl Rule {
    /// Returns the rule for what the kube-apiserver refuses with the words `said`; nothing where they
    /// are not about a right on a resource.
    #[must_use]
    pub fn of_refusal(said: &str) -> Option<Self> {
        // User "u" cannot patch resource "r" in API group "g" in the namespace "n"
        let (_, rest) = said.split_once("\" cannot ")?;
        let (verb, rest) = rest.split_once(" resource \"")?;
        let (resource, rest) = rest.split_once("\" in API group \"")?;
        let (group, rest) = rest.split_once('"')?;
        let namespace = rest.strip_prefix(" in the namespace \"");
        let namespace = namespace.and_then(|rest| rest.split_once('"'));
        Some(Self {
            group: group.to_owned(),
            resources: vec![resource.to_owned()],
            verbs: vec![verb.to_owned()],
            namespace: namespace.map(|(namespace, _)| namespace.to_owned()),
            name: None,
        })
    }

    /// Returns what the rule is about, but for resources and verbs.
    fn scope(&self) -> (&str, Option<&str>, Option<&str>) {
        (&self.group, self.namespace.as_deref(), self.name.as_deref())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{apiGroups: [\"{}\"], ", self.group)?;
        write!(f, "resources: {:?}, ", self.resources)?;
        if let Some(name) = &self.name {
            write!(f, "resourceNames: [\"{name}\"], ")?;
        }
        write!(f, "verbs: {:?}}}", self.verbs)?;
        self.namespace
            .as_ref()
            .map_or(Ok(()), |n| write!(f, " in namespace {n}"))
    }
}

/// Returns few rules that give the same as `rules`: one for each resource with all of its verbs, and
/// one for resources with the same verbs.
#[must_use]
pub fn merged(rules: impl IntoIterator<Item = Rule>) -> Vec<Rule> {
    let mut by_resource: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = by_resource
            .iter_mut()
            .find(|one| one.scope() == rule.scope() && one.resources == rule.resources);
        if let Some(one) = same {
            one.verbs.extend(rule.verbs);
        } else {
            by_resource.push(rule);
        }
    }
    let mut merged: Vec<Rule> = Vec::new();
    for rule in by_resource {
        let same = merged
            .iter_mut()
            .find(|one| one.scope() == rule.scope() && one.verbs == rule.verbs);
        if let Some(one) = same {
            one.resources.extend(rule.resources);
        } else {
            merged.push(rule);
        }
    }
    merged
}

/// Returns the words of a refusal with the rule that would end it, where there is one.
#[must_use]
pub fn with_rule(said: &str) -> String {
    Rule::of_refusal(said).map_or_else(
        || said.to_owned(),
        |rule| format!("{said}; grant it to the operator's ServiceAccount by the rule {rule}"),
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(resource: &str, verb: &str, namespace: Option<&str>, name: Option<&str>) -> Rule {
        Rule {
            group: "apps".to_owned(),
            resources: vec![resource.to_owned()],
            verbs: vec![verb.to_owned()],
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }

    fn shown(rules: &[Rule]) -> Vec<String> {
        rules.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::cluster(
        "apiservices.apiregistration.k8s.io \"v1.a\" is forbidden: User \"u\" cannot delete \
         resource \"apiservices\" in API group \"apiregistration.k8s.io\" at the cluster scope",
        "{apiGroups: [\"apiregistration.k8s.io\"], resources: [\"apiservices\"], \
         verbs: [\"delete\"]}"
    )]
    #[case::namespace(
        "cannot read notes: configmaps is forbidden: User \"u\" cannot list resource \
         \"configmaps\" in API group \"\" in the namespace \"n\"",
        "{apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"list\"]} in namespace n"
    )]
    #[case::subresource(
        "PUT /a: 403 Forbidden: x is forbidden: User \"u\" cannot update resource \
         \"storedresources/gate\" in API group \"control.reports-server.io\" at the cluster scope",
        "{apiGroups: [\"control.reports-server.io\"], resources: [\"storedresources/gate\"], \
         verbs: [\"update\"]}"
    )]
    fn a_refusal_has_its_rule(#[case] said: &str, #[case] expected: &str) {
        let found = Rule::of_refusal(said).map(|rule| rule.to_string());
        assert_eq!(found.as_deref(), Some(expected));
        let told = with_rule(said);
        assert!(told.starts_with(said) && told.ends_with(expected), "{told}");
    }

    #[rstest]
    #[case("cannot list CRDs")]
    #[case("forbidden: User \"u\" cannot get path \"/metrics\"")]
    #[case("is forbidden: user \"u\" is attempting to grant RBAC permissions not currently held")]
    fn what_is_not_about_a_resource_has_none(#[case] said: &str) {
        assert_eq!(Rule::of_refusal(said), None);
        assert_eq!(with_rule(said), said);
    }

    #[test]
    fn rules_for_the_same_are_one() {
        let rules = [
            rule("deployments", "get", None, None),
            rule("deployments", "patch", None, None),
            rule("daemonsets", "get", None, None),
            rule("daemonsets", "patch", None, None),
            rule("replicasets", "get", None, None),
            rule("deployments", "get", Some("kyverno"), Some("reports")),
        ];
        let expected = [
            "{apiGroups: [\"apps\"], resources: [\"deployments\", \"daemonsets\"], \
             verbs: [\"get\", \"patch\"]}",
            "{apiGroups: [\"apps\"], resources: [\"replicasets\"], verbs: [\"get\"]}",
            "{apiGroups: [\"apps\"], resources: [\"deployments\"], resourceNames: [\"reports\"], \
             verbs: [\"get\"]} in namespace kyverno",
        ];
        assert_eq!(shown(&merged(rules)), expected);
    }
}
