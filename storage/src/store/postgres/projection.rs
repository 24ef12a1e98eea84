//! Projections of objects, on their way into the database.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::types::Type;

use super::connection::Parameter;
use crate::model::projection::Projection;

/// Most checks that are remembered; a cluster has some hundreds.
const MAX_KNOWN: usize = 65_536;

/// The checks that are stored, as far as this server knows. Each was stored by a commit that the
/// database still has, or by one before.
#[derive(Default)]
pub(super) struct KnownChecks(Mutex<HashSet<i64>>);

impl KnownChecks {
    /// Remembers checks that were stored.
    pub fn stored(&self, ids: Vec<i64>) {
        let mut known = self.lock();
        if known.len() + ids.len() > MAX_KNOWN {
            known.clear();
        }
        known.extend(ids);
    }

    /// Forgets all: the database has changed.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Projections of some objects as parameters.
#[derive(Default)]
pub(super) struct Projections<'a> {
    digests: Vec<Option<i64>>,
    tallies: Vec<Option<i64>>,
    scanned: Vec<Option<i64>>,
    details: Vec<Option<&'a str>>,
    /// Checks that may not be stored yet.
    pub checks: NewChecks,
}

/// Checks on their way into the database.
#[derive(Default)]
pub(super) struct NewChecks {
    pub ids: Vec<i64>,
    /// JSON array of [id, check]; `None` for no check.
    json: Option<String>,
}

impl<'a> Projections<'a> {
    /// Takes projections, one an object. Checks that are known are not sent again.
    pub fn of(
        projections: impl Iterator<Item = Option<&'a Projection>>,
        known: Option<&KnownChecks>,
    ) -> Self {
        let known = known.map(KnownChecks::lock);
        let is_known = |id: i64| known.as_ref().is_some_and(|known| known.contains(&id));
        let mut this = Self::default();
        let mut checks = BTreeMap::new();
        for projection in projections {
            this.digests.push(projection.map(|p| p.digest));
            this.tallies.push(projection.map(|p| p.tally));
            this.scanned.push(projection.and_then(|p| p.scanned));
            this.details.push(projection.map(|p| &*p.detail));
            for check in projection.into_iter().flat_map(|p| &p.checks) {
                if !is_known(check.id) {
                    checks.insert(check.id, &*check.json);
                }
            }
        }
        this.checks = NewChecks::of(&checks);
        this
    }

    /// Returns digests, tallies, timestamps, details and checks.
    pub fn parameters(&self) -> [Parameter<'_>; 5] {
        [
            (&self.digests, Type::INT8_ARRAY),
            (&self.tallies, Type::INT8_ARRAY),
            (&self.scanned, Type::INT8_ARRAY),
            (&self.details, Type::TEXT_ARRAY),
            (&self.checks.json, Type::TEXT),
        ]
    }
}

impl NewChecks {
    fn of(checks: &BTreeMap<i64, &str>) -> Self {
        let rows: Vec<_> = checks
            .iter()
            .map(|(id, json)| format!("[{id},{json}]"))
            .collect();
        Self {
            ids: checks.keys().copied().collect(),
            json: (!rows.is_empty()).then(|| format!("[{}]", rows.join(","))),
        }
    }
}
