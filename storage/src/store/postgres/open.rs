//! Opening a database.

use std::sync::Arc;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::{Connector, PgConnection};
use super::instance::{Greeting, Postgres};
use super::place::Place;
use super::{PostgresError, migrate, moving, place, probe, rejoin};
use crate::store::engine::EngineError;
use crate::store::moving::rows::Departure;
use crate::store::{OpenError, PostgresOptions};

/// The place of a cluster's reports.
pub(crate) enum Found {
    /// This database, which is open.
    Here(Box<Postgres>),
    /// Another one.
    Moved(Departure),
}

impl Postgres {
    /// Opens the database like [`Postgres::find`]; one from which the cluster has moved away is an
    /// error.
    pub async fn open(options: &PostgresOptions) -> Result<Self, OpenError> {
        match Self::find(options).await? {
            Found::Here(engine) => Ok(*engine),
            Found::Moved(departure) if departure.marker.leads_to_file() => {
                Err(OpenError::MovedToFile)
            }
            Found::Moved(departure) => Err(OpenError::MovedAway(departure.marker.identity)),
        }
    }

    /// Connects, brings the schema up to date and finds the cluster's place in the database. A
    /// database in which the cluster is expected, and is not, stays as it is, and so does one from
    /// which it has moved away.
    pub async fn find(options: &PostgresOptions) -> Result<Found, OpenError> {
        let (connector, connection, greeting) = Self::connect(options).await?;
        let identity = &options.cluster_identity;
        if let Some(departure) = moving::departure(&connection, identity).await? {
            connection.close().await;
            return Ok(Found::Moved(departure));
        }
        if let Some(history) = place::expected(&options.directory) {
            place::expect(&connection, identity, &history)
                .await
                .map_err(EngineError::from)?;
        }
        migrate::migrate(&connection).await?;
        let cluster = register(&connection, options).await?;
        if moving::is_filled(&connection, cluster).await? {
            return Err(OpenError::BeingFilled(options.cluster_identity.clone()));
        }
        let place = Place::find(&connection, identity)
            .await
            .map_err(EngineError::from)?;
        connection.close().await;
        let place = place.ok_or(EngineError::Parted)?;
        let engine = Self::assemble(connector, greeting, place, options);
        rejoin::check_origin(&engine).await?;
        engine.look_around().await?;
        Ok(Found::Here(Box::new(engine)))
    }

    /// Returns the history of the cluster in the database that `options` name, if it is there;
    /// nothing is made.
    pub async fn history_at(options: &PostgresOptions) -> Result<Option<String>, EngineError> {
        let (_, connection, _) = Self::connect(options).await?;
        let place = Place::find(&connection, &options.cluster_identity).await?;
        connection.close().await;
        Ok(place.map(|place| place.history))
    }

    pub(super) async fn connect(
        options: &PostgresOptions,
    ) -> Result<(Arc<Connector>, PgConnection, Greeting), EngineError> {
        let connector = Arc::new(Connector::new(
            &options.directory,
            &options.application_name,
        ));
        let (session, revision) = connector.session().await?;
        let greeting = Greeting {
            version: session.version.clone(),
            plain: !session.settings_in_force,
        };
        let connection = PgConnection::new(session, revision);
        Ok((connector, connection, greeting))
    }

    /// Finds out the capabilities of the database, for metrics and logs.
    pub(super) async fn look_around(&self) -> Result<(), OpenError> {
        let info = probe::probe(self, self.greeting.clone()).await?;
        self.info.get_or_init(|| info);
        Ok(())
    }
}

/// Code of the database's refusal to begin a cluster that has rows under another identity, which is
/// the message.
const OTHER_IDENTITY: &str = "RS003";

/// Finds the cluster's number, or assigns one. Its log has partitions where the database supports
/// them.
async fn register(connection: &PgConnection, options: &PostgresOptions) -> Result<i32, OpenError> {
    let registered = match try_register(connection, options, true).await {
        Err(error) if error.is_unsupported() => try_register(connection, options, false).await,
        other => other,
    };
    registered.map_err(|error| match other_identity(&error) {
        Some(found) => OpenError::OtherIdentity {
            found,
            wanted: options.cluster_identity.clone(),
        },
        None => EngineError::from(error).into(),
    })
}

/// Returns the identity under which the database holds the cluster, where that is the error.
fn other_identity(error: &PostgresError) -> Option<String> {
    let PostgresError::Statement(refusal) = error else {
        return None;
    };
    let answer = refusal.as_db_error()?;
    let refused = *answer.code() == SqlState::from_code(OTHER_IDENTITY);
    refused.then(|| answer.message().to_owned())
}

async fn try_register(
    connection: &PgConnection,
    options: &PostgresOptions,
    partitions: bool,
) -> Result<i32, PostgresError> {
    let rows = connection
        .long_query(
            "SELECT reports_server.register_v1($1, $2, $3, $4) AS cluster",
            &[
                (&options.cluster_identity, Type::TEXT),
                (&options.cluster_name, Type::TEXT),
                (&options.cluster_uid, Type::TEXT),
                (&partitions, Type::BOOL),
            ],
        )
        .await?;
    let row = rows.first().ok_or(PostgresError::NoAnswer)?;
    Ok(row.try_get("cluster")?)
}
