//! Records of resources.

use crds::control::{GateSpec, GateState};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::connection::Tx;
use super::read::record_of;
use super::rows::{db, gate_text, millis};
use crate::model::{ResourceDef, ResourceId, ResourceRecord};
use crate::store::engine::{Commit, EngineError, Refusal, corrupt};

/// Stores a resource, if it is not stored yet.
pub(super) async fn define(
    mut tx: Tx,
    def: &ResourceDef,
) -> Result<Commit<ResourceRecord>, EngineError> {
    sqlx::query(
        "INSERT INTO resources (api_group, resource, kind, namespaced, uid, created_at)
         VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )
    .bind(&*def.resource.group)
    .bind(&*def.resource.resource)
    .bind(&*def.kind)
    .bind(def.namespaced)
    .bind(uuid::Uuid::new_v4().to_string())
    .bind(Timestamp::now().as_second())
    .execute(&mut *tx)
    .await?;
    let id = sqlx::query_scalar("SELECT id FROM resources WHERE api_group = ? AND resource = ?")
        .bind(&*def.resource.group)
        .bind(&*def.resource.resource)
        .fetch_one(&mut *tx)
        .await?;
    let record = needed(&mut tx, ResourceId(id)).await?;
    tx.records.push(record.clone());
    tx.commit(record).await
}

/// Assigns a resource a new id, under which nothing is stored.
pub(super) async fn reset(
    mut tx: Tx,
    id: ResourceId,
    fence: Option<u64>,
) -> Result<Commit<Result<(), Refusal>>, EngineError> {
    let record = needed(&mut tx, id).await?;
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
    sqlx::query("INSERT INTO dropped_resources (id) VALUES (?)")
        .bind(id.0)
        .execute(&mut *tx)
        .await?;
    // AUTOINCREMENT never gives an id twice; this takes the next one for the same row.
    let fresh: i64 = sqlx::query_scalar(
        "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'resources' RETURNING seq",
    )
    .fetch_one(&mut *tx)
    .await?;
    sqlx::query(
        "UPDATE resources SET id = ?, settled = 0, opened_rv = NULL, horizon = NULL, mirrored = 0,
             newest_imported = 0, newest_logged = 0, imported = 0, released = 0, frozen_rv = NULL
         WHERE id = ?",
    )
    .bind(fresh)
    .bind(id.0)
    .execute(&mut *tx)
    .await?;
    let record = needed(&mut tx, ResourceId(fresh)).await?;
    tx.records.push(record);
    tx.commit(Ok(())).await
}

/// Sets the gate; see [`crate::store::Store::set_gate`].
pub(super) async fn set_gate(
    mut tx: Tx,
    id: ResourceId,
    gate: &GateSpec,
    holder: Option<&str>,
) -> Result<Commit<Result<(), Refusal>>, EngineError> {
    let mut record = needed(&mut tx, id).await?;
    let opens = match record.set_gate(gate, holder, &mut tx.position.counter) {
        Ok(opens) => opens,
        Err(refusal) => return tx.rollback(Err(refusal.to_string())).await,
    };
    if opens {
        // From now on nothing is mirrored any more.
        sqlx::query("DELETE FROM mirror_events WHERE resource_id = ?")
            .bind(id.0)
            .execute(&mut *tx)
            .await?;
    }
    save(&mut tx, &record).await?;
    tx.records.push(record);
    tx.commit(Ok(())).await
}

/// Takes a new fencing token; see [`crate::store::Store::take_fence`].
pub(super) async fn take_fence(mut tx: Tx, id: ResourceId) -> Result<Commit<u64>, EngineError> {
    let mut record = needed(&mut tx, id).await?;
    record.gate.fence += 1;
    let token = record.gate.fence;
    save(&mut tx, &record).await?;
    tx.records.push(record);
    tx.commit(token).await
}

/// Writes the parts of a record that may change.
pub(super) async fn save(
    connection: &mut SqliteConnection,
    record: &ResourceRecord,
) -> Result<(), EngineError> {
    sqlx::query(
        "UPDATE resources SET gate = ?, settled = ?, holder = ?, opened_rv = ?, horizon = ?,
             mirrored = ?, newest_imported = ?, newest_logged = ?, imported = ?, fence = ?,
             released = ?, frozen_rv = ?, held_since = ?, last_hold = ? WHERE id = ?",
    )
    .bind(gate_text(record.gate.state))
    .bind(record.gate.settled)
    .bind(record.gate.holder.as_deref())
    .bind(record.opened.map(db))
    .bind(record.horizon.map(db))
    .bind(db(record.mirrored))
    .bind(db(record.newest_imported))
    .bind(db(record.newest_logged))
    .bind(db(record.imported))
    .bind(db(record.gate.fence))
    .bind(record.gate.released)
    .bind(record.gate.frozen.map(db))
    .bind(record.gate.held_since.map(millis))
    .bind(record.gate.last_hold.map(db))
    .bind(record.id.0)
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the record of a resource that the caller knows.
pub(super) async fn needed(tx: &mut Tx, id: ResourceId) -> Result<ResourceRecord, EngineError> {
    record_of(tx, id)
        .await?
        .ok_or_else(|| corrupt(&format!("resource {}", id.0), "is gone"))
}
