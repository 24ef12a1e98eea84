//! The examination of a database: whether it can hold reports, and how much it holds.

use tokio_postgres::{Client, Error, Row};

use crate::Diagnosis;
use crate::diagnosis::find;

/// Schema of the server's tables.
pub const SCHEMA: &str = "reports_server";
/// Schema of the views for people who ask in SQL.
pub const VIEWS: &str = "reports";

/// Encoding that every JSON document can be stored in.
const ENCODING: &str = "UTF8";

/// The reason why a database cannot hold reports.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The role lacks a right.
    #[error("user {user:?} {what} in database {dbname:?} ({said})")]
    Rights {
        /// The role.
        user: String,
        /// The database.
        dbname: String,
        /// The action that is refused, and the remedy.
        what: &'static str,
        /// The message of the server.
        said: String,
    },
    /// Another role owns tables of ours.
    #[error(
        "user {user:?} does not own the tables in schema {SCHEMA}, {owner:?} does: connect as \
         {owner:?}, or grant its role to {user:?}"
    )]
    Owner {
        /// The role.
        user: String,
        /// The role that owns them.
        owner: String,
    },
    /// Text is stored in an encoding that cannot express every report.
    #[error(
        "database {dbname:?} has encoding {encoding}, but {ENCODING} is needed: create it with \
             ENCODING '{ENCODING}'"
    )]
    Encoding {
        /// The database.
        dbname: String,
        /// The encoding of the database.
        encoding: String,
    },
    /// The server was built without what is needed.
    #[error("the server lacks a required feature: {0}")]
    Feature(String),
    /// The question could not be asked.
    #[error("the database could not be examined: {0}")]
    Failed(#[source] Error),
}

impl Unfit {
    /// Returns what has to be done.
    #[must_use]
    pub fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Rights { .. } | Self::Owner { .. } => Diagnosis::MissingRights,
            Self::Encoding { .. } | Self::Feature(_) => Diagnosis::Unsuitable,
            Self::Failed(error) => Diagnosis::of(error),
        }
    }
}

/// Checks that the role can do what the server's migrations do. Schemas and tables are made in a
/// transaction that is rolled back, so that nothing stays, and nothing is guessed from catalogs
/// that engines fill differently. It writes to the catalogs; do not ask every second.
///
/// # Errors
/// [`Unfit`] says what is missing.
pub async fn fitness(client: &Client) -> Result<(), Unfit> {
    let place = place(client).await.map_err(Unfit::Failed)?;
    if place.encoding != ENCODING {
        return Err(Unfit::Encoding {
            dbname: place.dbname,
            encoding: place.encoding,
        });
    }
    if let Some(owner) = place.foreign_owner {
        return Err(Unfit::Owner {
            user: place.user,
            owner,
        });
    }
    client.batch_execute("BEGIN").await.map_err(Unfit::Failed)?;
    let result = try_out(client, &place).await;
    // A connection that is lost rolls back as well; what was found out counts.
    let rolled_back = client.batch_execute("ROLLBACK").await;
    result.and(rolled_back.map_err(Unfit::Failed))
}

struct Place {
    user: String,
    dbname: String,
    encoding: String,
    has_schema: bool,
    has_views: bool,
    foreign_owner: Option<String>,
}

async fn place(client: &Client) -> Result<Place, Error> {
    const QUESTION: &str = "
        SELECT current_user::text, current_database()::text,
            pg_catalog.current_setting('server_encoding'),
            pg_catalog.to_regnamespace($1) IS NOT NULL, pg_catalog.to_regnamespace($2) IS NOT NULL,
            (SELECT min(pg_catalog.pg_get_userbyid(c.relowner)::text)
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
               AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE'))";
    let text = tokio_postgres::types::Type::TEXT;
    let parameters = [
        (
            &SCHEMA as &(dyn tokio_postgres::types::ToSql + Sync),
            text.clone(),
        ),
        (&VIEWS, text),
    ];
    let rows = client.query_typed(QUESTION, &parameters).await?;
    let Some(row) = rows.first() else {
        return Ok(Place::nowhere());
    };
    Ok(Place {
        user: row.try_get(0)?,
        dbname: row.try_get(1)?,
        encoding: row.try_get(2)?,
        has_schema: row.try_get(3)?,
        has_views: row.try_get(4)?,
        foreign_owner: row.try_get(5)?,
    })
}

impl Place {
    /// Returns the place for an engine that answers the question without a row, which cannot be
    /// used.
    fn nowhere() -> Self {
        Self {
            user: String::new(),
            dbname: String::new(),
            encoding: "unknown".to_owned(),
            has_schema: false,
            has_views: false,
            foreign_owner: None,
        }
    }
}

const NO_SCHEMA: &str = "may not create schemas: GRANT CREATE ON DATABASE to it, or create the \
                         schemas reports_server and reports with it as owner";
const NO_TABLE: &str =
    "may not create tables in schema reports_server: make it the owner of the schema";
const NO_VIEW: &str = "may not create views in schema reports: make it the owner of the schema";

async fn try_out(client: &Client, place: &Place) -> Result<(), Unfit> {
    let run = async |statement: &str, what| {
        let done = client.batch_execute(statement).await;
        done.map_err(|error| refusal(error, place, what))
    };
    // Whoever changes the tables now must not be waited for long.
    run("SET LOCAL lock_timeout = '2s'", NO_TABLE).await?;
    if !place.has_schema {
        run("CREATE SCHEMA reports_server", NO_SCHEMA).await?;
    }
    if !place.has_views {
        run("CREATE SCHEMA reports", NO_SCHEMA).await?;
    }
    let table = "CREATE TABLE reports_server.fitness_probe (id bigint, body text COMPRESSION lz4) \
                 PARTITION BY RANGE (id)";
    run(table, NO_TABLE).await?;
    let view = "CREATE VIEW reports.fitness_probe AS SELECT id FROM reports_server.fitness_probe";
    run(view, NO_VIEW).await
}

fn refusal(error: Error, place: &Place, what: &'static str) -> Unfit {
    use tokio_postgres::error::SqlState;
    let Some(db) = find::<tokio_postgres::error::DbError>(&error) else {
        return Unfit::Failed(error);
    };
    match *db.code() {
        SqlState::INSUFFICIENT_PRIVILEGE => Unfit::Rights {
            user: place.user.clone(),
            dbname: place.dbname.clone(),
            what,
            said: db.message().to_owned(),
        },
        SqlState::FEATURE_NOT_SUPPORTED | SqlState::SYNTAX_ERROR => {
            Unfit::Feature(db.message().to_owned())
        }
        _ => Unfit::Failed(error),
    }
}

/// The content of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Bytes of tables and indexes of all clusters in the database.
    pub bytes: i64,
    /// Number of the newest migration; none before the first server started.
    pub schema_version: Option<i64>,
}

/// A cluster whose reports a database holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The identity of the cluster.
    pub identity: String,
    /// The history that was begun with it, which no other database has.
    pub history: String,
    /// The uid of the cluster's namespace `kube-system`, which stays the same under every identity.
    /// Empty where no server has told.
    pub cluster_uid: String,
}

/// Returns clusters that the database holds, at most ten: `identity` first, then others of the
/// cluster with `cluster_uid`, where they are among them. One that is being filled by a move, or has
/// moved away, has no commits, and is not among them.
///
/// # Errors
/// If the database cannot be asked.
pub async fn held(client: &Client, identity: &str, cluster_uid: &str) -> Result<Vec<Held>, Error> {
    const KNOWN: &str = "SELECT pg_catalog.to_regclass('reports_server.clusters') IS NOT NULL";
    const CLUSTERS: &str =
        "SELECT identity, history::text, cluster_uid FROM reports_server.clusters c
        WHERE EXISTS (SELECT FROM reports_server.commits k WHERE k.cluster = c.cluster)
        ORDER BY identity <> $1, $2 NOT IN (identity, cluster_uid), cluster LIMIT 10";
    let rows = client.query_typed(KNOWN, &[]).await?;
    let known = rows.first().map(|row| row.try_get::<_, bool>(0));
    if known.transpose()? != Some(true) {
        return Ok(Vec::new());
    }
    let text = tokio_postgres::types::Type::TEXT;
    let parameters = [
        (
            &identity as &(dyn tokio_postgres::types::ToSql + Sync),
            text.clone(),
        ),
        (&cluster_uid, text),
    ];
    let rows = client.query_typed(CLUSTERS, &parameters).await?;
    rows.iter().map(Held::of).collect()
}

impl Held {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            identity: row.try_get(0)?,
            history: row.try_get(1)?,
            cluster_uid: row.try_get(2)?,
        })
    }
}

/// Returns how much is stored, and by which version of the schema. Cheap enough for every minute:
/// sizes come from the file system.
///
/// # Errors
/// If the database cannot be asked.
pub async fn contents(client: &Client) -> Result<Contents, Error> {
    const BYTES: &str = "
        SELECT coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint,
            pg_catalog.to_regclass('reports_server.migrations') IS NOT NULL
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'reports_server' AND c.relkind = 'r'";
    const VERSION: &str = "SELECT max(version)::bigint FROM reports_server.migrations";
    let rows = client.query_typed(BYTES, &[]).await?;
    let (bytes, migrated) = match rows.first() {
        Some(row) => (row.try_get(0)?, row.try_get(1)?),
        None => (0, false),
    };
    let mut schema_version = None;
    if migrated {
        let rows = client.query_typed(VERSION, &[]).await?;
        schema_version = rows
            .first()
            .map(|row| row.try_get(0))
            .transpose()?
            .flatten();
    }
    Ok(Contents {
        bytes,
        schema_version,
    })
}
