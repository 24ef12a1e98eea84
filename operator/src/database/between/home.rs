//! The move from PostgreSQL to the volume of the one server that is left, as far as it is decided
//! without a client.
//!
//! The servers of the database give way to a single one, which has the volume mounted beside the
//! parameters of PostgreSQL. That one is told to move the reports into a file there. It says by its
//! engine whether it has; so nothing but the order has to be remembered.

use crds::control::{DatabaseEngine, move_file};
use crds::v1alpha1::ReportsServerSpec;
use crds::v1alpha1::spec::DatabaseMode;

use super::{NO_ANSWER, Notes, Seen, Step, mode, named};
use crate::database::files::Values;
use crate::database::moving;

/// The variable by which a server on PostgreSQL is told of its file. A server of the release before
/// does not know it, and would refuse a flag.
pub const VARIABLE: &str = "REPORTS_SERVER_MOVE_FILE";

/// Said where the server would not follow the order.
const OLD_SERVER: &str = "the server is of a release that does not move reports to a volume: set \
                          spec.database back, remove spec.images.server, and ask again";

/// Said where the reports would be lost with the pod.
const EPHEMERAL: &str = "spec.database.embedded.ephemeral: reports are only moved to a volume that \
                         outlives the pod; remove it";

/// Said where the volume would begin with other reports.
const RECOVERY: &str = "spec.database.embedded.bootstrap: the reports are moved to the volume, and \
                        no backup is restored there; remove it";

/// Returns whether a specification leads to the volume of the server.
#[must_use]
pub fn leads_there(spec: &ReportsServerSpec) -> bool {
    mode(spec) == DatabaseMode::Embedded
}

/// Returns whether the server that answers has the reports in its file.
pub(super) fn has_arrived(seen: &Seen<'_>) -> bool {
    let server = seen.server;
    server.is_some_and(|server| server.engine == DatabaseEngine::Sqlite)
}

/// Decides the step where there is no order yet.
pub(super) fn beginning(seen: &Seen<'_>) -> Step {
    if let Some(why) = refusal(seen.wanted) {
        return Step::Refuse(why.to_owned());
    }
    let prepare = |why: &str| Step::Prepare(why.to_owned());
    match seen.server {
        // Somebody has deleted the order.
        Some(_) if has_arrived(seen) => Step::TellAgain,
        _ if seen.leaves => Step::Wait("the ReportsServer is being deleted".to_owned()),
        _ if seen.secret.is_some() => Step::Clear,
        _ if !seen.pods.has_file => prepare("one server with the volume takes the place of all"),
        _ if !seen.pods.rolled_out => {
            prepare("the server that has the volume has to be ready, and the only one")
        }
        None => prepare(NO_ANSWER),
        Some(server) if !server.can_move_to_file => prepare(OLD_SERVER),
        Some(_) => Step::Tell,
    }
}

fn refusal(wanted: &ReportsServerSpec) -> Option<&'static str> {
    let embedded = wanted.database.as_ref()?.embedded.as_ref()?;
    if embedded.ephemeral.is_some() {
        return Some(EPHEMERAL);
    }
    embedded.bootstrap.is_some().then_some(RECOVERY)
}

/// Returns the content of the Secret with an order that the `ReportsServer` with this `uid` asks for in
/// a `generation`. The names of an order stay as they were in the Secret `before`.
#[must_use]
pub fn order(uid: &str, generation: i64, before: Option<&Values>, notes: &Notes) -> Values {
    let mut secret = notes.within(Values::new());
    secret.insert(move_file::TO_FILE.to_owned(), b"true".to_vec());
    let place = moving::word(DatabaseMode::Embedded);
    named(secret, (uid, generation), place, before)
}

#[cfg(test)]
mod tests {
    use crds::control::{self, MovePhase};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::database::between::{Pods, Source, in_force, is_order, noted, step};

    fn of(database: &serde_json::Value) -> ReportsServerSpec {
        let spec = json!({"targetNamespace": "target", "database": database});
        serde_json::from_value(spec).unwrap()
    }

    fn postgres() -> ReportsServerSpec {
        of(&json!({"mode": "Managed"}))
    }

    fn server(engine: DatabaseEngine, can_move_to_file: bool) -> control::DatabaseStatus {
        control::DatabaseStatus {
            engine,
            sequence: 1,
            resource_version: "1".to_owned(),
            history: (engine == DatabaseEngine::Postgres).then(|| "h".to_owned()),
            elsewhere: None,
            can_move: engine == DatabaseEngine::Postgres,
            can_move_to_file,
            move_: None,
        }
    }

    fn told(server: control::DatabaseStatus, phase: MovePhase) -> control::DatabaseStatus {
        control::DatabaseStatus {
            move_: Some(control::DatabaseMove {
                phase,
                target: "Embedded, generation 4".to_owned(),
                attempts: 1,
                objects_copied: 0,
                objects_total: 0,
                sequence: 0,
                held_milliseconds: None,
                message: String::new(),
            }),
            ..server
        }
    }

    fn ordered() -> Values {
        let notes = Notes {
            specification: of(&json!({"mode": "Embedded"})),
            before: postgres(),
            source: Source::default(),
            destination: super::super::Egress::default(),
            moved_to: None,
        };
        order("uid-1", 4, None, &notes)
    }

    /// The facts, as their owner has them.
    struct Facts {
        accepted: ReportsServerSpec,
        wanted: ReportsServerSpec,
        secret: Option<Values>,
        server: Option<control::DatabaseStatus>,
        noted: Option<&'static str>,
        pods: Pods,
        leaves: bool,
    }

    impl Facts {
        fn seen(&self) -> Seen<'_> {
            Seen {
                accepted: Some(&self.accepted),
                mode: Some(DatabaseMode::Managed),
                is_usable: true,
                wanted: &self.wanted,
                identity: "",
                secret: self.secret.as_ref(),
                server: self.server.as_ref(),
                noted: self.noted,
                abandoned: None,
                destination: None,
                pods: self.pods,
                leaves: self.leaves,
            }
        }

        fn step(&self) -> Step {
            step(&self.seen())
        }

        /// Returns the mode that is in force in place of the one that is wanted.
        fn in_force(&self) -> Option<DatabaseMode> {
            let seen = self.seen();
            in_force(&step(&seen), &seen).as_ref().map(mode)
        }
    }

    fn asked() -> Facts {
        Facts {
            accepted: postgres(),
            wanted: of(&json!({"mode": "Embedded"})),
            secret: None,
            server: Some(server(DatabaseEngine::Postgres, true)),
            noted: Some("h"),
            pods: Pods {
                serve: true,
                rolled_out: true,
                hear: true,
                has_file: true,
                ..Pods::default()
            },
            leaves: false,
        }
    }

    #[test]
    fn the_one_server_with_the_volume_is_told() {
        assert_eq!(asked().step(), Step::Tell);
        assert_eq!(asked().in_force(), Some(DatabaseMode::Managed));
        let pods = |has_file, rolled_out| Pods {
            rolled_out,
            has_file,
            ..asked().pods
        };
        let prepares = |facts: &Facts| match facts.step() {
            Step::Prepare(why) => why,
            other => panic!("{other:?}"),
        };
        for (has_file, rolled_out, why) in [
            (false, true, "takes the place"),
            (true, false, "the only one"),
        ] {
            let facts = Facts {
                pods: pods(has_file, rolled_out),
                ..asked()
            };
            assert!(prepares(&facts).contains(why));
            assert_eq!(facts.in_force(), Some(DatabaseMode::Managed));
        }
        let silent = Facts {
            server: None,
            ..asked()
        };
        assert!(prepares(&silent).contains("no server has answered"));
        let old = Facts {
            server: Some(server(DatabaseEngine::Postgres, false)),
            ..asked()
        };
        assert!(prepares(&old).contains("spec.images.server"));
    }

    #[test]
    fn a_move_to_the_volume_waits_for_nothing_that_goes() {
        let leaves = Facts {
            leaves: true,
            ..asked()
        };
        assert!(matches!(leaves.step(), Step::Wait(why) if why.contains("deleted")));
        let of_before = Facts {
            secret: Some(Values::new()),
            ..asked()
        };
        assert_eq!(of_before.step(), Step::Clear);
    }

    #[rstest]
    #[case(json!({"ephemeral": "EmptyDir"}), "outlives the pod")]
    #[case(json!({"bootstrap": {"recovery": {"backupName": "b"}}}), "no backup is restored")]
    fn what_would_lose_the_reports_is_refused(
        #[case] embedded: serde_json::Value,
        #[case] words: &str,
    ) {
        let facts = Facts {
            wanted: of(&json!({"mode": "Embedded", "embedded": embedded})),
            ..asked()
        };
        assert!(matches!(facts.step(), Step::Refuse(why) if why.contains(words)));
        assert_eq!(facts.in_force(), None);
    }

    #[test]
    fn the_engine_says_that_the_reports_are_there() {
        let under_way = |server| Facts {
            secret: Some(ordered()),
            server: Some(server),
            ..asked()
        };
        let copies = told(server(DatabaseEngine::Postgres, true), MovePhase::Copying);
        assert_eq!(under_way(copies).step(), Step::Tell);
        let given_up = told(server(DatabaseEngine::Postgres, true), MovePhase::GivenUp);
        assert_eq!(under_way(given_up).step(), Step::GivenUp);
        // Whatever order it tells of.
        let moved = under_way(server(DatabaseEngine::Sqlite, false));
        assert_eq!(moved.step(), Step::Note(String::new()));
        assert_eq!(moved.in_force(), Some(DatabaseMode::Managed));
        let set_back = Facts {
            wanted: postgres(),
            ..moved
        };
        assert_eq!(set_back.step(), Step::Note(String::new()));
        // The order is lost, and the server is there.
        let lost = Facts {
            secret: None,
            ..under_way(server(DatabaseEngine::Sqlite, false))
        };
        assert_eq!(lost.step(), Step::TellAgain);
    }

    #[test]
    fn an_order_is_taken_back_in_time() {
        let facts = Facts {
            secret: Some(ordered()),
            wanted: postgres(),
            ..asked()
        };
        assert_eq!(facts.step(), Step::GiveUp);
        assert_eq!(facts.in_force(), Some(DatabaseMode::Managed));
    }

    #[test]
    fn what_was_noted_is_carried_out_first() {
        let moved = |accepted: ReportsServerSpec, status, rolled_out| Facts {
            accepted,
            secret: Some(noted(ordered(), "")),
            server: Some(server(DatabaseEngine::Sqlite, false)),
            noted: status,
            pods: Pods {
                rolled_out,
                ..asked().pods
            },
            ..asked()
        };
        let there = of(&json!({"mode": "Embedded"}));
        let here = moved(postgres(), Some("h"), true);
        assert_eq!(here.step(), Step::Switch(String::new()));
        assert_eq!(here.in_force(), None, "it is the one that is wanted");
        let set_back = Facts {
            wanted: postgres(),
            ..here
        };
        assert_eq!(set_back.in_force(), Some(DatabaseMode::Embedded));
        let finish = Step::Finish(String::new());
        assert_eq!(moved(there.clone(), Some("h"), true).step(), finish);
        assert_eq!(moved(there.clone(), None, false).step(), finish);
        let over = Step::Over(String::new());
        assert_eq!(moved(there, None, true).step(), over);
    }

    #[test]
    fn an_order_has_a_name_of_its_own() {
        let secret = ordered();
        assert!(is_order(&secret));
        assert_eq!(secret[move_file::ORDER], b"uid-1/4");
        assert_eq!(secret[move_file::TARGET], b"Embedded, generation 4");
        assert!(secret.contains_key(move_file::TO_FILE));
        assert!(!secret.contains_key(move_file::CLUSTER_IDENTITY));
        let notes = Notes::read(&secret).unwrap();
        let renewed = order("uid-1", 9, Some(&secret), &notes);
        assert_eq!(renewed, secret);
    }
}
