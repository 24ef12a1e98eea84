//! The move from one database to another, for conditions and status.

use crds::control::MovePhase;
use crds::v1alpha1::reasons;
use crds::v1alpha1::spec::DatabaseMode;
use crds::v1alpha1::status::DatabaseMoveStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::Finding;
use super::migration::count;
use crate::controller::validate::{Backend, Between, Stage, Validated};
use crate::database::moving;

/// Returns whether what was said last of a move is about one that did not take place: another way
/// led to the same database, or the specification was set back before anything was done. `was` is
/// the mode of the database at that time.
pub fn is_void(spec: &Validated, last: Option<&Condition>, was: Option<DatabaseMode>) -> bool {
    let over = spec.between.is_none() && spec.moving.is_none();
    let between = matches!(spec.backend(), Backend::Postgres(_))
        && was.is_some_and(|was| was != DatabaseMode::Embedded);
    let open =
        last.is_some_and(|last| last.status != "True" && last.reason != reasons::MOVE_GIVEN_UP);
    over && between && open
}

/// Returns whether the reports have moved from a PostgreSQL; nothing while it is not
/// known whether they are to.
pub fn moved(spec: &Validated, between: &Between) -> Option<Finding> {
    let (phase, message) = moving::describe(between.told.as_ref(), between.waits_for.as_deref());
    let rest = "other changes of the specification wait for the end of the move";
    Some(match between.stage {
        Stage::Looking => return None,
        Stage::Waiting => Finding::no(reasons::MOVE_WAITING, format!("{message}; {rest}")),
        Stage::Moving => {
            let waits = between.waits_for.iter().filter(|_| between.told.is_some());
            let message = waits.fold(message, |all, why| format!("{all}; {why}"));
            Finding::no(reason(phase), format!("{message}; {rest}"))
        }
        Stage::GivingUp => Finding::no(
            reasons::MOVE_GIVEN_UP,
            format!(
                "the servers are told to give up the move, and the reports stay in {}; {rest}",
                between.source.name
            ),
        ),
        Stage::Moved => Finding::yes(
            reasons::MOVED,
            format!(
                "{}; keep {} until the last old pod is replaced: such a pod finds the way there",
                place(spec),
                between.source.name
            ),
        ),
        Stage::Over => Finding::yes(
            reasons::MOVED,
            format!(
                "{}; {} is no longer used: {}",
                place(spec),
                between.source.name,
                between.source.remains
            ),
        ),
    })
}

/// Says where the reports are.
fn place(spec: &Validated) -> String {
    let postgres = spec.database.postgres().map(moving::target);
    let place =
        postgres.unwrap_or_else(|| format!("the embedded database, on {}", spec.names.data()));
    format!("the reports are in {place}")
}

/// Returns what a move does, for the time until it is over.
pub fn busy(between: &Between) -> Option<&'static str> {
    match between.stage {
        Stage::Looking => Some("the database that spec.database names is being checked"),
        Stage::Waiting | Stage::Moving | Stage::GivingUp => Some("the reports are being moved"),
        Stage::Moved | Stage::Over => between
            .waits_for
            .is_some()
            .then_some("the reports are being moved"),
    }
}

/// Returns the reason of a move that is under way.
pub fn reason(phase: MovePhase) -> &'static str {
    match phase {
        MovePhase::Refused => reasons::MOVE_REFUSED,
        MovePhase::Waiting | MovePhase::GivenUp => reasons::MOVE_WAITING,
        MovePhase::Copying
        | MovePhase::Following
        | MovePhase::Comparing
        | MovePhase::HandingOver
        | MovePhase::Moved => reasons::MOVING,
    }
}

/// Returns how far the move of a database is, for the status.
pub fn progress(spec: &Validated) -> Option<DatabaseMoveStatus> {
    let embedded = spec.moving.as_ref().and_then(|moving| moving.told.as_ref());
    let between = spec.between.as_ref();
    let between = between.filter(|b| !matches!(b.stage, Stage::Moved | Stage::Over));
    let told = embedded.or_else(|| between.and_then(|between| between.told.as_ref()))?;
    Some(DatabaseMoveStatus {
        phase: format!("{:?}", told.phase),
        target: told.target.clone(),
        objects_copied: count(told.objects_copied),
        objects_total: count(told.objects_total),
    })
}
