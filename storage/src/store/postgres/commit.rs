//! Plain writes: one statement a batch.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crds::control::GateState;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::error::PostgresError;
use super::projection::{KnownChecks, Projections};
use super::rows::{column, labels_text, previous, previous_labels, un_db};
use super::{Postgres, lineage};
use crate::cache::{Change, Effect, EventType};
use crate::model::frame::Framed;
use crate::model::{Position, ResourceId};
use crate::store::engine::{Commit, EngineError, Op, OpKind, OpOutcome, corrupt};

const COMMIT: &str = "SELECT * FROM reports_server.commit_v2(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)";
const RESOLVE: &str = "SELECT * FROM reports_server.resolve_v1($1, $2, $3, $4)";

/// Time for which those who wait for a batch are kept waiting to find out its outcome, from the
/// moment when its answer was missed.
const RESOLVE_WITHIN: Duration = Duration::from_secs(6);
/// Pause between attempts to find out.
const RESOLVE_PAUSE: Duration = Duration::from_millis(100);
/// Number of times that a batch is sent.
const ATTEMPTS: usize = 3;

/// Carries out writes, each with its own outcome.
pub(super) async fn commit(
    engine: &Postgres,
    ops: Vec<Op>,
) -> Result<Commit<Vec<OpOutcome>>, EngineError> {
    let prepared = Batch::of(&ops, &engine.checks);
    let (rows, batch) = deliver(engine, &prepared).await?;
    let checks = prepared.projections.checks.ids;
    let (head, rows) = rows
        .split_first()
        .ok_or_else(|| corrupt(&"a batch", "has no answer"))?;
    if column::<i16>(head, "outcome")? != 0 {
        // Nothing was written, nor will be.
        return Err(EngineError::Parted);
    }
    let seq: i64 = column(head, "prev_rv")?;
    let before: i64 = column(head, "rv")?;
    if seq != before {
        engine.checks.stored(checks);
        engine.lineage.advance(lineage::Commit { seq, batch });
        engine.notifier.notify(un_db(seq));
    }
    let position = Position {
        seq: un_db(seq),
        counter: un_db(column(head, "next_rv")?),
    };
    let (outcomes, changes) = read(ops, rows, un_db(before))?;
    Ok(Commit {
        outcome: outcomes,
        before: un_db(before),
        position,
        changes,
        records: Vec::new(),
    })
}

/// Has the database carry out a batch exactly once: returns its answer, and the name under which
/// the batch was committed.
async fn deliver(engine: &Postgres, batch: &Batch<'_>) -> Result<(Vec<Row>, i64), EngineError> {
    let mut attempt = 1;
    let mut lost = None;
    loop {
        let name = lineage::new_batch();
        let known = engine.lineage.newest();
        let error = match batch.send(engine, known, name).await {
            // The commits that tell the outcome may be elsewhere.
            Ok(rows) if lost.is_some() && is_parted(&rows)? => break,
            Ok(rows) => return Ok((rows, name)),
            Err(error) => error,
        };
        if error.is_ambiguous() {
            tracing::warn!(%error, "the answer to a commit was lost; checking whether it was made");
            if let Some(rows) = batch.resolve(engine, known, name).await? {
                return Ok((rows, name));
            }
        } else if !error.is_conflict() {
            return Err(error.into());
        }
        if attempt == ATTEMPTS {
            return Err(error.into());
        }
        attempt += 1;
        lost = lost.or(Some(error).filter(PostgresError::is_ambiguous));
    }
    Err(lost.unwrap_or(PostgresError::NoAnswer).into())
}

/// Returns whether an answer says that the history is another one.
fn is_parted(rows: &[Row]) -> Result<bool, EngineError> {
    match rows.first() {
        Some(head) => Ok(column::<i16>(head, "outcome")? != 0),
        None => Ok(false),
    }
}

/// A batch as the database takes it.
#[derive(Default)]
struct Batch<'a> {
    resources: Vec<i64>,
    namespaces: Vec<&'a str>,
    names: Vec<&'a str>,
    kinds: Vec<i16>,
    uids: Vec<Option<&'a str>>,
    versions: Vec<Option<i64>>,
    labels: Vec<String>,
    texts: Vec<Cow<'a, Framed>>,
    projections: Projections<'a>,
}

impl<'a> Batch<'a> {
    fn of(ops: &'a [Op], known: &KnownChecks) -> Self {
        let mut this = Self::default();
        for op in ops {
            let own_uid = Some(&*op.object.uid);
            let (kind, uid, rv) = match &op.kind {
                OpKind::Create => (0, own_uid, None),
                OpKind::Update { expected_rv } => (1, own_uid, *expected_rv),
                OpKind::Delete {
                    expected_uid,
                    expected_rv,
                } => (2, expected_uid.as_deref(), *expected_rv),
            };
            this.resources.push(op.resource.0);
            this.namespaces.push(op.key.namespace());
            this.names.push(op.key.name());
            this.kinds.push(kind);
            this.uids.push(uid);
            this.versions.push(rv.map(u64::cast_signed));
            this.labels.push(labels_text(&op.object.labels));
            this.texts.push(match &op.object.framed {
                Some(framed) => Cow::Borrowed(framed),
                None => Cow::Owned(Framed::of(&op.object.json)),
            });
        }
        let projections = ops.iter().map(|op| op.object.projection.as_deref());
        this.projections = Projections::of(projections, Some(known));
        this
    }

    /// Sends the batch. A connection that fails is not used again.
    async fn send(
        &self,
        engine: &Postgres,
        known: lineage::Commit,
        name: i64,
    ) -> Result<Vec<Row>, PostgresError> {
        let (connection, slot) = engine.writer.take().await?;
        let [digests, tallies, scanned, details, checks] = self.projections.parameters();
        let frames: Vec<&str> = self.texts.iter().map(|text| &*text.frame).collect();
        let hashes: Vec<i64> = self.texts.iter().map(|text| text.hash).collect();
        let leaves: Vec<&str> = self.texts.iter().map(|text| &*text.leaves).collect();
        let differences = self.texts.iter().map(|text| text.difference.as_ref());
        let (bases, messages): (Vec<_>, Vec<_>) = differences
            .map(|difference| difference.map(|it| (it.base, &*it.messages)).unzip())
            .unzip();
        let rows = connection
            .query(
                COMMIT,
                &[
                    (&engine.cluster, Type::INT4),
                    (&known.seq, Type::INT8),
                    (&known.batch, Type::INT8),
                    (&name, Type::INT8),
                    (&self.resources, Type::INT8_ARRAY),
                    (&self.namespaces, Type::TEXT_ARRAY),
                    (&self.names, Type::TEXT_ARRAY),
                    (&self.kinds, Type::INT2_ARRAY),
                    (&self.uids, Type::TEXT_ARRAY),
                    (&self.versions, Type::INT8_ARRAY),
                    (&self.labels, Type::TEXT_ARRAY),
                    (&frames, Type::TEXT_ARRAY),
                    (&hashes, Type::INT8_ARRAY),
                    (&leaves, Type::TEXT_ARRAY),
                    (&bases, Type::INT8_ARRAY),
                    (&messages, Type::TEXT_ARRAY),
                    digests,
                    tallies,
                    scanned,
                    details,
                    checks,
                ],
            )
            .await?;
        slot.put(connection);
        Ok(rows)
    }

    /// Finds out the outcome of a batch whose answer was lost: returns its answer, or `None` where
    /// it was not and will never be committed.
    async fn resolve(
        &self,
        engine: &Postgres,
        known: lineage::Commit,
        name: i64,
    ) -> Result<Option<Vec<Row>>, EngineError> {
        let deadline = Instant::now() + RESOLVE_WITHIN;
        loop {
            let error = match timeout_at(deadline, self.ask(engine, known, name)).await {
                Ok(Ok(rows)) => {
                    let head = rows
                        .first()
                        .ok_or_else(|| corrupt(&"a batch", "has no answer"))?;
                    let committed = column::<i16>(head, "outcome")? == 0;
                    return Ok(committed.then_some(rows));
                }
                Ok(Err(error)) => error,
                Err(_) => PostgresError::Timeout(RESOLVE_WITHIN),
            };
            if Instant::now() + RESOLVE_PAUSE >= deadline {
                return Err(error.into());
            }
            sleep(RESOLVE_PAUSE).await;
        }
    }

    async fn ask(
        &self,
        engine: &Postgres,
        known: lineage::Commit,
        name: i64,
    ) -> Result<Vec<Row>, PostgresError> {
        let (connection, slot) = engine.writer.take().await?;
        let count = i32::try_from(self.kinds.len()).unwrap_or(i32::MAX);
        let rows = connection
            .query(
                RESOLVE,
                &[
                    (&engine.cluster, Type::INT4),
                    (&known.seq, Type::INT8),
                    (&name, Type::INT8),
                    (&count, Type::INT4),
                ],
            )
            .await?;
        slot.put(connection);
        Ok(rows)
    }
}

type Changes = Vec<(ResourceId, Change)>;

/// Returns the outcomes, and the changes behind `seq` of the writes that were made.
fn read(
    ops: Vec<Op>,
    rows: &[Row],
    mut seq: u64,
) -> Result<(Vec<OpOutcome>, Changes), EngineError> {
    if rows.len() != ops.len() {
        let reason = format!("has {} outcomes for {} writes", rows.len(), ops.len());
        return Err(corrupt(&"a batch", reason));
    }
    let mut changes = Vec::with_capacity(ops.len());
    let mut outcomes = Vec::with_capacity(ops.len());
    for (op, row) in ops.into_iter().zip(rows) {
        outcomes.push(match column::<i16>(row, "outcome")? {
            0 => {
                seq += 1;
                changes.push((op.resource, change(op, row, seq)?));
                OpOutcome::Written
            }
            1 => OpOutcome::AlreadyExists,
            2 => OpOutcome::NotFound,
            3 => OpOutcome::Conflict {
                uid: column(row, "uid")?,
                rv: column(row, "prev_rv").map(un_db)?,
            },
            4 => OpOutcome::Gate(GateState::Closed),
            5 => OpOutcome::Gate(GateState::Held),
            other => return Err(corrupt(&op.key, format!("unknown outcome {other}"))),
        });
    }
    Ok((outcomes, changes))
}

fn change(op: Op, row: &Row, seq: u64) -> Result<Change, EngineError> {
    let type_ = match op.kind {
        OpKind::Create => EventType::Added,
        OpKind::Update { .. } => EventType::Modified,
        OpKind::Delete { .. } => EventType::Deleted,
    };
    let labels = previous_labels(column(row, "labels")?, &op.object.labels, &op.key)?;
    let previous = previous(column(row, "prev_rv")?, labels);
    let rv = un_db(column(row, "next_rv")?);
    Ok(Change {
        type_,
        effect: Effect::EventAndState,
        seq,
        object: Arc::new(op.object.into_object(op.key, rv, false)),
        previous,
    })
}
