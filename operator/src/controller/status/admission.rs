//! `AdmissionBypassed`: what a cluster's admission no longer decides about.

use crds::names::ANNOTATION_ACCEPT_BYPASS;
use crds::v1alpha1::{conditions as types, reasons};

use super::conditions::{Conditions, Finding, Is};
use crate::migration::GroupStatus;

/// Sets the condition, or removes it where there is nothing to tell. Before every group has been
/// looked at (an operator that has just started), what was told stays.
pub fn tell(conditions: &mut Conditions, groups: &[GroupStatus]) {
    let mut named = Vec::new();
    let (mut problem, mut looked) = (None, true);
    for group in groups {
        match &group.bypass {
            None => looked = false,
            Some(Err(error)) => problem = problem.or(Some(error)),
            Some(Ok(bypass)) if bypass.is_empty() => {}
            Some(Ok(bypass)) => named.push(format!("{}: {bypass}", group.group)),
        }
    }
    if !named.is_empty() {
        let message = format!(
            "the kube-apiserver applies no admission to reports that the server answers for, and \
             these have rules for them: {}; limit who may write reports by RBAC, or keep owner: \
             CRD; exclude the group from rules that reports do not need, or annotate these objects \
             with {ANNOTATION_ACCEPT_BYPASS}=true",
            named.join("; ")
        );
        let finding = Finding::yes(reasons::ADMISSION_BYPASSED, message);
        conditions.set(types::ADMISSION_BYPASSED, finding);
    } else if let Some(problem) = problem {
        let message = "whether policies, webhooks or quotas have rules for reports is not known";
        let finding = Finding {
            is: Is::Unknown,
            reason: problem.reason,
            message: format!("{message}: {}", problem.message),
        };
        conditions.set(types::ADMISSION_BYPASSED, finding);
    } else if looked {
        conditions.remove(types::ADMISSION_BYPASSED);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::migration::{Bypass, Problem};

    fn group(name: &str, bypass: Option<Result<Bypass, Problem>>) -> GroupStatus {
        GroupStatus {
            group: name.to_owned(),
            bypass,
            ..GroupStatus::default()
        }
    }

    fn found(names: &[&str]) -> Bypass {
        Bypass {
            count: names.len(),
            named: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn forbidden() -> Problem {
        Problem::forbidden(&"cannot list resourcequotas")
    }

    fn told(conditions: &Conditions) -> Option<(String, String, String)> {
        let condition = conditions.get(types::ADMISSION_BYPASSED)?.clone();
        Some((condition.status, condition.reason, condition.message))
    }

    fn after(groups: &[GroupStatus]) -> Option<(String, String, String)> {
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        tell(&mut conditions, groups);
        told(&conditions)
    }

    #[test]
    fn objects_are_named_with_their_group_whatever_else_is_not_known() {
        let groups = [
            group("a.example", Some(Ok(found(&["ResourceQuota team/a"])))),
            group("b.example", Some(Err(forbidden()))),
            group("c.example", None),
        ];
        let (is, reason, message) = after(&groups).unwrap();
        assert_eq!(
            (is.as_str(), reason.as_str()),
            ("True", "AdmissionBypassed")
        );
        assert!(
            message.contains("a.example: ResourceQuota team/a"),
            "{message}"
        );
        assert!(message.contains(ANNOTATION_ACCEPT_BYPASS), "{message}");
    }

    #[test]
    fn a_missing_right_is_told_and_is_no_news_of_objects() {
        let groups = [
            group("a.example", Some(Ok(found(&[])))),
            group("b.example", Some(Err(forbidden()))),
        ];
        let (is, reason, message) = after(&groups).unwrap();
        assert_eq!((is.as_str(), reason.as_str()), ("Unknown", "Forbidden"));
        assert!(message.contains("resourcequotas"), "{message}");
    }

    #[test]
    fn it_is_absent_where_there_is_nothing_and_kept_before_the_first_look() {
        assert_eq!(after(&[group("a.example", Some(Ok(found(&[]))))]), None);
        let mut conditions = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
        tell(
            &mut conditions,
            &[group("a.example", Some(Ok(found(&["x"]))))],
        );
        let before = told(&conditions);
        tell(&mut conditions, &[group("a.example", None)]);
        assert_eq!(told(&conditions), before);
        tell(&mut conditions, &[group("a.example", Some(Ok(found(&[]))))]);
        assert_eq!(told(&conditions), None);
    }
}
