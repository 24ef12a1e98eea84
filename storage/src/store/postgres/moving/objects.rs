//! Objects, and their projections.

use serde_json::Value;
use tokio_postgres::types::Type;

use super::super::projection::Projections;
use super::super::rows::Keys;
use super::super::write::PUT;
use super::{Filling, Step, delete_at};
use crate::model::frame::Framed;
use crate::model::projection::Projection;
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{ObjectRow, RowKey};

impl Filling {
    /// Brings objects to the state of `rows`, and removes those at `gone`.
    pub async fn objects(
        &mut self,
        rows: Vec<ObjectRow>,
        gone: &[RowKey],
    ) -> Result<(), EngineError> {
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|row| self.ids.contains_key(&row.key.0))
            .collect();
        // Reading what a report says takes a while.
        let read = tokio::task::spawn_blocking(move || project(rows)).await;
        let (rows, projections) = read.map_err(|error| corrupt(&"objects", error))?;
        let numbers: Vec<i64> = (0..rows.len())
            .map(|_| {
                self.number -= 1;
                self.number
            })
            .collect();
        let step = self.begin().await?;
        if !rows.is_empty() {
            self.put(&step, &rows, &projections, &numbers).await?;
        }
        let gone = self.keys(gone.iter());
        if !gone.is_empty() {
            self.remove(&step, &gone).await?;
        }
        step.commit().await
    }

    async fn put(
        &self,
        step: &Step<'_>,
        rows: &[ObjectRow],
        projections: &[Option<Projection>],
        numbers: &[i64],
    ) -> Result<(), EngineError> {
        let keys = self.keys(rows.iter().map(|row| &row.key));
        let projections = Projections::of(projections.iter().map(Option::as_ref), None);
        self.project(step, &keys, numbers, &projections).await?;
        let [resources, namespaces, names] = keys.parameters();
        let [digests, tallies, scanned, ..] = projections.parameters();
        let uids: Vec<&str> = rows.iter().map(|row| &*row.uid).collect();
        let versions: Vec<i64> = rows.iter().map(|row| row.rv).collect();
        let as_imported: Vec<bool> = rows.iter().map(|row| row.as_imported).collect();
        let labels: Vec<&str> = rows.iter().map(|row| &*row.labels).collect();
        let texts: Vec<Framed> = rows.iter().map(|row| Framed::of(&row.body)).collect();
        let hashes: Vec<i64> = texts.iter().map(|text| text.hash).collect();
        let leaves: Vec<&str> = texts.iter().map(|text| &*text.leaves).collect();
        let frames: Vec<&str> = texts.iter().map(|text| &*text.frame).collect();
        self.drop_frames(step, &keys).await?;
        step.run(
            "INSERT INTO reports_server.frames (cluster, id, text)
             SELECT $1, * FROM unnest($2, $3)",
            &[
                self.cluster(),
                (&numbers, Type::INT8_ARRAY),
                (&frames, Type::TEXT_ARRAY),
            ],
        )
        .await?;
        step.run(
            PUT,
            &[
                self.cluster(),
                resources,
                namespaces,
                names,
                (&uids, Type::TEXT_ARRAY),
                (&versions, Type::INT8_ARRAY),
                (&as_imported, Type::BOOL_ARRAY),
                (&labels, Type::TEXT_ARRAY),
                (&hashes, Type::INT8_ARRAY),
                (&leaves, Type::TEXT_ARRAY),
                (&numbers, Type::INT8_ARRAY),
                digests,
                tallies,
                scanned,
            ],
        )
        .await?;
        self.put_first_seen(step, rows).await
    }

    /// Gives findings the times when they were first seen, as far as the other database knows them.
    async fn put_first_seen(&self, step: &Step<'_>, rows: &[ObjectRow]) -> Result<(), EngineError> {
        let (keys, times): (Vec<&RowKey>, Vec<&str>) = rows
            .iter()
            .filter_map(|row| Some((&row.key, row.first_seen.as_deref()?)))
            .unzip();
        if keys.is_empty() {
            return Ok(());
        }
        let keys = self.keys(keys.into_iter());
        let [resources, namespaces, names] = keys.parameters();
        step.run(
            "UPDATE reports_server.findings f SET first_seen = s.first_seen
             FROM unnest($2, $3, $4, $5) AS u(resource_id, namespace, name, seen)
             CROSS JOIN LATERAL (
                 SELECT o.report FROM reports_server.objects o
                 WHERE o.cluster = $1 AND o.resource_id = u.resource_id
                     AND o.namespace = u.namespace AND o.name = u.name OFFSET 0) o
             CROSS JOIN LATERAL (
                 SELECT (e ->> 0)::bigint AS finding, (e ->> 1)::timestamptz AS first_seen
                 FROM json_array_elements(u.seen::json) e) s
             WHERE f.cluster = $1 AND f.report = o.report AND f.finding = s.finding
                 AND f.first_seen <> s.first_seen",
            &[
                self.cluster(),
                resources,
                namespaces,
                names,
                (&times, Type::TEXT_ARRAY),
            ],
        )
        .await?;
        Ok(())
    }

    async fn remove(&self, step: &Step<'_>, keys: &Keys<'_>) -> Result<(), EngineError> {
        let nothing: Vec<Option<Projection>> = (0..keys.len()).map(|_| None).collect();
        let nothing = Projections::of(nothing.iter().map(Option::as_ref), None);
        let numbers = vec![0; keys.len()];
        self.project(step, keys, &numbers, &nothing).await?;
        self.drop_frames(step, keys).await?;
        let [resources, namespaces, names] = keys.parameters();
        step.run(
            &delete_at("objects"),
            &[self.cluster(), resources, namespaces, names],
        )
        .await?;
        Ok(())
    }

    /// Drops the frames of the objects at `keys`. The log has its own, so nobody refers to them.
    async fn drop_frames(&self, step: &Step<'_>, keys: &Keys<'_>) -> Result<(), EngineError> {
        let [resources, namespaces, names] = keys.parameters();
        step.run(
            "DELETE FROM reports_server.frames f
             USING unnest($2, $3, $4) AS k(resource_id, namespace, name)
             CROSS JOIN LATERAL (
                 SELECT o.frame FROM reports_server.objects o
                 WHERE o.cluster = $1 AND o.resource_id = k.resource_id
                     AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) o
             WHERE f.cluster = $1 AND f.id = o.frame",
            &[self.cluster(), resources, namespaces, names],
        )
        .await?;
        Ok(())
    }

    async fn project(
        &self,
        step: &Step<'_>,
        keys: &Keys<'_>,
        numbers: &[i64],
        projections: &Projections<'_>,
    ) -> Result<(), EngineError> {
        let [resources, namespaces, names] = keys.parameters();
        let [digests, tallies, scanned, details, checks] = projections.parameters();
        step.run(
            "SELECT reports_server.project_objects_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            &[
                self.cluster(),
                resources,
                namespaces,
                names,
                (&numbers, Type::INT8_ARRAY),
                digests,
                tallies,
                scanned,
                details,
                checks,
            ],
        )
        .await?;
        Ok(())
    }
}

fn project(rows: Vec<ObjectRow>) -> (Vec<ObjectRow>, Vec<Option<Projection>>) {
    let projections = rows
        .iter()
        .map(|row| {
            let value = serde_json::from_str::<Value>(&row.body).ok()?;
            Projection::of(&value)
        })
        .collect();
    (rows, projections)
}
