//! The refusals of rights that a group meets, and what is told of them.

use std::time::Duration;

use crds::v1alpha1::reasons;
use tokio::time::Instant;

use crate::migration::plan::action::Action;
use crate::migration::report::status::Problem;
use crate::refusals::{Meaning, Refusals, passing};

/// The refusals in one place of a migration: an action, or the look before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refused {
    /// The action that was refused; none for the look.
    place: Option<Action>,
    refusals: Refusals,
}

impl Refused {
    /// Returns the problem of `place` as it is told, and the pause before the next attempt where it is a
    /// refusal that may pass. A refusal elsewhere continues those before: after one, other actions
    /// may have to prepare the same again.
    pub fn judge(
        &mut self,
        place: Option<Action>,
        problem: Problem,
        now: Instant,
    ) -> (Problem, Option<Duration>) {
        if problem.reason != reasons::FORBIDDEN || !problem.stalled {
            self.ended(place);
            return (problem, None);
        }
        self.place = place;
        match self.refusals.refused(now) {
            Meaning::Missing => (problem, None),
            Meaning::Passing(pause) => (passes(&problem), Some(pause)),
        }
    }

    /// Notes that `place` had another outcome.
    pub fn ended(&mut self, place: Option<Action>) {
        if self.place == place {
            self.refusals.ended();
        }
    }
}

/// Returns a refusal as the problem that it is while it may pass.
fn passes(problem: &Problem) -> Problem {
    Problem {
        reason: problem.reason,
        message: passing(&problem.message),
        stalled: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusals::GRACE;

    fn refused() -> Problem {
        Problem::forbidden(&"cannot list CRDs")
    }

    fn other() -> Problem {
        Problem {
            reason: reasons::PROGRESSING,
            message: "no answer".to_owned(),
            stalled: false,
        }
    }

    #[test]
    fn a_refusal_is_told_as_a_missing_right_once_it_stays() {
        let (mut judge, start) = (Refused::default(), Instant::now());
        let (first, pause) = judge.judge(None, refused(), start);
        assert!(!first.stalled && pause.is_some());
        assert!(first.message.contains("cannot list CRDs"), "{first:?}");
        assert!(first.message.contains("has just started"), "{first:?}");
        let (last, pause) = judge.judge(None, refused(), start + GRACE);
        assert_eq!((last, pause), (refused(), None));
    }

    #[test]
    fn a_refusal_that_has_passed_is_forgotten() {
        let (mut judge, start) = (Refused::default(), Instant::now());
        let _ = judge.judge(Some(Action::Mirror), refused(), start);
        judge.ended(Some(Action::Mirror));
        let (again, _) = judge.judge(Some(Action::Mirror), refused(), start + GRACE);
        assert!(!again.stalled);
        let end = start + GRACE * 2;
        assert_eq!(judge.judge(Some(Action::Mirror), other(), end).0, other());
        let (later, _) = judge.judge(Some(Action::Mirror), refused(), end);
        assert!(!later.stalled, "the action had another end between them");
    }

    /// A switch that is refused begins with actions that succeed, again and again.
    #[test]
    fn actions_that_succeed_before_the_refused_one_do_not_count() {
        let (mut judge, start) = (Refused::default(), Instant::now());
        let _ = judge.judge(Some(Action::Verify), refused(), start);
        judge.ended(None);
        judge.ended(Some(Action::Mirror));
        let (last, _) = judge.judge(Some(Action::Verify), refused(), start + GRACE);
        assert!(last.stalled);
    }

    #[test]
    fn other_problems_are_told_as_they_are() {
        let mut judge = Refused::default();
        assert_eq!(judge.judge(None, other(), Instant::now()), (other(), None));
    }
}
