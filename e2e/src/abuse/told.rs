//! The status of a `ReportsServer` at one time.

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::conditions::{READY, STALLED};
use crds::v1alpha1::spec::ApiOwner;

use super::expect::has;

/// Parts of messages that tell a person what to do.
const ORDERS: [&str; 6] = [
    "kubectl ",
    "set spec.",
    "; remove ",
    "; create ",
    "; restore ",
    "; install ",
];
/// The part of a message that names a field: where something is refused, that one has to be changed.
const FIELD: &str = "spec.";

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The type of the condition.
    pub type_: String,
    /// The status of the condition.
    pub is: String,
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
}

/// The status of a `ReportsServer`, as far as a client is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// True when the status and each condition are of the present specification.
    pub current: bool,
    /// The conditions.
    pub conditions: Vec<Said>,
    /// The phase of each group.
    pub phases: Vec<(String, String)>,
    /// The groups of the specification, and whether the server is to serve each.
    pub wanted: Vec<(String, bool)>,
}

impl Told {
    /// Returns what is told of `server`.
    #[must_use]
    pub fn of(server: &ReportsServer) -> Self {
        let status = server.status.clone().unwrap_or_default();
        let generation = server.metadata.generation;
        let of_present = |observed: Option<i64>| observed == generation;
        let current = of_present(status.observed_generation)
            && status
                .conditions
                .iter()
                .all(|condition| of_present(condition.observed_generation));
        let groups = status.migration.into_iter().flat_map(|m| m.groups);
        let wanted = server.spec.apis.iter();
        Self {
            current,
            conditions: status
                .conditions
                .into_iter()
                .map(|condition| Said {
                    type_: condition.type_,
                    is: condition.status,
                    reason: condition.reason,
                    message: condition.message,
                })
                .collect(),
            phases: groups
                .map(|group| (group.group, group.phase.as_str().to_owned()))
                .collect(),
            wanted: wanted
                .map(|api| (api.group.clone(), api.owner == ApiOwner::Server))
                .collect(),
        }
    }

    /// Returns the condition of a type.
    #[must_use]
    pub fn get(&self, type_: &str) -> Option<&Said> {
        self.conditions.iter().find(|said| said.type_ == type_)
    }

    /// Returns whether a condition is there with this status.
    #[must_use]
    pub fn is(&self, type_: &str, is: &str) -> bool {
        self.get(type_).is_some_and(|said| said.is == is)
    }

    /// Returns whether a condition is there with this status, and has one of the words.
    #[must_use]
    pub fn says(&self, type_: &str, is: &str, words: &[&str]) -> bool {
        let said = self.get(type_).filter(|said| said.is == is);
        said.is_some_and(|said| has(&said.message, words))
    }

    /// Returns the message that tells a person what to do, where `Stalled`, or a `Ready` that is not
    /// true, has one.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        let stalled = self.get(STALLED).filter(|said| said.is == "True");
        let ready = self.get(READY).filter(|said| said.is != "True");
        let ordered = |said: &&Said| has(&said.message, &ORDERS);
        let named = |said: &&Said| ordered(said) || has(&said.message, &[FIELD]);
        let found = stalled.filter(named).or(ready.filter(ordered));
        found.map(|said| said.message.as_str())
    }

    /// Returns `Ready` and what explains it, on one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let told = [READY, STALLED].into_iter().filter_map(|type_| {
            let said = self.get(type_)?;
            Some(format!(
                "{type_}={} {}: {}",
                said.is, said.reason, said.message
            ))
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(observed: i64, of_condition: i64) -> ReportsServer {
        serde_json::from_value(json!({
            "apiVersion": "reports-server.io/v1alpha1", "kind": "ReportsServer",
            "metadata": {"name": "a", "generation": 3},
            "spec": {"targetNamespace": "b", "apis": [
                {"group": "one.example", "owner": "Server"},
                {"group": "two.example", "owner": "CRD"}]},
            "status": {"observedGeneration": observed, "conditions": [{"type": "Ready",
                "status": "False", "reason": "InvalidSpec", "message": "set spec.server.replicas",
                "observedGeneration": of_condition, "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_status_is_current_when_every_part_of_it_is() {
        assert!(Told::of(&server(3, 3)).current);
        assert!(!Told::of(&server(2, 3)).current);
        assert!(!Told::of(&server(3, 2)).current);
        let wanted = [
            ("one.example".to_owned(), true),
            ("two.example".to_owned(), false),
        ];
        assert_eq!(Told::of(&server(3, 3)).wanted, wanted);
    }

    #[test]
    fn a_remedy_is_an_order_or_a_field_that_is_refused() {
        let mut told = Told::of(&server(3, 3));
        assert_eq!(told.remedy(), Some("set spec.server.replicas"));
        told.conditions[0].message = "not yet as spec.apis specifies".to_owned();
        assert_eq!(told.remedy(), None);
        let mut stalled = told.conditions[0].clone();
        stalled.type_ = STALLED.to_owned();
        stalled.is = "True".to_owned();
        stalled.message = "spec.server.resources: no".to_owned();
        told.conditions.push(stalled);
        assert_eq!(told.remedy(), Some("spec.server.resources: no"));
        told.conditions.truncate(1);
        told.conditions[0].message = "PostgreSQL does not answer".to_owned();
        assert_eq!(told.remedy(), None);
        told.conditions[0].message = "kubectl delete pod a".to_owned();
        told.conditions[0].is = "True".to_owned();
        assert_eq!(told.remedy(), None, "nothing is to be done");
    }
}
