//! The facts about a PostgreSQL database, for conditions, status and metrics.

use crds::v1alpha1::reasons;
use database::Parameters;

use super::check::{Usable, Verdict};
use super::files::Problem;

/// Most bytes of `status.database.host` and `status.database.primary`.
const MAX_NAME: usize = 253;

/// The state of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not been examined yet.
    Unknown,
    /// It can hold reports.
    Usable,
    /// It cannot.
    Unusable(Problem),
}

/// The facts about a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The state of the database.
    pub state: State,
    /// The hosts that the servers connect to.
    pub host: Option<String>,
    /// The instance that takes writes: by name where the name is known, else host and port.
    pub primary: Option<String>,
    /// Version of PostgreSQL.
    pub version: Option<String>,
    /// Bytes that reports take.
    pub bytes: Option<i64>,
    /// Version of the schema.
    pub schema_version: Option<String>,
}

impl Known {
    /// Returns a database that cannot even be connected to.
    #[must_use]
    pub fn problem(problem: Problem, primary: Option<String>) -> Self {
        Self {
            state: State::Unusable(problem),
            host: None,
            primary,
            version: None,
            bytes: None,
            schema_version: None,
        }
    }

    /// Returns the facts from the result of an examination. Whoever runs the database may know of a
    /// `problem` or name the `primary`; both come before the result.
    #[must_use]
    pub fn found(
        parameters: &Parameters,
        verdict: Option<Verdict>,
        primary: Option<String>,
        problem: Option<Problem>,
    ) -> Self {
        let (state, usable) = match verdict {
            None => (State::Unknown, None),
            Some(Verdict::Usable(usable)) => (State::Usable, Some(usable)),
            Some(Verdict::Unusable(problem)) => (State::Unusable(problem), None),
        };
        let part = |read: fn(&Usable) -> String| usable.as_ref().map(read);
        Self {
            state: problem.map_or(state, State::Unusable),
            host: Some(shortened(parameters.address())),
            primary: primary
                .or_else(|| part(|usable| usable.endpoint.clone()))
                .map(shortened),
            version: part(|usable| usable.version.clone()),
            bytes: usable.as_ref().map(|usable| usable.contents.bytes),
            schema_version: usable
                .as_ref()
                .and_then(|usable| usable.contents.schema_version)
                .map(|version| version.to_string()),
        }
    }

    /// Returns whether it can be used; `None` while this is not known.
    #[must_use]
    pub fn usable(&self) -> Option<bool> {
        match self.state {
            State::Unknown => None,
            State::Usable => Some(true),
            State::Unusable(_) => Some(false),
        }
    }

    /// Returns the problem that it is another database than the one in use, or holds the cluster
    /// under another identity. Trying again does not help.
    #[must_use]
    pub fn mistaken(&self) -> Option<&Problem> {
        const MISTAKEN: [&str; 2] = [reasons::OTHER_DATABASE, reasons::OTHER_IDENTITY];
        match &self.state {
            State::Unusable(problem) if MISTAKEN.contains(&problem.reason) => Some(problem),
            _ => None,
        }
    }

    /// Returns the reason of the condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match &self.state {
            State::Unknown => reasons::UNKNOWN,
            State::Usable => reasons::DATABASE_AVAILABLE,
            State::Unusable(problem) => problem.reason,
        }
    }
}

/// Shortens a text that is too long for the status; many hosts make a long line.
fn shortened(text: String) -> String {
    if text.len() <= MAX_NAME {
        return text;
    }
    let mut short: String = text.chars().take(MAX_NAME - '…'.len_utf8()).collect();
    while short.len() > MAX_NAME - '…'.len_utf8() {
        short.pop();
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use database::inspect::Contents;

    use super::*;

    fn parameters(hosts: &str) -> Parameters {
        let pairs = [
            ("host", hosts),
            ("dbname", "d"),
            ("username", "u"),
            ("sslmode", "disable"),
        ];
        Parameters::from_map(pairs).unwrap()
    }

    fn usable() -> Verdict {
        Verdict::Usable(Usable {
            endpoint: "b:5432".into(),
            version: "17.2".into(),
            contents: Contents {
                bytes: 7,
                schema_version: Some(3),
            },
            held: Vec::new(),
            sought: None,
        })
    }

    #[test]
    fn who_runs_the_database_knows_better_than_the_examination() {
        let found = Known::found(&parameters("a,b"), Some(usable()), None, None);
        assert_eq!(found.usable(), Some(true));
        assert_eq!(found.host.as_deref(), Some("a:5432,b:5432"));
        assert_eq!(found.primary.as_deref(), Some("b:5432"));
        assert_eq!(
            (found.bytes, found.schema_version.as_deref()),
            (Some(7), Some("3"))
        );

        let problem = Problem::new(reasons::FAILING_OVER, "from a to b");
        let told = Known::found(
            &parameters("a,b"),
            Some(usable()),
            Some("pg-1".into()),
            Some(problem),
        );
        assert_eq!(told.reason(), reasons::FAILING_OVER);
        assert_eq!(told.primary.as_deref(), Some("pg-1"));
    }

    #[test]
    fn a_long_list_of_hosts_fits_into_the_status() {
        let hosts: Vec<String> = (0..60).map(|i| format!("ä{i}-host")).collect();
        let line = shortened(hosts.join(","));
        assert!(line.len() <= MAX_NAME && line.ends_with('…'), "{line}");
    }
}
