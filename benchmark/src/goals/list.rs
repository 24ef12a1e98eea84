//! All goals. Those of the table of ratios have its number (`13.1`), those that real peers corrected
//! `13a`, those of the work on real traffic `19`.

use super::goal::{Derivation, Goal};
use super::set::{CHECKING, PROJECTING, Set, by, median};
use super::{scale, served};

const POSTGRES: &str = "postgres";
const STRAIGHT: &str = "postgres direct";
const KINE: &str = "kine update";
const UPSTREAM: &str = "upstream update";
const TRANSACTION: &str = "transaction";
const NOWHERE: &str = "no command measures it";
const WRITING: &str = "text, copy for memory, findings and digest are part of a write, and take as \
                       much processor time as the database";

/// Returns all goals.
#[must_use]
pub fn goals() -> Vec<Goal> {
    let mut all = writes();
    all.extend(storage());
    all.extend(slow_disks());
    all.extend(elsewhere());
    all.extend(scale::set_by_number(None));
    for engine in [POSTGRES, "sqlite"] {
        all.extend(served::goals(engine));
    }
    all
}

/// Returns the goals of writes over HTTP on PostgreSQL beside SQL, and of SQLite beside it.
fn writes() -> Vec<Goal> {
    let upstream = by("update@16 rate", STRAIGHT, "sql@16 rate", UPSTREAM);
    let what = "updates over HTTPS by those of upstream's SQL, 16 connections";
    let mut goals = Set::new("13.3", CHECKING)
        .least(what, "x", &[1.2, 2.0], &upstream)
        .goals;
    let lite = Set::new("13.23", CHECKING);
    let lite = ["create", "update"].into_iter().fold(lite, |set, verb| {
        let rate = format!("{verb}@64 rate");
        let what = format!("{verb}s, SQLite by PostgreSQL");
        let from = by(&rate, "sqlite direct", &rate, STRAIGHT);
        set.least(&what, "x", &[1.0, 1.5], &from)
    });
    goals.extend(lite.goals);
    goals
}

/// Returns the goals of the store alone beside SQL on the same PostgreSQL.
fn storage() -> Vec<Goal> {
    let ours = |name: &str, other: &str, peer: &str| by(name, POSTGRES, other, peer);
    let few = ours("storage update@16 rate", "sql@16 rate", KINE);
    let many = ours("storage update@256 rate", "sql best rate", KINE);
    let kine = Set::new("13.4", WRITING)
        .least(
            "updates of the store by kine's, 16 writers",
            "x",
            &[2.5],
            &few,
        )
        .least(
            "updates of the store, 256 writers, by kine's best",
            "x",
            &[6.0],
            &many,
        );
    let few = ours("storage create@16 rate", "sql@16 rate", "insert");
    let many = ours("storage create@256 rate", "sql best rate", "insert");
    let plain = Set::new("13.5", WRITING)
        .least(
            "creates of the store by plain INSERTs, 16 writers",
            "x",
            &[1.0],
            &few,
        )
        .least(
            "creates of the store, 256 writers, by the best of plain INSERTs",
            "x",
            &[2.7],
            &many,
        );
    let disk = ours("disk a report", "disk a row", UPSTREAM);
    let disk = Set::new("13.13", PROJECTING).most(
        "disk a report by upstream's",
        "x",
        &[1.0 / 3.0, 1.0 / 5.0],
        &disk,
    );
    let wal = ours("WAL an update", "WAL a statement", KINE);
    let value = median("WAL an update", POSTGRES);
    let wal = Set::new("13.14", PROJECTING).most(
        "WAL an update by kine's",
        "x",
        &[1.0 / 4.0, 1.0 / 6.5],
        &wal,
    );
    let real = Set::new("19", PROJECTING).most("WAL an update", "bytes", &[2200.0], &value);
    let beside = ours("p99 while compacting", "p99 while deleting", POSTGRES);
    let alone = ours("p99 while compacting", "p99 before", POSTGRES);
    let pause = Set::new(
        "13.22",
        "rows are dropped behind the lock of all writers, 200 at a time",
    )
    .most(
        "p99 of updates while compacting by that beside DELETE and VACUUM",
        "x",
        &[1.0 / 3.0],
        &beside,
    )
    .most(
        "p99 of updates while compacting by that without",
        "x",
        &[1.1],
        &alone,
    );
    [kine, plain, disk, wal, real, pause]
        .into_iter()
        .flat_map(|set| set.goals)
        .collect()
}

/// Returns the goals of disks whose fsync takes longer.
fn slow_disks() -> Vec<Goal> {
    let ours = |name: &str, other: &str, peer: &str| by(name, POSTGRES, other, peer);
    let few = ours("+1 ms update@16 rate", "+1 ms sql@16 rate", KINE);
    let many = ours("+1 ms update@256 rate", "+1 ms sql best rate", KINE);
    let plain = ours("+1 ms create@256 rate", "+1 ms sql best rate", "insert");
    let some = ours("+5 ms update@64 rate", "+5 ms sql@16 rate", TRANSACTION);
    let most = ours("+5 ms update@256 rate", "+5 ms sql@16 rate", TRANSACTION);
    let kine = Set::new("13.4", WRITING)
        .least(
            "updates with fsync +1 ms by kine's, 16 writers",
            "x",
            &[1.3],
            &few,
        )
        .least(
            "updates with fsync +1 ms, 256 writers, by kine's best",
            "x",
            &[3.0],
            &many,
        );
    let insert = Set::new("13.5", WRITING).least(
        "creates with fsync +1 ms, 256 writers, by the best of plain INSERTs",
        "x",
        &[2.0],
        &plain,
    );
    let ordered = Set::new("13.6", WRITING)
        .least(
            "updates with fsync +5 ms, 64 writers, by one transaction a write",
            "x",
            &[25.0],
            &some,
        )
        .least(
            "updates with fsync +5 ms, 256 writers, by one transaction a write",
            "x",
            &[70.0],
            &most,
        );
    [kine, insert, ordered]
        .into_iter()
        .flat_map(|set| set.goals)
        .collect()
}

/// Returns the goals that this program does not measure.
fn elsewhere() -> Vec<Goal> {
    let not = Derivation::Elsewhere;
    let sets = [
        Set::new("13.8", "").least(
            "speed of a list of 10,000 by upstream's",
            "x",
            &[10.0, 14.0],
            &not(NOWHERE),
        ),
        Set::new("13.10", "").least(
            "bandwidth of splicing by that of copying",
            "x",
            &[0.7, 0.95],
            &not(NOWHERE),
        ),
        Set::new("13.16", "").most(
            "lost events of 10,000,000, three replicas",
            "events",
            &[0.0],
            &not("`hack/order`"),
        ),
        Set::new("13.17", "").least(
            "speed of findings of 50,000 reports by a scan of `jsonb`",
            "x",
            &[30.0, 300.0],
            &not(NOWHERE),
        ),
        Set::new("13.18", "").least(
            "speed of counts of 50,000 reports by a scan of `jsonb`",
            "x",
            &[50.0, 85.0],
            &not(NOWHERE),
        ),
        Set::new("13.19", "").most(
            "projections' part of a rescan",
            "%",
            &[10.0, 3.0],
            &not(NOWHERE),
        ),
        Set::new("13a", "").most(
            "failed requests when one of two replicas is killed",
            "requests",
            &[0.0],
            &not(NOWHERE),
        ),
    ];
    sets.into_iter().flat_map(|set| set.goals).collect()
}
