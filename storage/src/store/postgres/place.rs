//! The place of a cluster in a database, and whether a database has it.
//!
//! A database is known by the cluster's identity and by the history that was begun with it: a
//! random name that goes along with backups, copies and upgrades. Parameters of a connection may
//! come to lead to a database that is empty, or holds others under the same number. Nothing may be
//! taken from there, and nothing begun.

use std::fmt;
use std::path::Path;

use crds::control::HISTORY_FILE;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::PgConnection;
use super::error::PostgresError;

/// Clusters that are looked at, the wanted one first; the others are named in a message.
const LOOK: &str = "SELECT cluster, identity, history::text AS history
    FROM reports_server.clusters ORDER BY identity <> $1, cluster LIMIT 10";

/// The place of a cluster in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The cluster's number there.
    pub cluster: i32,
    /// The cluster's identity.
    pub identity: String,
    /// The history that was begun with the cluster.
    pub history: String,
}

/// The parameters of the connection lead to a database that does not have the cluster's history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the parameters of the connection lead to another database: it holds {found}, not history \
     {history} of cluster {identity}; lead them back to the right database, or restore a backup \
     of it there"
)]
pub struct OtherDatabase {
    /// The identity of the cluster.
    pub identity: String,
    /// The history that was looked for.
    pub history: String,
    /// The content of the database.
    pub found: FoundHistories,
}

/// The clusters of a database that is not the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundHistories {
    /// None at all.
    Nothing,
    /// Another history of the same cluster.
    History(String),
    /// Only other clusters.
    Clusters(Vec<String>),
}

impl fmt::Display for FoundHistories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no reports at all"),
            Self::History(history) => write!(f, "history {history}"),
            Self::Clusters(names) => write!(f, "the reports of {}", names.join(", ")),
        }
    }
}

impl Place {
    /// Returns the cluster's place in the database behind `connection`, if it has one.
    pub async fn find(
        connection: &PgConnection,
        identity: &str,
    ) -> Result<Option<Self>, PostgresError> {
        let places = look(connection, identity).await?;
        Ok(own(&places, identity).cloned())
    }

    /// Makes sure that the database behind `connection` has this place.
    pub async fn check(&self, connection: &PgConnection) -> Result<(), PostgresError> {
        let places = look(connection, &self.identity).await?;
        if own(&places, &self.identity) == Some(self) {
            return Ok(());
        }
        Err(other(places, &self.identity, &self.history).into())
    }
}

/// Makes sure that the database behind `connection` has this history of the cluster, before
/// anything is made there.
pub(super) async fn expect(
    connection: &PgConnection,
    identity: &str,
    history: &str,
) -> Result<(), PostgresError> {
    let places = look(connection, identity).await?;
    if own(&places, identity).is_some_and(|place| place.history == history) {
        return Ok(());
    }
    Err(other(places, identity, history).into())
}

/// Returns the history that the directory with the parameters of the connection names; `None` where
/// the database has not been used before.
pub(super) fn expected(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join(HISTORY_FILE)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns clusters of the database; none where nothing was ever stored there.
async fn look(connection: &PgConnection, identity: &str) -> Result<Vec<Place>, PostgresError> {
    let rows = match connection.query(LOOK, &[(&identity, Type::TEXT)]).await {
        Ok(rows) => rows,
        Err(error)
            if error.is(&SqlState::UNDEFINED_TABLE) || error.is(&SqlState::INVALID_SCHEMA_NAME) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut places = Vec::with_capacity(rows.len());
    for row in &rows {
        places.push(Place {
            cluster: row.try_get("cluster")?,
            identity: row.try_get("identity")?,
            history: row.try_get("history")?,
        });
    }
    Ok(places)
}

fn own<'a>(places: &'a [Place], identity: &str) -> Option<&'a Place> {
    places.iter().find(|place| place.identity == identity)
}

/// Returns the error that `places` are not those of the right database.
fn other(places: Vec<Place>, identity: &str, history: &str) -> OtherDatabase {
    let found = match own(&places, identity) {
        Some(place) => FoundHistories::History(place.history.clone()),
        None if places.is_empty() => FoundHistories::Nothing,
        None => FoundHistories::Clusters(places.into_iter().map(|place| place.identity).collect()),
    };
    OtherDatabase {
        identity: identity.to_owned(),
        history: history.to_owned(),
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::{FoundHistories, Place, other};

    fn place(identity: &str) -> Place {
        Place {
            cluster: 1,
            identity: identity.to_owned(),
            history: format!("history of {identity}"),
        }
    }

    #[test]
    fn an_error_says_what_was_found() {
        let nothing = other(Vec::new(), "a", "h");
        assert_eq!(nothing.found, FoundHistories::Nothing);
        let text = nothing.to_string();
        assert!(
            text.contains("no reports at all, not history h of cluster a;"),
            "{text}"
        );
        let again = other(vec![place("a")], "a", "h");
        assert!(again.to_string().contains("holds history history of a,"));
        let others = other(vec![place("b"), place("c")], "a", "h");
        assert!(others.to_string().contains("the reports of b, c,"));
    }
}
