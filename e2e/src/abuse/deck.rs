//! The order of the actions: like cards, each comes once before any comes again.

use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};

use super::action::{Action, Component, Manner, Pick};
use super::child::{Child, Harm};
use super::edit::ValidEdit;
use super::wrong::InvalidEdit;

/// Cards on which several children are deleted at once.
const SEVERAL: usize = 8;
/// The number of children on one of them.
const AT_ONCE: std::ops::RangeInclusive<usize> = 2..=6;

/// An endless row of actions, which its seed determines.
#[derive(Debug)]
pub struct Deck {
    rng: StdRng,
    left: Vec<Action>,
}

impl Deck {
    /// Returns the deck of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            left: Vec::new(),
        }
    }

    fn shuffled(&mut self) -> Vec<Action> {
        let mut cards: Vec<Action> = ValidEdit::ALL.map(Action::Valid).to_vec();
        cards.extend(InvalidEdit::ALL.map(Action::Invalid));
        for pick in picks() {
            cards.push(Action::Delete(vec![pick]));
            let harm = Harm::ALL.choose(&mut self.rng).copied();
            cards.extend(harm.map(|harm| Action::Harm(pick, harm)));
        }
        for child in Child::ALL {
            cards.extend(Harm::ALL.map(|harm| Action::Harm((child, 0), harm)));
        }
        for component in Component::ALL {
            cards.extend(Manner::ALL.map(|manner| Action::Restart(component, manner)));
        }
        for _ in 0..SEVERAL {
            cards.push(Action::Delete(self.several()));
        }
        cards.extend([
            Action::ScaledAway(Child::Deployment),
            Action::ScaledAway(Child::StatefulSet),
            Action::NamespaceClosed,
            Action::NamespaceDeleted,
            Action::MadeAgain,
        ]);
        cards.shuffle(&mut self.rng);
        let mut seen = HashSet::new();
        cards.retain(|card| seen.insert(card.clone()));
        cards
    }

    /// Returns several children in any order.
    fn several(&mut self) -> Vec<Pick> {
        let mut picks = picks();
        picks.shuffle(&mut self.rng);
        picks.truncate(self.rng.random_range(AT_ONCE));
        picks
    }
}

impl Iterator for Deck {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        if self.left.is_empty() {
            self.left = self.shuffled();
        }
        self.left.pop()
    }
}

/// Returns each child.
fn picks() -> Vec<Pick> {
    let of = |child: Child| (0..child.usual()).map(move |number| (child, number));
    Child::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    /// More than one deck has, and less than two.
    const CARDS: usize = 200;

    proptest! {
        #[test]
        fn the_same_seed_gives_the_same_actions(seed in any::<u64>()) {
            let one: Vec<Action> = Deck::new(seed).take(CARDS).collect();
            let other: Vec<Action> = Deck::new(seed).take(CARDS).collect();
            assert_eq!(one, other);
        }

        #[test]
        fn another_seed_gives_another_order(seed in any::<u64>()) {
            let one: Vec<Action> = Deck::new(seed).take(CARDS).collect();
            let other: Vec<Action> = Deck::new(seed.wrapping_add(1)).take(CARDS).collect();
            assert_ne!(one, other);
        }

        #[test]
        fn every_action_has_its_turn(seed in any::<u64>()) {
            let cards: HashSet<Action> = Deck::new(seed).take(CARDS).collect();
            for edit in ValidEdit::ALL {
                assert!(cards.contains(&Action::Valid(edit)), "{edit:?}");
            }
            for edit in InvalidEdit::ALL {
                assert!(cards.contains(&Action::Invalid(edit)), "{edit:?}");
            }
            for pick in picks() {
                assert!(cards.contains(&Action::Delete(vec![pick])), "{pick:?}");
            }
            for child in Child::ALL {
                for harm in Harm::ALL {
                    assert!(cards.contains(&Action::Harm((child, 0), harm)), "{child:?} {harm:?}");
                }
            }
            for component in Component::ALL {
                for manner in Manner::ALL {
                    let card = Action::Restart(component, manner);
                    assert!(cards.contains(&card), "{card}");
                }
            }
            for card in [
                Action::ScaledAway(Child::Deployment), Action::ScaledAway(Child::StatefulSet),
                Action::NamespaceClosed, Action::NamespaceDeleted, Action::MadeAgain,
            ] {
                assert!(cards.contains(&card), "{card}");
            }
            let several = |card: &Action| matches!(card, Action::Delete(picks) if picks.len() > 1);
            assert!(cards.iter().any(several));
        }

        #[test]
        fn no_action_comes_again_before_the_others(seed in any::<u64>()) {
            let mut deck = Deck::new(seed);
            let first = deck.next();
            let rest = deck.left.len();
            let others: Vec<Action> = deck.take(rest).collect();
            assert!(!others.contains(&first.unwrap()));
        }
    }
}
