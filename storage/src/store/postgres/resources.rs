//! Records of resources.

use std::time::SystemTime;

use crds::control::{GateSpec, GateState};
use jiff::Timestamp;
use tokio_postgres::types::Type;

use super::rows::{column, db, gate_text, record};
use super::tx::Tx;
use crate::model::{ResourceDef, ResourceId, ResourceRecord};
use crate::store::engine::{Commit, EngineError, Refusal, corrupt};

/// Columns of a record, for [`record`]; `r` is the row of `resources`.
pub(super) const RECORD: &str = "r.*, (
    SELECT max(c.rv) FROM reports_server.changes c
    WHERE c.cluster = $1 AND c.resource_id = r.id AND c.effect <> 2) AS newest_change";

/// Stores a resource, if it is not stored yet.
pub(super) async fn define(
    mut tx: Tx<'_>,
    def: &ResourceDef,
) -> Result<Commit<ResourceRecord>, EngineError> {
    let inserted = tx
        .execute(
            "INSERT INTO reports_server.resources
                 (cluster, api_group, resource, kind, namespaced, uid, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, date_trunc('second', $7::timestamptz))
             ON CONFLICT (cluster, api_group, resource) DO NOTHING",
            &[
                (tx.cluster(), Type::INT4),
                (&&*def.resource.group, Type::TEXT),
                (&&*def.resource.resource, Type::TEXT),
                (&&*def.kind, Type::TEXT),
                (&def.namespaced, Type::BOOL),
                (&uuid::Uuid::new_v4().to_string(), Type::TEXT),
                (&SystemTime::now(), Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    let rows = tx
        .query(
            &format!(
                "SELECT {RECORD} FROM reports_server.resources r
                 WHERE r.cluster = $1 AND r.api_group = $2 AND r.resource = $3"
            ),
            &[
                (tx.cluster(), Type::INT4),
                (&&*def.resource.group, Type::TEXT),
                (&&*def.resource.resource, Type::TEXT),
            ],
        )
        .await?;
    let row = rows
        .first()
        .ok_or_else(|| corrupt(&def.resource, "is gone"))?;
    let record = record(row)?;
    tx.records_changed |= inserted > 0;
    tx.records.push(record.clone());
    tx.commit(record).await
}

/// Assigns a resource a new id, under which nothing is stored.
pub(super) async fn reset(
    mut tx: Tx<'_>,
    id: ResourceId,
    fence: Option<u64>,
) -> Result<Commit<Result<(), Refusal>>, EngineError> {
    let record = needed(&tx, id).await?;
    if let Err(refusal) = record.gate.check_fence(fence) {
        return tx.rollback(Err(refusal.to_string())).await;
    }
    if record.gate.state != GateState::Closed {
        let refusal = format!(
            "the gate of {} is {:?}: a Reset needs it closed",
            record.def.resource, record.gate.state
        );
        return tx.rollback(Err(refusal)).await;
    }
    tx.execute(
        "INSERT INTO reports_server.dropped_resources (id, cluster) VALUES ($1, $2)",
        &[(&id.0, Type::INT8), (tx.cluster(), Type::INT4)],
    )
    .await?;
    let rows = tx
        .query(
            "UPDATE reports_server.resources SET
                 id = nextval(pg_get_serial_sequence('reports_server.resources', 'id')),
                 settled = false, opened_rv = NULL, horizon = NULL, mirrored = 0,
                 newest_imported = 0, newest_logged = 0, imported = 0, released = false,
                 frozen_rv = NULL
             WHERE cluster = $1 AND id = $2 RETURNING id",
            &[(tx.cluster(), Type::INT4), (&id.0, Type::INT8)],
        )
        .await?;
    let row = rows.first().ok_or_else(|| gone(id))?;
    let record = needed(&tx, ResourceId(column(row, "id")?)).await?;
    tx.records_changed = true;
    tx.records.push(record);
    tx.commit(Ok(())).await
}

/// Sets the gate; see [`crate::store::Store::set_gate`].
pub(super) async fn set_gate(
    mut tx: Tx<'_>,
    id: ResourceId,
    gate: &GateSpec,
    holder: Option<&str>,
) -> Result<Commit<Result<(), Refusal>>, EngineError> {
    let mut record = needed(&tx, id).await?;
    let opens = match record.set_gate(gate, holder, &mut tx.position.counter) {
        Ok(opens) => opens,
        Err(refusal) => return tx.rollback(Err(refusal.to_string())).await,
    };
    if opens {
        // From now on nothing is mirrored any more.
        tx.execute(
            "DELETE FROM reports_server.mirror_events WHERE cluster = $1 AND resource_id = $2",
            &[(tx.cluster(), Type::INT4), (&id.0, Type::INT8)],
        )
        .await?;
    }
    save(&mut tx, &record).await?;
    tx.records.push(record);
    tx.commit(Ok(())).await
}

/// Takes a new fencing token; see [`crate::store::Store::take_fence`].
pub(super) async fn take_fence(mut tx: Tx<'_>, id: ResourceId) -> Result<Commit<u64>, EngineError> {
    let mut record = needed(&tx, id).await?;
    record.gate.fence += 1;
    let token = record.gate.fence;
    save(&mut tx, &record).await?;
    tx.records.push(record);
    tx.commit(token).await
}

/// Writes the parts of a record that may change.
pub(super) async fn save(tx: &mut Tx<'_>, record: &ResourceRecord) -> Result<(), EngineError> {
    tx.execute(
        "UPDATE reports_server.resources SET gate = $3, settled = $4, holder = $5,
             opened_rv = $6, horizon = $7, mirrored = $8, newest_imported = $9,
             newest_logged = $10, imported = $11, fence = $12, released = $13, frozen_rv = $14,
             held_since = $15, last_hold = $16
         WHERE cluster = $1 AND id = $2",
        &[
            (tx.cluster(), Type::INT4),
            (&record.id.0, Type::INT8),
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
    tx.records_changed = true;
    Ok(())
}

/// Returns the records of all resources.
pub(super) async fn all(tx: &Tx<'_>) -> Result<Vec<ResourceRecord>, EngineError> {
    let rows = tx
        .query(
            &format!(
                "SELECT {RECORD} FROM reports_server.resources r WHERE r.cluster = $1 ORDER BY r.id"
            ),
            &[(tx.cluster(), Type::INT4)],
        )
        .await?;
    rows.iter().map(record).collect()
}

/// Returns the record of a resource, if it has not been reset since.
pub(super) async fn find(
    tx: &Tx<'_>,
    id: ResourceId,
) -> Result<Option<ResourceRecord>, EngineError> {
    let rows = tx
        .query(
            &format!(
                "SELECT {RECORD} FROM reports_server.resources r WHERE r.cluster = $1 AND r.id = $2"
            ),
            &[(tx.cluster(), Type::INT4), (&id.0, Type::INT8)],
        )
        .await?;
    rows.first().map(record).transpose()
}

/// Returns the record of a resource that the caller knows. Another server may have reset it
/// meanwhile.
pub(super) async fn needed(tx: &Tx<'_>, id: ResourceId) -> Result<ResourceRecord, EngineError> {
    find(tx, id).await?.ok_or_else(|| gone(id))
}

fn gone(id: ResourceId) -> EngineError {
    corrupt(&format!("resource {}", id.0), "is gone")
}
