//! The log of changes, and the position in the sequence.

use std::time::SystemTime;

use tokio_postgres::types::Type;

use super::super::rows::{column, db};
use super::super::{lineage, rejoin};
use super::mark::DURABLE;
use super::{Filling, Step, time};
use crate::model::Position;
use crate::model::frame::Framed;
use crate::store::engine::{EngineError, corrupt};
use crate::store::moving::rows::{ChangeRow, CommitRow, LogRows};

impl Filling {
    /// Adds a part of the log, with the commits that it has; without any, as one commit. Changes of
    /// resources that are gone keep their place. What is there already, by a step that was cut short
    /// behind its commit, is the same.
    pub async fn log(&mut self, log: &LogRows) -> Result<(), EngineError> {
        let Some(last) = log.last() else {
            return Ok(());
        };
        let step = self.begin().await?;
        step.run(
            "SELECT reports_server.extend_log_v1($1, $2, 65536)::text",
            &[self.cluster(), (&(last + 1), Type::INT8)],
        )
        .await?;
        self.changes(&step, &log.changes).await?;
        let bytes = self.bytes + bytes_of(&log.changes);
        match log.changes.last() {
            Some(last) if log.commits.is_empty() => {
                let counter = log.changes.iter().map(|row| row.rv).max().unwrap_or(0);
                let changes = i32::try_from(log.changes.len()).unwrap_or(i32::MAX);
                let position = (last.seq, counter);
                self.commit_row(&step, position, changes, bytes, last.committed_at)
                    .await?;
            }
            _ => self.commit_rows(&step, &log.commits).await?,
        }
        step.commit().await?;
        self.bytes = bytes;
        Ok(())
    }

    async fn changes(&self, step: &Step<'_>, rows: &[ChangeRow]) -> Result<(), EngineError> {
        if rows.is_empty() {
            return Ok(());
        }
        let column = |f: fn(&ChangeRow) -> i64| -> Vec<i64> { rows.iter().map(f).collect() };
        let resources: Vec<i64> = rows
            .iter()
            .map(|row| self.id(row.key.0).map_or(0, |id| id.0))
            .collect();
        let namespaces: Vec<&str> = rows.iter().map(|row| row.key.1.namespace()).collect();
        let names: Vec<&str> = rows.iter().map(|row| row.key.1.name()).collect();
        let previous: Vec<Option<i64>> = rows.iter().map(|row| row.prev_rv).collect();
        let types: Vec<i16> = rows.iter().map(|row| row.type_).collect();
        let effects: Vec<i16> = rows.iter().map(|row| row.effect).collect();
        let as_imported: Vec<bool> = rows.iter().map(|row| row.as_imported).collect();
        let labels: Vec<Option<&str>> = rows.iter().map(|row| row.prev_labels.as_deref()).collect();
        let texts: Vec<Option<Framed>> = rows
            .iter()
            .map(|row| row.body.as_deref().map(Framed::of))
            .collect();
        let leaves: Vec<&str> = texts
            .iter()
            .map(|text| text.as_ref().map_or("", |text| &*text.leaves))
            .collect();
        let framed: Vec<i64> = self.frames_of_changes(step, rows, &texts).await?;
        step.run(
            "INSERT INTO reports_server.changes
                 (cluster, seq, resource_id, rv, prev_rv, type, effect, as_imported, namespace,
                  name, prev_labels, leaves, frame)
             SELECT $1, u.*, CASE WHEN u.seq = ANY ($13) THEN u.seq END
             FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
                 AS u(seq, resource_id, rv, prev_rv, type, effect, as_imported, namespace, name,
                      prev_labels, leaves)
             ON CONFLICT DO NOTHING",
            &[
                self.cluster(),
                (&column(|row| row.seq), Type::INT8_ARRAY),
                (&resources, Type::INT8_ARRAY),
                (&column(|row| row.rv), Type::INT8_ARRAY),
                (&previous, Type::INT8_ARRAY),
                (&types, Type::INT2_ARRAY),
                (&effects, Type::INT2_ARRAY),
                (&as_imported, Type::BOOL_ARRAY),
                (&namespaces, Type::TEXT_ARRAY),
                (&names, Type::TEXT_ARRAY),
                (&labels, Type::TEXT_ARRAY),
                (&leaves, Type::TEXT_ARRAY),
                (&framed, Type::INT8_ARRAY),
            ],
        )
        .await?;
        Ok(())
    }

    /// Stores the texts of changes, each under the seq of its change and no longer than that is
    /// kept, and returns these seqs. A listed state has none: the server that opens the database
    /// has loaded the objects.
    async fn frames_of_changes(
        &self,
        step: &Step<'_>,
        rows: &[ChangeRow],
        texts: &[Option<Framed>],
    ) -> Result<Vec<i64>, EngineError> {
        let (seqs, frames): (Vec<i64>, Vec<&str>) = rows
            .iter()
            .zip(texts)
            .filter_map(|(row, text)| Some((row.seq, &*text.as_ref()?.frame)))
            .unzip();
        for sql in [
            "INSERT INTO reports_server.frames (cluster, id, text)
             SELECT $1, * FROM unnest($2, $3) ON CONFLICT DO NOTHING",
            "INSERT INTO reports_server.stale_frames (cluster, seq, frame)
             SELECT $1, u.seq, u.seq FROM unnest($2, $3) AS u(seq, text)
             ON CONFLICT DO NOTHING",
        ] {
            let parameters = [
                self.cluster(),
                (&seqs, Type::INT8_ARRAY),
                (&frames, Type::TEXT_ARRAY),
            ];
            step.run(sql, &parameters).await?;
        }
        Ok(seqs)
    }

    /// Adds rows of commits as they are, under the negative number, where nobody looks for them yet.
    async fn commit_rows(&self, step: &Step<'_>, rows: &[CommitRow]) -> Result<(), EngineError> {
        let column = |f: fn(&CommitRow) -> i64| -> Vec<i64> { rows.iter().map(f).collect() };
        let changes: Vec<i32> = rows.iter().map(|row| row.changes).collect();
        let records: Vec<bool> = rows.iter().map(|row| row.records).collect();
        let times: Vec<SystemTime> = rows.iter().map(|row| row.committed_at).collect();
        let refused: Vec<Option<&str>> = rows.iter().map(|row| row.refused.as_deref()).collect();
        step.run(
            "INSERT INTO reports_server.commits
                 (cluster, seq, counter, batch, changes, records, bytes, committed_at, refused)
             SELECT -$1::int, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT DO NOTHING",
            &[
                self.cluster(),
                (&column(|row| row.seq), Type::INT8_ARRAY),
                (&column(|row| row.counter), Type::INT8_ARRAY),
                (&column(|row| row.batch), Type::INT8_ARRAY),
                (&changes, Type::INT4_ARRAY),
                (&records, Type::BOOL_ARRAY),
                (&column(|row| row.bytes), Type::INT8_ARRAY),
                (&times, Type::TIMESTAMPTZ_ARRAY),
                (&refused, Type::TEXT_ARRAY),
            ],
        )
        .await?;
        Ok(())
    }

    /// Adds a row of commits, under the negative number, where nobody looks for it yet.
    async fn commit_row(
        &self,
        step: &Step<'_>,
        (seq, counter): (i64, i64),
        changes: i32,
        bytes: i64,
        committed_at: i64,
    ) -> Result<(), EngineError> {
        step.run(
            "INSERT INTO reports_server.commits
                 (cluster, seq, counter, batch, changes, records, bytes, committed_at)
             VALUES (-$1::int, $2, $3, $4, $5, false, $6, $7)
             ON CONFLICT (cluster, seq) DO UPDATE SET counter = excluded.counter",
            &[
                self.cluster(),
                (&seq, Type::INT8),
                (&counter, Type::INT8),
                (&lineage::new_batch(), Type::INT8),
                (&changes, Type::INT4),
                (&bytes, Type::INT8),
                (&time(committed_at), Type::TIMESTAMPTZ),
            ],
        )
        .await?;
        Ok(())
    }

    /// Stores the definitions of API groups and, where commits are not copied as they are, the
    /// position in the sequence. Changes up to `compacted` are not there. `last` is the last commit
    /// that was copied as it is.
    pub async fn finish(
        &self,
        position: Position,
        compacted: u64,
        definitions: &[(String, String)],
        last: Option<(u64, i64)>,
    ) -> Result<(), EngineError> {
        let groups: Vec<&str> = definitions.iter().map(|(group, _)| &**group).collect();
        let bodies: Vec<&str> = definitions.iter().map(|(_, body)| &**body).collect();
        let step = self.begin().await?;
        // The last step that writes: the mark in the other database must not outlive the copy.
        step.run(DURABLE, &[]).await?;
        // All earlier steps are there, whichever server has taken them.
        rejoin::note_origin_of(&step.connection, &self.engine.cluster).await?;
        step.run(
            "INSERT INTO reports_server.definitions (cluster, api_group, body)
             SELECT $1, * FROM unnest($2, $3)
             ON CONFLICT (cluster, api_group) DO UPDATE SET body = excluded.body",
            &[
                self.cluster(),
                (&groups, Type::TEXT_ARRAY),
                (&bodies, Type::TEXT_ARRAY),
            ],
        )
        .await?;
        step.run(
            "UPDATE reports_server.clusters SET compacted = $2 WHERE cluster = $1",
            &[self.cluster(), (&db(compacted), Type::INT8)],
        )
        .await?;
        if last.is_some() {
            self.check_commits(&step, position).await?;
        } else {
            self.begin_commits(&step, position, compacted).await?;
        }
        step.run(
            "SELECT reports_server.extend_log_v1($1, $2, 65536)::text",
            &[self.cluster(), (&(db(position.seq) + 1), Type::INT8)],
        )
        .await?;
        step.commit().await
    }

    /// Makes sure that the last commit that was copied is that of the position.
    async fn check_commits(&self, step: &Step<'_>, position: Position) -> Result<(), EngineError> {
        let rows = step
            .run(
                "SELECT seq, counter FROM reports_server.commits
                 WHERE cluster = -$1::int ORDER BY seq DESC LIMIT 1",
                &[self.cluster()],
            )
            .await?;
        let last = rows.first().map(|row| {
            Ok::<_, EngineError>((column::<i64>(row, "seq")?, column::<i64>(row, "counter")?))
        });
        if last.transpose()? == Some((db(position.seq), db(position.counter))) {
            return Ok(());
        }
        let what = format!("commit {}", position.seq);
        Err(corrupt(&what, "is not the last one that was copied"))
    }

    /// Lets the commits begin where the log does, and end at the position.
    async fn begin_commits(
        &self,
        step: &Step<'_>,
        position: Position,
        compacted: u64,
    ) -> Result<(), EngineError> {
        // The size of the log is counted from the commit at which it begins.
        let rows = step
            .run(
                "WITH gone AS (
                     DELETE FROM reports_server.commits
                     WHERE cluster = -$1::int AND seq <= $2 RETURNING bytes)
                 SELECT coalesce(max(bytes), 0) AS bytes FROM gone",
                &[self.cluster(), (&db(compacted), Type::INT8)],
            )
            .await?;
        let before: i64 = column(rows.first().ok_or(EngineError::Parted)?, "bytes")?;
        let now = jiff::Timestamp::now().as_millisecond();
        let counter = db(position.counter);
        self.commit_row(step, (db(compacted), counter), 0, before, now)
            .await?;
        self.commit_row(step, (db(position.seq), counter), 0, self.bytes, now)
            .await
    }
}

/// Returns the bytes of the bodies of changes.
fn bytes_of(rows: &[ChangeRow]) -> i64 {
    let bodies = rows.iter().filter_map(|row| row.body.as_ref());
    bodies
        .map(|body| i64::try_from(body.len()).unwrap_or(i64::MAX))
        .sum()
}
