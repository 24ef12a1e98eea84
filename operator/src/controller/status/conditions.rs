//! The list of conditions: order, transition times, and which may be absent.

use crds::v1alpha1::conditions::{ALWAYS_PRESENT, PRESENT_ONLY_WHEN_TRUE};
use crds::v1alpha1::reasons;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Most characters in a condition's message (`metav1.Condition`).
const MAX_MESSAGE: usize = 32_768;

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// `True`
    True,
    /// `False`
    False,
    /// `Unknown`
    Unknown,
}

impl Is {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The wanted state of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The status of the condition.
    pub is: Is,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
}

impl Finding {
    /// True.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is: Is::True,
            reason,
            message: message.into(),
        }
    }

    /// False.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is: Is::False,
            reason,
            message: message.into(),
        }
    }

    /// Unknown.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self {
            is: Is::Unknown,
            reason: reasons::UNKNOWN,
            message: message.into(),
        }
    }
}

/// The conditions of one object at one time.
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Goes on from the present ones. Those that every object has are added as `Unknown`.
    #[must_use]
    pub fn new(present: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        let mut conditions = Self {
            list: present.to_vec(),
            generation,
            now,
        };
        for known in ALWAYS_PRESENT {
            if conditions.get(known).is_none() {
                conditions.set(known, Finding::unknown("not checked yet"));
            }
        }
        conditions
    }

    /// Returns the condition of a type.
    #[must_use]
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns whether a condition is true.
    #[must_use]
    pub fn is_true(&self, type_: &str) -> bool {
        self.get(type_)
            .is_some_and(|condition| condition.status == Is::True.as_str())
    }

    /// Sets a condition. Its transition time changes only with its status.
    pub fn set(&mut self, type_: &str, finding: Finding) {
        let Finding {
            is,
            reason,
            message,
        } = finding;
        let status = is.as_str();
        let before = self
            .get(type_)
            .filter(|condition| condition.status == status);
        // The API knows whole seconds; more would look like a change at every comparison.
        let now = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        let since = before.map_or(Time(now), |condition| {
            condition.last_transition_time.clone()
        });
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: bounded(message),
            observed_generation: self.generation,
            last_transition_time: since,
        };
        match self
            .list
            .iter_mut()
            .find(|condition| condition.type_ == type_)
        {
            Some(present) => *present = condition,
            None => self.list.push(condition),
        }
    }

    /// Removes a condition.
    pub fn remove(&mut self, type_: &str) {
        self.list.retain(|condition| condition.type_ != type_);
    }

    /// Returns the list, in a fixed order, every entry for the present generation.
    #[must_use]
    pub fn into_list(mut self) -> Vec<Condition> {
        let order = |condition: &Condition| {
            let mut known = PRESENT_ONLY_WHEN_TRUE.iter().chain(ALWAYS_PRESENT);
            known
                .position(|type_| *type_ == condition.type_)
                .unwrap_or(usize::MAX)
        };
        self.list
            .sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.type_.cmp(&b.type_)));
        for condition in &mut self.list {
            condition.observed_generation = self.generation;
        }
        #[cfg(test)]
        tests::assert_documented(&self.list);
        self.list
    }
}

fn bounded(message: String) -> String {
    if message.chars().count() <= MAX_MESSAGE {
        return message;
    }
    message.chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use crds::publish::troubleshooting;
    use crds::v1alpha1::conditions::{READY, STALLED};

    use super::*;

    /// Fails for a condition of which `docs/troubleshooting.md` does not tell. Every test of a status
    /// goes through it.
    pub(super) fn assert_documented(list: &[Condition]) {
        for condition in list {
            let (type_, reason) = (&condition.type_, &condition.reason);
            let told = troubleshooting::tells(type_, &condition.status, reason);
            assert!(told, "{type_} {} {reason}", condition.status);
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut first = Conditions::new(&[], Some(1), at(10));
        first.set(READY, Finding::no(reasons::PROGRESSING, "a"));
        let mut second = Conditions::new(&first.into_list(), Some(2), at(20));
        second.set(READY, Finding::no(reasons::DEPENDENCY_NOT_READY, "b"));
        let ready = second.get(READY).unwrap().clone();
        assert_eq!(ready.last_transition_time, Time(at(10)));
        assert_eq!(ready.observed_generation, Some(2));
        second.set(READY, Finding::yes(reasons::SERVING, "c"));
        assert_eq!(
            second.get(READY).unwrap().last_transition_time,
            Time(at(20))
        );
    }

    #[test]
    fn every_object_has_the_same_conditions_from_the_first_time_on() {
        let mut conditions = Conditions::new(&[], Some(1), at(10));
        conditions.set(STALLED, Finding::yes(reasons::INVALID_SPEC, ""));
        conditions.remove(STALLED);
        let types: Vec<String> = conditions
            .into_list()
            .into_iter()
            .map(|c| c.type_)
            .collect();
        assert_eq!(types, ALWAYS_PRESENT);
    }
}
