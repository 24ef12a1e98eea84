//! Records of resources.

use std::time::SystemTime;

use jiff::Timestamp;
use tokio_postgres::types::Type;

use super::super::connection::Parameter;
use super::super::rows::{column, db, gate_text};
use super::{Filling, Step};
use crate::model::{ResourceId, ResourceRecord};
use crate::store::engine::EngineError;

impl Filling {
    /// Stores the present records; a resource that is new gets a number here.
    pub async fn records(&mut self, records: &[ResourceRecord]) -> Result<(), EngineError> {
        let step = self.begin().await?;
        let mut fresh = Vec::new();
        for record in records {
            if let Some(id) = self.ids.get(&record.id) {
                update(&step, self.cluster(), *id, record).await?;
            } else {
                let id = insert(&step, self.cluster(), record).await?;
                fresh.push((record.id, id));
            }
        }
        step.commit().await?;
        self.ids.extend(fresh);
        Ok(())
    }

    /// Gives up a resource that was reset or is gone: its rows are dropped when the cluster is
    /// open.
    pub async fn leave(&mut self, resource: ResourceId) -> Result<(), EngineError> {
        let Some(&id) = self.ids.get(&resource) else {
            return Ok(());
        };
        let step = self.begin().await?;
        for statement in [
            "DELETE FROM reports_server.resources WHERE cluster = $1 AND id = $2",
            "INSERT INTO reports_server.dropped_resources (cluster, id) VALUES ($1, $2)
             ON CONFLICT DO NOTHING",
        ] {
            step.run(statement, &[self.cluster(), (&id, Type::INT8)])
                .await?;
        }
        step.commit().await?;
        self.ids.remove(&resource);
        Ok(())
    }
}

async fn insert(
    step: &Step<'_>,
    cluster: Parameter<'_>,
    record: &ResourceRecord,
) -> Result<i64, EngineError> {
    let rows = step
        .run(
            "INSERT INTO reports_server.resources
                 (cluster, api_group, resource, kind, namespaced, uid, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (cluster, api_group, resource) DO UPDATE SET uid = excluded.uid
             RETURNING id",
            &[
                cluster.clone(),
                (&&*record.def.resource.group, Type::TEXT),
                (&&*record.def.resource.resource, Type::TEXT),
                (&&*record.def.kind, Type::TEXT),
                (&record.def.namespaced, Type::BOOL),
                (&&*record.uid, Type::TEXT),
                (&SystemTime::from(record.created), Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    let id = column(rows.first().ok_or(EngineError::Parted)?, "id")?;
    update(step, cluster, id, record).await?;
    Ok(id)
}

async fn update(
    step: &Step<'_>,
    cluster: Parameter<'_>,
    id: i64,
    record: &ResourceRecord,
) -> Result<(), EngineError> {
    step.run(
        "UPDATE reports_server.resources SET gate = $3, settled = $4, holder = $5,
             opened_rv = $6, horizon = $7, mirrored = $8, newest_imported = $9,
             newest_logged = $10, imported = $11, fence = $12, released = $13, frozen_rv = $14,
             held_since = $15, last_hold = $16
         WHERE cluster = $1 AND id = $2",
        &[
            cluster,
            (&id, Type::INT8),
            (&gate_text(record.gate.state), Type::TEXT),
            (&record.gate.settled, Type::BOOL),
            (&record.gate.holder.as_deref(), Type::TEXT),
            (&record.opened.map(db), Type::INT8),
            (&record.horizon.map(db), Type::INT8),
            (&db(record.mirrored), Type::INT8),
            (&db(record.newest_imported), Type::INT8),
            (&db(record.newest_logged), Type::INT8),
            (&db(record.imported), Type::INT8),
            (&db(record.gate.fence), Type::INT8),
            (&record.gate.released, Type::BOOL),
            (&record.gate.frozen.map(db), Type::INT8),
            (
                &record.gate.held_since.map(Timestamp::as_millisecond),
                Type::INT8,
            ),
            (&record.gate.last_hold.map(db), Type::INT8),
        ],
    )
    .await?;
    Ok(())
}
