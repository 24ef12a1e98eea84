//! The migration as a model: real decisions, and clients, kube-apiservers, crashes and users in any
//! order between the small steps that they lead to. Nothing that a client was told may be lost or
//! told again, whatever the order, and the group reaches the wanted state.

mod cluster;
mod operator;

use crds::v1alpha1::spec::ApiOwner;
use crds::v1alpha1::status::MigrationPhase;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use self::cluster::{APISERVERS, Cluster, Flaw, Key, Op};
use self::operator::{Omission, Operator};
use crate::migration::cluster::door::objects::Door;

/// Names that clients write to.
const KEYS: Key = 3;
/// Steps after which a group that has not come to rest never will.
const PATIENCE: usize = 2_000;

/// The next event of the model.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// The operator takes a small step.
    Operator,
    /// The operator's mirror follows.
    Mirror,
    /// A client writes through a kube-apiserver.
    Write(usize, Key, Op),
    /// A kube-apiserver, or last our server, notices where the APIService leads.
    Notice(usize),
    /// Others write to etcd.
    Noise(u64),
    /// Reports of another group are written to our server.
    Others(u64),
    /// Watches on the CRD get a bookmark.
    Bookmark,
    /// The connection of a watcher breaks, or it comes back.
    Leave(usize),
    ComeBack(usize),
    /// The operator dies.
    Crash,
    /// The user wants the other owner.
    Flip,
    /// The user suspends the operator's work, or lets it go on.
    Suspend(bool),
    /// Somebody applies the CRD without our version.
    Reapply,
    /// Somebody deletes the APIService, and the operator hears of it.
    TakeAway,
    Hear,
}

/// The disturbances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    /// None: clients notice nothing.
    None,
    /// The operator dies, and CRDs are applied.
    Crashes,
    /// Somebody deletes the APIService as well: then watches may break, but no write is lost without
    /// a word.
    Everything,
}

fn moves(faults: Faults) -> impl Strategy<Value = Vec<Move>> {
    let op = prop_oneof![Just(Op::Create), Just(Op::Update), Just(Op::Delete)];
    let usual = prop_oneof![
        24 => Just(Move::Operator),
        4 => Just(Move::Mirror),
        16 => (0..APISERVERS, 0..KEYS, op).prop_map(|(via, key, op)| Move::Write(via, key, op)),
        6 => (0..=APISERVERS).prop_map(Move::Notice),
        2 => (1..4_u64).prop_map(Move::Noise),
        2 => (1..4_u64).prop_map(Move::Others),
        1 => Just(Move::Bookmark),
        3 => (0..2 * APISERVERS).prop_map(Move::Leave),
        4 => (0..2 * APISERVERS).prop_map(Move::ComeBack),
        1 => Just(Move::Flip),
        1 => any::<bool>().prop_map(Move::Suspend),
    ];
    let crash = prop_oneof![Just(Move::Crash), Just(Move::Reapply)];
    let taken = prop_oneof![2 => Just(Move::TakeAway), 3 => Just(Move::Hear)];
    let one = match faults {
        Faults::None => usual.boxed(),
        Faults::Crashes => prop_oneof![30 => usual, 1 => crash].boxed(),
        Faults::Everything => prop_oneof![30 => usual, 1 => crash, 2 => taken].boxed(),
    };
    prop::collection::vec(one, 1..250)
}

struct Model {
    cluster: Cluster,
    operator: Operator,
    disturbed: bool,
}

impl Model {
    fn new(omission: Option<Omission>) -> Self {
        Self {
            cluster: Cluster::new(),
            operator: Operator::new(omission),
            disturbed: false,
        }
    }

    fn go(&mut self, next: Move) -> Result<(), Flaw> {
        let cluster = &mut self.cluster;
        match next {
            Move::Operator => drop(self.operator.step(cluster)),
            Move::Mirror => self.operator.mirror(cluster),
            Move::Write(via, key, op) => cluster.write(via, key, op)?,
            Move::Notice(who) => cluster.notice(who),
            Move::Noise(count) => cluster.etcd.version += count,
            Move::Others(count) => cluster.server.version += count,
            Move::Bookmark => cluster.bookmark_crd(),
            Move::Leave(n) => cluster.leave(n),
            Move::ComeBack(n) => cluster.come_back(n),
            Move::Crash => self.operator.crash(),
            Move::Flip => self.operator.flip(),
            Move::Suspend(suspended) => self.operator.suspend(suspended),
            Move::TakeAway => cluster.take_away(),
            Move::Hear => self.operator.hear(cluster),
            Move::Reapply => {
                self.disturbed = true;
                if cluster.door.is_open() {
                    cluster.change_crd(Door::Closed);
                }
            }
        }
        self.cluster.pump()
    }

    /// Lets only the operator act: the group comes to rest where it is wanted, and before, while it
    /// is suspended, where clients are served.
    fn rest(&mut self) -> Result<(), Flaw> {
        if self.operator.suspended() {
            self.come_to_rest()?;
            if !self.cluster.is_served() {
                return Err(format!("suspended unserved: {:?}", self.operator));
            }
            self.operator.suspend(false);
        }
        let phase = self.come_to_rest()?;
        let wanted = match self.operator.owner {
            ApiOwner::Server => MigrationPhase::Completed,
            ApiOwner::Crd => MigrationPhase::RolledBack,
        };
        if phase != wanted {
            return Err(format!("at rest in {phase:?}, not in {wanted:?}"));
        }
        self.cluster.at_rest(self.disturbed)
    }

    fn come_to_rest(&mut self) -> Result<MigrationPhase, Flaw> {
        for _ in 0..PATIENCE {
            (0..2 * APISERVERS).for_each(|n| self.cluster.come_back(n));
            (0..=APISERVERS).for_each(|who| self.cluster.notice(who));
            self.operator.mirror(&mut self.cluster);
            self.operator.hear(&self.cluster);
            self.cluster.pump()?;
            let Some(phase) = self.operator.step(&mut self.cluster) else {
                continue;
            };
            self.cluster.pump()?;
            return Ok(phase);
        }
        Err(format!("no rest: {:?}", self.operator))
    }
}

fn run(moves: &[Move], omission: Option<Omission>) -> Result<(), Flaw> {
    let mut model = Model::new(omission);
    for next in moves {
        model.go(*next)?;
    }
    model.rest()
}

fn search(
    (cases, rng): (u32, TestRng),
    faults: Faults,
    omission: Option<Omission>,
) -> Option<String> {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let found = runner.run(&moves(faults), |moves| {
        run(&moves, omission).map_err(TestCaseError::fail)
    });
    match found {
        Ok(()) => None,
        Err(TestError::Fail(why, moves)) => Some(format!("{why}\n{moves:?}")),
        Err(TestError::Abort(why)) => Some(why.to_string()),
    }
}

/// Sequences that are tried, always the same ones; for a step that is left out, as many as it
/// needs.
const CASES: u32 = 4_000;
const OMISSION_CASES: u32 = 40_000;
/// The variable with the number of other sequences to try.
const CASES_VARIABLE: &str = "MIGRATION_MODEL_CASES";

fn cases() -> (u32, TestRng) {
    let wanted = std::env::var(CASES_VARIABLE).ok();
    match wanted.and_then(|text| text.parse().ok()) {
        Some(cases) => (
            cases,
            TestRng::from_seed(RngAlgorithm::ChaCha, &rand::random::<[u8; 32]>()),
        ),
        None => (CASES, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

#[test]
fn undisturbed_no_client_notices_in_whatever_order_things_happen() {
    assert_eq!(search(cases(), Faults::None, None), None);
}

#[test]
fn after_crashes_and_changes_of_the_crd_nothing_is_lost_or_told_twice() {
    assert_eq!(search(cases(), Faults::Crashes, None), None);
}

#[test]
fn no_write_is_lost_without_a_word_where_somebody_deletes_the_api_service() {
    assert_eq!(search(cases(), Faults::Everything, None), None);
}

#[rstest::rstest]
#[case(Omission::Confirm, Faults::None)]
#[case(Omission::Jump, Faults::None)]
#[case(Omission::Cut, Faults::None)]
#[case(Omission::Hold, Faults::None)]
#[case(Omission::Floor, Faults::None)]
#[case(Omission::Drain, Faults::None)]
#[case(Omission::Marks, Faults::Crashes)]
#[case(Omission::Finish, Faults::Crashes)]
#[case(Omission::Laggards, Faults::Everything)]
#[case(Omission::Dropped, Faults::Everything)]
#[case(Omission::Conflict, Faults::Everything)]
fn a_step_that_is_left_out_is_noticed(#[case] omission: Omission, #[case] faults: Faults) {
    assert!(search((OMISSION_CASES, cases().1), faults, Some(omission)).is_some());
}
