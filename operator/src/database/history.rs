//! The database in use, known by the history that the cluster has there.

use crds::v1alpha1::reasons;
use database::inspect::Held;

use super::check::{Usable, Verdict};
use super::files::Problem;
use super::place::{Connection, Source};

/// Returns the history of the database in use: the one that is `noted` in the status, or the one
/// that the server has `told` of. One that is `abandoned` counts no more.
#[must_use]
pub fn in_use(noted: Option<&str>, told: Option<&str>, abandoned: Option<&str>) -> Option<String> {
    let counts = |history: &&str| Some(*history) != abandoned;
    let history = noted.filter(counts).or(told.filter(counts));
    history.map(str::to_owned)
}

/// The facts that decide whether a history is given up.
#[derive(Clone, Copy, Debug)]
pub struct GivenUp<'a> {
    /// The history that somebody wants to give up.
    pub asked: Option<&'a String>,
    /// The one that is noted in the status.
    pub noted: Option<&'a str>,
    /// True when an API group is served.
    pub is_served: bool,
    /// The identity of the cluster.
    pub identity: &'a str,
    /// The outcome of the last examination of the database in use.
    pub present: Option<&'a Verdict>,
}

/// Returns the history that is given up on purpose, or was. One that is in use is not, while an API
/// group is served from it.
#[must_use]
pub fn given_up(facts: GivenUp<'_>) -> Option<&str> {
    let asked = facts.asked?.as_str();
    let counts = !facts.is_served
        || facts.noted != Some(asked)
        || is_other(facts.identity, asked, facts.present);
    counts.then_some(asked)
}

/// The database that a `ReportsServer` should be on.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The identity of the cluster.
    pub identity: &'a str,
    /// uid of its namespace `kube-system`.
    pub cluster_uid: &'a str,
    /// The history of the database in use; none before the first use.
    pub history: Option<&'a str>,
    /// The namespace of the Secrets.
    pub namespace: &'a str,
    /// The connection to it.
    pub connection: &'a Connection,
}

/// Returns whether `verdict` is about a database without this `history` of the cluster.
#[must_use]
pub fn is_other(identity: &str, history: &str, verdict: Option<&Verdict>) -> bool {
    let Some(Verdict::Usable(usable)) = verdict else {
        return false;
    };
    let own = |held: &Held| held.identity == identity && held.history == history;
    !usable.held.iter().any(own)
}

/// Returns the problem that `verdict` is about a database in which the cluster must not be begun:
/// another one than the one in use, or, before the first use, one that holds the cluster under
/// another identity. One that was read before the history in use was known says nothing of it: the
/// server may have begun it since.
#[must_use]
pub fn mistaken(wanted: Wanted<'_>, verdict: Option<&Verdict>) -> Option<Problem> {
    let Some(Verdict::Usable(usable)) = verdict else {
        return None;
    };
    let own = usable.held.iter().find(|h| h.identity == wanted.identity);
    match wanted.history {
        Some(history)
            if usable.sought.as_deref() == Some(history)
                && is_other(wanted.identity, history, verdict) =>
        {
            Some(other_database(wanted, history, own, usable))
        }
        None if own.is_none() => other_identity(wanted, usable),
        Some(_) | None => None,
    }
}

fn other_database(
    wanted: Wanted<'_>,
    history: &str,
    own: Option<&Held>,
    usable: &Usable,
) -> Problem {
    let message = format!(
        "the database at {} is not the one that holds the reports: it has {}, not history {history} \
         of cluster {}; lead {} back to the right database, or restore a backup of it there",
        usable.endpoint,
        found(own, &usable.held),
        wanted.identity,
        place(wanted.namespace, wanted.connection),
    );
    Problem::new(reasons::OTHER_DATABASE, message)
}

fn other_identity(wanted: Wanted<'_>, usable: &Usable) -> Option<Problem> {
    let uid = wanted.cluster_uid;
    let same = |held: &&Held| {
        held.cluster_uid == uid || (held.cluster_uid.is_empty() && held.identity == uid)
    };
    let found = usable.held.iter().find(same)?;
    let message = format!(
        "spec.clusterIdentity.id: the database at {} holds the reports of this cluster under {}, not \
         under {}; set it to {}, or lead {} to another database",
        usable.endpoint,
        found.identity,
        wanted.identity,
        found.identity,
        place(wanted.namespace, wanted.connection),
    );
    Some(Problem::new(reasons::OTHER_IDENTITY, message))
}

/// Returns the words for the clusters that a database holds, with the `own` one among them.
fn found(own: Option<&Held>, held: &[Held]) -> String {
    match own {
        Some(own) => format!("history {}", own.history),
        None if held.is_empty() => "no reports at all".to_owned(),
        None => {
            let identities: Vec<&str> = held.iter().map(|h| h.identity.as_str()).collect();
            format!("the reports of {}", identities.join(", "))
        }
    }
}

/// Returns the words for the place of the connection's parameters.
fn place(namespace: &str, connection: &Connection) -> String {
    let secret = connection.sources.iter().find_map(|source| match source {
        Source::Secret { name, .. } => Some(name),
        Source::ConfigMap { .. } => None,
    });
    match secret {
        Some(name) => format!("Secret {namespace}/{name}"),
        None => "the connection".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use database::inspect::Contents;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::not_served(Some("h"), false, &["h"], true)]
    #[case::served(Some("h"), true, &["h"], false)]
    #[case::another_one_is_in_use(Some("other"), true, &["h"], true)]
    #[case::lost(Some("h"), true, &[], true)]
    fn a_history_in_use_is_not_given_up_while_it_is_served(
        #[case] noted: Option<&str>,
        #[case] is_served: bool,
        #[case] held: &[&str],
        #[case] expected: bool,
    ) {
        let held: Vec<(&str, &str)> = held.iter().map(|history| ("ours", *history)).collect();
        let present = holding(&held, None);
        let asked = "h".to_owned();
        let given_up = given_up(GivenUp {
            asked: Some(&asked),
            noted,
            is_served,
            identity: "ours",
            present: Some(&present),
        });
        assert_eq!(given_up, expected.then_some("h"));
    }

    #[rstest]
    #[case(None, None, None, None)]
    #[case(None, Some("new"), None, Some("new"))]
    #[case(Some("old"), Some("new"), None, Some("old"))]
    #[case(Some("old"), Some("old"), Some("old"), None)]
    #[case(Some("old"), Some("new"), Some("old"), Some("new"))]
    #[case(Some("new"), None, Some("old"), Some("new"))]
    fn a_history_stays_in_use_until_it_is_abandoned(
        #[case] noted: Option<&str>,
        #[case] told: Option<&str>,
        #[case] abandoned: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(in_use(noted, told, abandoned).as_deref(), expected);
    }

    fn holding(held: &[(&str, &str)], sought: Option<&str>) -> Verdict {
        let held = held.iter().map(|(identity, history)| Held {
            identity: (*identity).to_owned(),
            history: (*history).to_owned(),
            cluster_uid: format!("uid of {identity}"),
        });
        Verdict::Usable(Usable {
            endpoint: "db:5432".into(),
            version: "17.2".into(),
            contents: Contents::default(),
            held: held.collect(),
            sought: sought.map(str::to_owned),
        })
    }

    fn judged(history: Option<&str>, held: &[(&str, &str)]) -> Option<Problem> {
        judged_by(history, &holding(held, history))
    }

    fn judged_by(history: Option<&str>, verdict: &Verdict) -> Option<Problem> {
        let source = Source::Secret {
            name: "pg".into(),
            items: Vec::new(),
            optional: false,
        };
        let connection = Connection {
            sources: vec![source],
            ..Connection::default()
        };
        let wanted = Wanted {
            identity: "ours",
            cluster_uid: "uid of renamed",
            history,
            namespace: "reports",
            connection: &connection,
        };
        mistaken(wanted, Some(verdict))
    }

    #[test]
    fn what_was_read_before_the_server_began_a_history_is_not_held_against_it() {
        for sought in [None, Some("abandoned")] {
            assert_eq!(judged_by(Some("h"), &holding(&[], sought)), None);
        }
        assert!(judged_by(Some("h"), &holding(&[], Some("h"))).is_some());
    }

    #[test]
    fn before_the_first_use_every_database_will_do() {
        assert_eq!(judged(None, &[]), None);
        assert_eq!(judged(None, &[("theirs", "t")]), None);
        assert_eq!(judged(None, &[("ours", "h"), ("renamed", "r")]), None);
    }

    #[test]
    fn a_cluster_is_not_begun_anew_under_another_identity() {
        let problem = judged(None, &[("theirs", "t"), ("renamed", "r")]).unwrap();
        assert_eq!(problem.reason, reasons::OTHER_IDENTITY);
        let words = "under renamed, not under ours; set it to renamed, or";
        assert!(problem.message.contains(words), "{}", problem.message);
    }

    #[test]
    fn the_history_in_use_is_the_one_that_will_do_afterwards() {
        assert_eq!(judged(Some("h"), &[("ours", "h"), ("theirs", "t")]), None);
        for (held, words) in [
            (
                &[][..],
                "has no reports at all, not history h of cluster ours;",
            ),
            (&[("ours", "x")][..], "has history x, not"),
            (
                &[("theirs", "h"), ("others", "o")][..],
                "the reports of theirs, others,",
            ),
        ] {
            let problem = judged(Some("h"), held).unwrap();
            assert_eq!(problem.reason, reasons::OTHER_DATABASE);
            assert!(problem.message.contains(words), "{}", problem.message);
            assert!(problem.message.contains("Secret reports/pg"));
        }
    }
}
