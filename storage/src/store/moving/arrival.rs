//! The first steps of a server in the database that the reports were moved to.

use super::rows::Departure;
use crate::store::postgres::Postgres;
use crate::store::{Etcd, OpenError, PostgresOptions};

/// Opens the database that reports were moved to, for a server that goes on there from what clients
/// may hold of the one that they have left.
pub(super) async fn arrive(
    options: &PostgresOptions,
    departure: &Departure,
    etcd: &dyn Etcd,
) -> Result<Postgres, OpenError> {
    let engine = Postgres::open_moved(options, departure).await?;
    if engine.is_apart(&departure.last).await? {
        let revision = etcd.revision().await.map_err(OpenError::Revision)?;
        engine.begin_behind(&departure.last, revision).await?;
    }
    Ok(engine)
}
