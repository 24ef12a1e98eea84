//! The operator dies at each step of both directions, the servers at the worst moments, and a user
//! changes his mind in each step: each direction comes to its end all the same, and nothing is lost.
//! A few rounds drawn anew in each run, all of them on both databases with `E2E_FULL`.

mod matrix;
mod point;

use crate::common::{NEVER, full};
use e2e::chaos::{Direction, Outcome};
use e2e::steps;
use e2e::takeover::Database;
use rand::seq::SliceRandom as _;
use rstest::rstest;

use self::matrix::Matrix;
use self::point::{BACK, Deed, FORWARD, Point, STEPS_FORWARD};

/// Rounds of a run that is not full; each has one point of each direction.
const DRAWN: usize = 1;

/// A step, and what the user does in it.
type Meddling = (&'static str, Deed);

/// A point of each direction for each round; the shorter list begins anew.
fn rounds() -> Vec<(Point, Point)> {
    let (mut forward, mut back) = (FORWARD.to_vec(), BACK.to_vec());
    if !full() {
        forward.shuffle(&mut rand::rng());
        back.shuffle(&mut rand::rng());
        forward.truncate(DRAWN);
    }
    forward.into_iter().zip(back.into_iter().cycle()).collect()
}

/// Returns every deed of the user in each of these steps.
fn at_each(steps: &[&'static str]) -> Vec<Meddling> {
    let all = steps
        .iter()
        .flat_map(|step| Deed::ALL.map(|deed| (*step, deed)));
    all.collect()
}

/// Returns the deeds of the user on the way of each direction, for each round.
fn deeds() -> Vec<(Meddling, Meddling)> {
    let (mut forward, mut back) = (at_each(&STEPS_FORWARD), at_each(&steps::BACK));
    if !full() {
        forward.shuffle(&mut rand::rng());
        back.shuffle(&mut rand::rng());
        forward.truncate(DRAWN);
    }
    forward.into_iter().zip(back.into_iter().cycle()).collect()
}

fn judge(outcome: &Outcome) {
    println!("{outcome}");
    assert!(outcome.writes > 200, "{outcome}");
    if full() {
        assert!(outcome.is_clean(), "{outcome}");
    }
    for flaw in NEVER {
        assert_eq!(outcome.flaw(flaw), 0, "{flaw:?}: {outcome}");
    }
}

#[rstest]
#[case::embedded(Database::Embedded)]
#[case::managed(Database::Managed)]
#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_nothing_is_lost(#[case] database: Database) {
    if !full() && !matches!(database, Database::Embedded) {
        println!("only with E2E_FULL=1");
        return;
    }
    let rounds = rounds();
    println!("points: {rounds:?}");
    let mut matrix = Matrix::start(database).await;
    for (round, (forward, back)) in (1..).zip(rounds) {
        // Pruned and kept by turns; what is not pruned cannot be interrupted.
        let prune = matches!(forward, Point::Operator("Prune")) || round % 2 == 0;
        matrix.go(round, Direction::Forward, forward, prune).await;
        matrix.go(round, Direction::Back, back, prune).await;
    }
    judge(&matrix.finish().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_user_does_in_a_step_nothing_is_lost() {
    let deeds = deeds();
    println!("deeds: {deeds:?}");
    let mut matrix = Matrix::start(Database::Embedded).await;
    for (round, (forward, back)) in (1..).zip(deeds) {
        let prune = forward.0 == "Prune" || round % 2 == 0;
        for (direction, (step, deed)) in [(Direction::Forward, forward), (Direction::Back, back)] {
            Box::pin(matrix.meddle(round, direction, step, deed, prune)).await;
        }
    }
    judge(&matrix.finish().await);
}
