//! Orders to apply everything again, and the phases in which they were obeyed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// Time after which an order that was not obeyed is repeated: one that meets another one is lost.
pub const REPEATED: Duration = Duration::from_secs(2);

/// An order that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The token by which the tool says that it has obeyed.
    pub token: String,
    /// Names of the tool's objects that have the order.
    pub objects: BTreeSet<String>,
}

/// The state of a group or a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Name of the group or CRD.
    pub name: String,
    /// The phase that it is in.
    pub phase: String,
    /// The step in that phase; empty where there is none.
    pub step: String,
}

/// The orders of a time, and the phases in which they were obeyed: a phase counts when each object
/// of the tool has obeyed an order that was given in it, or ended in it. Not all obey the same one.
#[derive(Debug, Default)]
pub struct Orders {
    /// The present state of each group and CRD.
    states: BTreeMap<String, State>,
    /// True when one of them has changed since the last order.
    changed: bool,
    /// The time of the last order, and the objects that got it.
    last: Option<(Instant, BTreeSet<String>)>,
    open: Vec<Open>,
    /// The objects that have obeyed an order, by phase.
    obeyed: BTreeMap<String, BTreeSet<String>>,
}

/// An order that not every object has obeyed.
#[derive(Debug)]
struct Open {
    token: String,
    /// The objects that have not.
    missing: BTreeSet<String>,
    /// The phases in which it was given.
    phases: Vec<String>,
}

impl Orders {
    /// Takes in the state of a group or a CRD.
    pub fn reaches(&mut self, state: State) {
        if self.states.get(&state.name) != Some(&state) {
            self.states.insert(state.name.clone(), state);
            self.changed = true;
        }
    }

    /// Returns whether an order is to be given: at each change, and again while a present phase
    /// does not count.
    pub fn is_due(&self, now: Instant) -> bool {
        let last = self.last.as_ref();
        let waits = last.is_some_and(|(last, _)| now < *last + REPEATED);
        self.changed || (!waits && self.phases().iter().any(|phase| !self.counts(phase)))
    }

    /// Notes that an order was given.
    pub fn given(&mut self, order: Order, now: Instant) {
        self.changed = false;
        self.last = Some((now, order.objects.clone()));
        self.open.push(Open {
            token: order.token,
            missing: order.objects,
            phases: self.phases(),
        });
    }

    /// Takes in what one of the tool's objects says that it has obeyed.
    pub fn hears(&mut self, name: &str, has_obeyed: impl Fn(&str) -> bool) {
        let now = self.phases();
        for order in &mut self.open {
            if !has_obeyed(&order.token) || !order.missing.remove(name) {
                continue;
            }
            for phase in order.phases.iter().chain(&now) {
                let objects = self.obeyed.entry(phase.clone()).or_default();
                objects.insert(name.to_owned());
            }
        }
        self.open.retain(|order| !order.missing.is_empty());
    }

    /// Returns the phases that count.
    pub fn obeyed(&self) -> Vec<String> {
        let phases = self.obeyed.keys();
        phases.filter(|phase| self.counts(phase)).cloned().collect()
    }

    fn counts(&self, phase: &str) -> bool {
        let objects = self.last.as_ref().map(|(_, objects)| objects);
        let obeyed = self.obeyed.get(phase);
        objects
            .zip(obeyed)
            .is_some_and(|(objects, obeyed)| !objects.is_empty() && objects.is_subset(obeyed))
    }

    /// Returns the present phases in words.
    fn phases(&self) -> Vec<String> {
        let states = self.states.values();
        states
            .map(|state| format!("{}: {}", state.name, state.phase))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(token: &str) -> Order {
        Order {
            token: token.to_owned(),
            objects: ["crds", "operator"].map(str::to_owned).into(),
        }
    }

    fn in_phase(phase: &str, step: &str) -> State {
        let [name, phase, step] = ["group", phase, step].map(str::to_owned);
        State { name, phase, step }
    }

    #[test]
    fn a_phase_counts_when_each_object_has_obeyed_an_order_in_it() {
        let (mut orders, now) = (Orders::default(), Instant::now());
        orders.reaches(in_phase("Mirroring", ""));
        assert!(orders.is_due(now));
        orders.given(order("lost"), now);
        orders.reaches(in_phase("Switching", "Hold"));
        orders.given(order("first"), now);
        orders.hears("crds", |token| token == "first");
        assert!(orders.obeyed().is_empty());
        orders.reaches(in_phase("Switching", "Patch"));
        orders.given(order("second"), now);
        orders.hears("operator", |token| token == "second");
        orders.reaches(in_phase("Soaking", ""));
        orders.hears("operator", |token| token == "second");
        assert_eq!(orders.obeyed(), ["group: Switching"]);
    }

    #[test]
    fn an_order_is_repeated_until_it_is_obeyed() {
        let (mut orders, now) = (Orders::default(), Instant::now());
        orders.reaches(in_phase("Soaking", ""));
        orders.given(order("lost"), now);
        assert!(!orders.is_due(now));
        let later = now + REPEATED;
        assert!(orders.is_due(later));
        orders.given(order("repeated"), later);
        for name in ["crds", "operator"] {
            orders.hears(name, |token| token == "repeated");
        }
        assert!(!orders.is_due(later + REPEATED));
        orders.reaches(in_phase("Soaking", ""));
        assert!(!orders.is_due(later));
    }
}
