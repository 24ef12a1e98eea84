//! The move of an embedded database to PostgreSQL, as far as it is decided without a client.
//!
//! The server moves the reports itself. The operator names the destination by a Secret that the
//! server's pod mounts, and reads the progress from the control API. Nothing is remembered: the
//! Secret, the Deployment and the server's answer show the present state, so the operator may die
//! at any point.

use std::collections::BTreeMap;

use crds::control::{self, DatabaseEngine, DatabaseMove, MovePhase, move_file};
use crds::v1alpha1::ReportsServerStatus;
use crds::v1alpha1::spec::DatabaseMode;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodTemplateSpec, SecretVolumeSource, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::files::Values;
use super::place::{Postgres, Source, Storage};

/// The directory in which the server finds the destination.
pub const DIRECTORY: &str = "/etc/reports-server/move";
/// The flag by which the server is told of [`DIRECTORY`].
pub const FLAG: &str = "--move-database-dir=";
/// The variable that stands for the flag beside a PostgreSQL: a server of the release before refuses
/// the flag there, and does not know the variable.
pub const VARIABLE: &str = "REPORTS_SERVER_MOVE_DIR";

/// The state of a move, while the server still has the reports in its pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Moving {
    /// The template that the server's pod keeps until the reports have moved; the one of the
    /// specification where it is absent.
    pub template: Option<PodTemplateSpec>,
    /// The place of the reports.
    pub storage: Storage,
    /// The content of the Secret; no Secret where it is absent.
    pub secret: Option<Values>,
    /// The state of the move as the server reports it.
    pub told: Option<DatabaseMove>,
    /// The reason why the move does not begin yet.
    pub waits_for: Option<String>,
}

/// The facts that the operator sees.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// True when the server's Deployment has the reports in its pod; `None` where there is none.
    pub embedded: Option<bool>,
    /// True when there is no Deployment, and the reports are on the volume that its pod had.
    pub left: bool,
    /// True when only pods of the newest template are left, and they are ready.
    pub rolled_out: bool,
    /// The Secret of the move.
    pub secret: Option<Values>,
    /// The state that the server reports; `None` where it does not answer.
    pub server: Option<control::DatabaseStatus>,
}

/// The step that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to move: go on as the specification says.
    None,
    /// The server still has the reports: name the destination, once it can be used.
    Tell,
    /// Have the server give up the move.
    GiveUp,
    /// Go on as the specification says, but leave the Secret: pods that need it are there.
    Moved,
    /// Go on as the specification says; the Secret is of no use any more.
    Forget,
    /// The specification asks for something else than what the server has done.
    Refuse(String),
}

/// Decides the step. `wanted` is the target that the specification names; `None` for an embedded
/// database.
#[must_use]
pub fn step(wanted: Option<&str>, seen: &Seen) -> Step {
    let told = seen.secret.as_ref().and_then(target_of);
    let moved = has_moved(seen);
    // Somebody may have deleted the Deployment. The reports are where its server had them: as the
    // status says before there is anything to tell it, and then for as long as there is.
    let in_pod = (seen.left || seen.secret.is_some()).then_some(true);
    let Some(embedded) = seen.embedded.or(in_pod) else {
        return Step::None;
    };
    match (wanted, embedded) {
        (None, true) | (Some(_), false) if seen.secret.is_none() => Step::None,
        (None, false) => Step::Refuse(
            "spec.database.mode: reports in PostgreSQL are not moved back before it is known which \
             database is in use; set the mode back to what it was, and ask again when \
             status.database.history names it"
                .to_owned(),
        ),
        (None, true) if moved => Step::Refuse(format!(
            "spec.database: the reports were moved to {} before the move was cancelled, and are \
             not moved back; specify that database again",
            told.unwrap_or_default()
        )),
        (None, true) if has_given_up(seen) => Step::Forget,
        (None, true) => Step::GiveUp,
        (Some(_), false) if seen.rolled_out => Step::Forget,
        (Some(_), false) => Step::Moved,
        (Some(wanted), true) => match told {
            Some(told) if moved && told != wanted => Step::Refuse(format!(
                "spec.database: the reports were moved to {told} before {wanted} was requested; \
                 set it back to {told}"
            )),
            _ if moved => Step::Moved,
            Some(told) if told != wanted && !has_given_up(seen) => Step::GiveUp,
            _ => Step::Tell,
        },
    }
}

/// Returns whether the reports were on the claim of an embedded server when the status was written,
/// which it says until they have moved. A claim alone does not tell: it stays when they have moved,
/// and when a `ReportsServer` of the same name was deleted.
#[must_use]
pub fn is_on_claim(status: &ReportsServerStatus) -> bool {
    let database = status.database.as_ref();
    database.is_some_and(|database| {
        database.mode == Some(DatabaseMode::Embedded) && database.volume_claim.is_some()
    })
}

/// Returns whether the server that has the reports in its pod has moved them.
fn has_moved(seen: &Seen) -> bool {
    let server = seen.server.as_ref();
    server.is_some_and(|server| {
        let phase = server.move_.as_ref().map(|told| told.phase);
        server.engine == DatabaseEngine::Postgres || phase == Some(MovePhase::Moved)
    })
}

/// Returns whether the server has read the order to give up, and does nothing any more.
fn has_given_up(seen: &Seen) -> bool {
    let told = seen
        .server
        .as_ref()
        .and_then(|server| server.move_.as_ref());
    told.is_some_and(|told| {
        told.phase == MovePhase::GivenUp
            && Some(&*told.target) == seen.secret.as_ref().and_then(target_of).as_deref()
    })
}

fn target_of(secret: &Values) -> Option<String> {
    let target = secret.get(move_file::TARGET)?;
    Some(String::from_utf8_lossy(target).into_owned())
}

/// Returns the name of a database in the Secret, in the status and in messages. It is the same for
/// as long as the database is.
#[must_use]
pub fn target(postgres: &Postgres) -> String {
    let sources = postgres.connection.sources.iter().map(Source::name);
    let name = sources.into_iter().next().unwrap_or_default();
    let place = match postgres.mode {
        DatabaseMode::External => format!(" (secret {name})"),
        DatabaseMode::CloudNativePg => format!(" ({name})"),
        DatabaseMode::Managed | DatabaseMode::Embedded => String::new(),
    };
    format!("{}{place}", word(postgres.mode))
}

/// Returns the word for a mode in the specification.
#[must_use]
pub const fn word(mode: DatabaseMode) -> &'static str {
    match mode {
        DatabaseMode::Embedded => "Embedded",
        DatabaseMode::Managed => "Managed",
        DatabaseMode::External => "External",
        DatabaseMode::CloudNativePg => "CloudNativePG",
    }
}

/// Returns the content of the Secret: the connection's parameters and the server's settings for it.
#[must_use]
pub fn secret(postgres: &Postgres, mut files: Values) -> Values {
    let own = [
        (
            move_file::CLUSTER_IDENTITY,
            postgres.cluster_identity.clone(),
        ),
        (
            move_file::CLUSTER_NAME,
            postgres.cluster_name.clone().unwrap_or_default(),
        ),
        (
            move_file::MAX_CONNECTIONS,
            postgres.max_connections.to_string(),
        ),
        (move_file::TARGET, target(postgres)),
    ];
    files.extend(own.map(|(name, text)| (name.to_owned(), text.into_bytes())));
    files
}

/// Returns the same Secret, as an order to give up.
#[must_use]
pub fn given_up(mut secret: Values) -> Values {
    secret.insert(move_file::GIVE_UP.to_owned(), b"true".to_vec());
    secret
}

/// Returns the place in which the pod of a Deployment has its embedded database: its claim, where
/// nothing else is known.
#[must_use]
pub fn storage(deployment: Option<&Deployment>, volume: &str) -> Storage {
    let pod = deployment
        .and_then(|deployment| deployment.spec.as_ref())
        .and_then(|spec| spec.template.spec.as_ref());
    let mut volumes = pod.into_iter().flat_map(|pod| pod.volumes.iter().flatten());
    let found = volumes.find(|found| found.name == volume);
    match found.and_then(|found| found.empty_dir.as_ref()) {
        Some(ephemeral) => Storage::EmptyDir {
            size: ephemeral.size_limit.clone().unwrap_or_default(),
        },
        // The claim is there; its size is not asked for again.
        None => Storage::Claim {
            size: Quantity::default(),
            class: None,
        },
    }
}

/// Returns the volume for the mount at [`DIRECTORY`]: empty until there is a destination.
#[must_use]
pub fn volume(name: &str, secret: String) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            optional: Some(true),
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Returns the phase of a move that is under way, and a sentence about it, from what the server has
/// `told` and what the move `waits_for`.
#[must_use]
pub fn describe(told: Option<&DatabaseMove>, waits_for: Option<&str>) -> (MovePhase, String) {
    let Some(told) = told else {
        let waits = waits_for.unwrap_or("the server begins within two minutes");
        return (MovePhase::Waiting, waits.to_owned());
    };
    let sentence = match told.phase {
        MovePhase::Waiting => format!("the server tries again soon: {}", told.message),
        MovePhase::Refused => told.message.clone(),
        MovePhase::Copying => format!(
            "{} of {} objects copied",
            told.objects_copied, told.objects_total
        ),
        MovePhase::Following => "copying what was written meanwhile".to_owned(),
        MovePhase::Comparing => "comparing every object".to_owned(),
        MovePhase::HandingOver => "writes wait for a moment".to_owned(),
        MovePhase::Moved => "the reports are moved".to_owned(),
        MovePhase::GivenUp => "given up".to_owned(),
    };
    (told.phase, format!("to {}: {sentence}", told.target))
}

/// Returns the keys of a Secret as the kube-apiserver takes them.
#[must_use]
pub fn data(secret: &Values) -> BTreeMap<String, k8s_openapi::ByteString> {
    let data = secret.iter();
    data.map(|(key, value)| (key.clone(), k8s_openapi::ByteString(value.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::status::DatabaseStatus;
    use rstest::rstest;

    use super::*;

    fn server(engine: DatabaseEngine, phase: Option<MovePhase>) -> control::DatabaseStatus {
        control::DatabaseStatus {
            history: None,
            elsewhere: None,
            can_move: true,
            can_move_to_file: true,
            engine,
            sequence: 1,
            resource_version: "1".to_owned(),
            move_: phase.map(|phase| DatabaseMove {
                phase,
                target: "Managed".to_owned(),
                attempts: 1,
                objects_copied: 0,
                objects_total: 0,
                sequence: 0,
                held_milliseconds: None,
                message: String::new(),
            }),
        }
    }

    fn seen(embedded: Option<bool>, told: Option<&str>, phase: Option<MovePhase>) -> Seen {
        let secret = told
            .map(|told| Values::from([(move_file::TARGET.to_owned(), told.as_bytes().to_vec())]));
        Seen {
            embedded,
            left: false,
            rolled_out: false,
            secret,
            server: Some(server(DatabaseEngine::Sqlite, phase)),
        }
    }

    const MANAGED: Option<&str> = Some("Managed");

    #[rstest]
    #[case::fresh(MANAGED, seen(None, None, None), Step::None)]
    #[case::stays(None, seen(Some(true), None, None), Step::None)]
    #[case::begins(MANAGED, seen(Some(true), None, None), Step::Tell)]
    #[case::goes_on(
        MANAGED,
        seen(Some(true), MANAGED, Some(MovePhase::Copying)),
        Step::Tell
    )]
    #[case::is_there(
        MANAGED,
        seen(Some(true), MANAGED, Some(MovePhase::Moved)),
        Step::Moved
    )]
    #[case::rolls_out(MANAGED, seen(Some(false), MANAGED, None), Step::Moved)]
    #[case::deployment_deleted(MANAGED, seen(None, MANAGED, None), Step::Tell)]
    #[case::deployment_deleted_at_once(
        MANAGED,
        Seen { left: true, ..seen(None, None, None) },
        Step::Tell
    )]
    #[case::deployment_deleted_and_no_move(
        None,
        Seen { left: true, ..seen(None, None, None) },
        Step::None
    )]
    #[case::is_done(MANAGED, seen(Some(false), None, None), Step::None)]
    #[case::other_target(
        Some("External (secret a)"),
        seen(Some(true), MANAGED, Some(MovePhase::Copying)),
        Step::GiveUp
    )]
    #[case::other_target_heard(
        Some("External (secret a)"),
        seen(Some(true), MANAGED, Some(MovePhase::GivenUp)),
        Step::Tell
    )]
    #[case::back(
        None,
        seen(Some(true), MANAGED, Some(MovePhase::Comparing)),
        Step::GiveUp
    )]
    #[case::back_heard(
        None,
        seen(Some(true), MANAGED, Some(MovePhase::GivenUp)),
        Step::Forget
    )]
    fn what_follows_is_read_off(
        #[case] wanted: Option<&str>,
        #[case] seen: Seen,
        #[case] expected: Step,
    ) {
        assert_eq!(step(wanted, &seen), expected);
    }

    #[test]
    fn a_server_that_does_not_answer_is_not_taken_to_have_moved() {
        let silent = Seen {
            server: None,
            ..seen(Some(true), MANAGED, None)
        };
        assert_eq!(step(MANAGED, &silent), Step::Tell);
        assert_eq!(step(None, &silent), Step::GiveUp);
    }

    #[test]
    fn the_secret_goes_when_no_pod_of_before_is_left() {
        let done = Seen {
            rolled_out: true,
            ..seen(Some(false), MANAGED, None)
        };
        assert_eq!(step(MANAGED, &done), Step::Forget);
    }

    #[rstest]
    #[case(
        None,
        seen(Some(true), MANAGED, Some(MovePhase::Moved)),
        "not moved back"
    )]
    #[case(None, seen(Some(false), None, None), "not moved back")]
    #[case(
        Some("External (secret a)"),
        seen(Some(true), MANAGED, Some(MovePhase::Moved)),
        "moved to Managed before External (secret a)"
    )]
    fn what_is_done_is_not_undone(
        #[case] wanted: Option<&str>,
        #[case] seen: Seen,
        #[case] expected: &str,
    ) {
        match step(wanted, &seen) {
            Step::Refuse(message) => assert!(message.contains(expected), "{message}"),
            other => panic!("{other:?}"),
        }
    }

    #[rstest]
    #[case::embedded(Some(DatabaseMode::Embedded), Some("simple-data"), true)]
    #[case::ephemeral(Some(DatabaseMode::Embedded), None, false)]
    #[case::moved(Some(DatabaseMode::Managed), Some("simple-postgres-data"), false)]
    #[case::nothing_known(None, None, false)]
    fn the_status_tells_whose_volume_counts(
        #[case] mode: Option<DatabaseMode>,
        #[case] claim: Option<&str>,
        #[case] expected: bool,
    ) {
        let status = ReportsServerStatus {
            database: Some(DatabaseStatus {
                mode,
                volume_claim: claim.map(str::to_owned),
                ..DatabaseStatus::default()
            }),
            ..ReportsServerStatus::default()
        };
        assert_eq!(is_on_claim(&status), expected);
        assert!(!is_on_claim(&ReportsServerStatus::default()));
    }

    #[test]
    fn a_given_up_secret_keeps_the_way_there() {
        let secret = given_up(Values::from([("host".to_owned(), b"h".to_vec())]));
        assert_eq!(secret.len(), 2);
        assert!(secret.contains_key(move_file::GIVE_UP));
    }
}
