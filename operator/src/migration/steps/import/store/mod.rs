//! The tables of kyverno/reports-server, read and never written.

use std::time::Duration;

use database::{ConnectOptions, ConnectionTask, Parameters, establish};
use tokio_postgres::{Client, IsolationLevel, Transaction};

use super::ImportError;
use super::rows::{Row, Table};
use crate::database::files;
use crate::migration::cluster::pages::Key;
use crate::migration::context::Cx;
use crate::migration::plan::target::PredecessorDatabase;
use crate::names::OPERATOR;

/// Longest statement. A page is found by the primary key; counting a table takes longest.
const STATEMENT: Duration = Duration::from_mins(1);
/// Most text of the reports in one page, in bytes, beyond the first: one page becomes one import.
const PAGE_BYTES: i64 = 2 << 20;
/// Longest text of a report, in bytes; the server takes requests of 3 MiB.
const REPORT_BYTES: i64 = (3 << 20) - (64 << 10);
/// The oldest PostgreSQL that will do: it is only read.
const MINIMUM_MAJOR: u32 = 10;

/// The position in a table: the key of a row, in the order of the table's primary key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Key);

impl Place {
    /// Returns the place of a row.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        Self(row.key.clone())
    }
}

/// An open database.
pub struct Store {
    client: Client,
    /// Host, port and database.
    place: String,
    /// The cluster whose rows are read.
    cluster_id: String,
    _connection: ConnectionTask,
}

impl Store {
    /// Connects with the present parameters of the Secret.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub async fn open(cx: &Cx, database: &PredecessorDatabase) -> Result<Self, ImportError> {
        let (namespace, connection) = (&database.namespace, &database.connection);
        let objects = files::objects(&cx.client, namespace, connection).await?;
        let parameters = files::parameters(namespace, connection, &objects);
        let parameters = parameters.map_err(ImportError::Parameters)?;
        let mut options = ConnectOptions::new(OPERATOR).statement_timeout(STATEMENT);
        options.resolve.clone_from(&cx.deps.resolve);
        Self::connect(&parameters, options, &database.cluster_id).await
    }

    async fn connect(
        parameters: &Parameters,
        mut options: ConnectOptions,
        cluster_id: &str,
    ) -> Result<Self, ImportError> {
        options.minimum_major = MINIMUM_MAJOR;
        let session = establish(parameters, &options).await?;
        let place = format!("{}/{}", session.endpoint, parameters.dbname);
        let (client, connection) = session.spawn();
        Ok(Self {
            client,
            place,
            cluster_id: cluster_id.to_owned(),
            _connection: connection,
        })
    }

    /// Checks that there are all tables, and that this cluster is among those that have written to
    /// them. A cluster that is known and has no rows is one without reports.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub async fn check(&mut self, tables: &[Table]) -> Result<(), ImportError> {
        let (place, own) = (self.place.clone(), self.cluster_id.clone());
        let failed = refused(&place);
        let transaction = self.read().await?;
        let mut found = Vec::new();
        for table in tables {
            let missing = missing_column(&transaction, table).await.map_err(&failed)?;
            if let Some(column) = missing {
                let table = table.plural.clone();
                return Err(ImportError::NoTable {
                    place,
                    table,
                    column,
                });
            }
            let of_table = clusters(&transaction, &table.plural).await;
            found.extend(of_table.map_err(&failed)?);
        }
        let has_rows = found.iter().any(|(id, _)| id.eq_ignore_ascii_case(&own));
        let registered = is_registered(&transaction, &own).await.map_err(&failed)?;
        if found.is_empty() || has_rows || registered {
            return Ok(());
        }
        let found = summed(found);
        Err(ImportError::OtherClusters { place, own, found })
    }

    /// Returns the rows that follow a place, `limit` at most; none at the end of the table.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub async fn page(
        &mut self,
        table: &Table,
        after: &Place,
        limit: u32,
    ) -> Result<Vec<Row>, ImportError> {
        let place = self.place.clone();
        let cluster_id = self.cluster_id.clone();
        let transaction = self.read().await?;
        let Place(Key { namespace, name }) = after;
        let limit = i64::from(limit.max(1));
        let text = page_query(&table.plural, table.namespaced);
        let found = transaction
            .query(
                &text,
                &[
                    &cluster_id,
                    name,
                    namespace,
                    &limit,
                    &REPORT_BYTES,
                    &PAGE_BYTES,
                ],
            )
            .await;
        let rows = found.map_err(refused(&place))?;
        let row = |row: &tokio_postgres::Row| {
            Ok(Row {
                key: Key {
                    name: row.try_get(0)?,
                    namespace: row.try_get(1)?,
                },
                report: row.try_get(2)?,
                bytes: row.try_get(3)?,
            })
        };
        let rows: Result<_, tokio_postgres::Error> = rows.iter().map(row).collect();
        rows.map_err(refused(&place))
    }

    /// Returns a transaction that cannot write, whatever its user may do.
    async fn read(&mut self) -> Result<Transaction<'_>, ImportError> {
        let begun = self
            .client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await;
        begun.map_err(refused(&self.place))
    }
}

fn refused(place: &str) -> impl Fn(tokio_postgres::Error) -> ImportError + use<> {
    let place = place.to_owned();
    move |source| ImportError::Query {
        place: place.clone(),
        source,
    }
}

/// Returns the first column that a table lacks, the first of all where there is no such table.
async fn missing_column(
    transaction: &Transaction<'_>,
    table: &Table,
) -> Result<Option<&'static str>, tokio_postgres::Error> {
    let text = "SELECT attname::text FROM pg_catalog.pg_attribute
                WHERE attrelid = pg_catalog.to_regclass($1) AND attnum > 0 AND NOT attisdropped";
    let rows = transaction.query(text, &[&quoted(&table.plural)]).await?;
    let columns: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
    let columns = columns?;
    let needed = ["name", "report", "cluster_id", "namespace"];
    let needed = &needed[..if table.namespaced { 4 } else { 3 }];
    let missing = needed
        .iter()
        .find(|name| !columns.iter().any(|c| c == *name));
    Ok(missing.copied())
}

/// Returns the clusters that have rows in a table, with the number of rows, most first.
async fn clusters(
    transaction: &Transaction<'_>,
    table: &str,
) -> Result<Vec<(String, i64)>, tokio_postgres::Error> {
    let table = quoted(table);
    let text = format!(
        "SELECT cluster_id::text, count(*) FROM {table} GROUP BY cluster_id ORDER BY 2 DESC, 1"
    );
    let rows = transaction.query(&text, &[]).await?;
    let pair = |row: &tokio_postgres::Row| {
        let id: Option<String> = row.try_get(0)?;
        Ok((id.unwrap_or_default(), row.try_get(1)?))
    };
    rows.iter().map(pair).collect()
}

/// Returns whether a cluster has registered itself, as kyverno/reports-server does when it starts.
async fn is_registered(
    transaction: &Transaction<'_>,
    own: &str,
) -> Result<bool, tokio_postgres::Error> {
    let there = "SELECT pg_catalog.to_regclass('clusters') IS NOT NULL";
    let row = transaction.query_one(there, &[]).await?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(false);
    }
    let text = "SELECT EXISTS (SELECT 1 FROM clusters WHERE id = $1::text::uuid)";
    transaction.query_one(text, &[&own]).await?.try_get(0)
}

/// The number of clusters that a message names.
const NAMED: usize = 5;

/// Returns the clusters of several tables in words, those with most rows first.
fn summed(found: Vec<(String, i64)>) -> Vec<String> {
    let mut sums = std::collections::BTreeMap::<String, i64>::new();
    for (id, rows) in found {
        *sums.entry(id).or_default() += rows;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    let words = sums.iter().take(NAMED);
    let mut words: Vec<String> = words
        .map(|(id, rows)| format!("{id} ({rows} rows)"))
        .collect();
    if sums.len() > NAMED {
        words.push(format!("{} more", sums.len() - NAMED));
    }
    words
}

/// Returns the query of the next rows by the primary key: as many as fit into a page, but at least
/// one. Reports that are too large come without their text.
fn page_query(table: &str, namespaced: bool) -> String {
    let table = quoted(table);
    let namespace = if namespaced { "namespace" } else { "''::text" };
    format!(
        "SELECT name::text, namespace::text, CASE WHEN bytes <= $5 THEN report END, bytes
         FROM (SELECT name, namespace, report, bytes,
                   sum(CASE WHEN bytes <= $5 THEN bytes ELSE 0 END)
                       OVER (ORDER BY name, namespace) AS total,
                   row_number() OVER (ORDER BY name, namespace) AS number
               FROM (SELECT name, {namespace} AS namespace, report::text AS report,
                         octet_length(report::text)::bigint AS bytes
                     FROM {table}
                     WHERE cluster_id = $1::text::uuid AND name >= $2::text
                         AND (name, {namespace}) > ($2::text, $3::text)
                     ORDER BY 1, 2
                     LIMIT $4::bigint) AS page) AS sized
         WHERE number = 1 OR total <= $6::bigint
         ORDER BY name, namespace"
    )
}

fn quoted(table: &str) -> String {
    format!("\"{}\"", table.replace('"', "\"\""))
}

#[cfg(test)]
mod tests;
