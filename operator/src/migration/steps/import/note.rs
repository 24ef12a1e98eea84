//! The note about an import. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::migration::cluster::pages::Key;
use crate::migration::plan::target::PredecessorDatabase;
use crate::migration::report::start;
use crate::migration::steps::diff::NAMED;

/// The import of one group's tables, as the operator's notes have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Note {
    /// The database, and the cluster whose reports are read: see [`PredecessorDatabase::source`].
    source: String,
    /// The tables that are done.
    tables: BTreeMap<String, Account>,
    /// The time at which all of them were, and the server had forgotten the marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<Timestamp>,
}

/// The outcome for the rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// Rows that were imported.
    pub imported: u64,
    /// Rows for whose name the server had a report, or had deleted one.
    pub present: u64,
    /// Rows that were left, because their namespace does not exist or goes away.
    pub no_namespace: u64,
    /// Rows that were left, because they are no reports, or the server cannot take them.
    pub unusable: u64,
    /// The first rows that were left, as `resource/namespace/name: why`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Account {
    /// Returns the number of rows that were left in the database.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.no_namespace + self.unusable
    }

    /// Counts a row whose namespace does not exist.
    pub fn no_namespace(&mut self, plural: &str, key: &Key) {
        self.no_namespace += 1;
        self.name(plural, key, "its namespace does not exist");
    }

    /// Counts a row that is no report.
    pub fn unusable(&mut self, plural: &str, key: &Key, why: &str) {
        self.unusable += 1;
        self.name(plural, key, why);
    }

    fn name(&mut self, plural: &str, key: &Key, why: &str) {
        if self.names.len() < NAMED {
            self.names.push(start(&format!("{plural}/{key}: {why}")));
        }
    }

    fn add(&mut self, other: &Self) {
        self.imported += other.imported;
        self.present += other.present;
        self.no_namespace += other.no_namespace;
        self.unusable += other.unusable;
        let room = NAMED.saturating_sub(self.names.len());
        self.names.extend(other.names.iter().take(room).cloned());
    }
}

impl Note {
    /// Reads a note; one that cannot be read is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the text in which it is written down.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Goes on with an earlier import of the same reports; another source begins anew.
    #[must_use]
    pub fn resume(earlier: Option<&Self>, database: &PredecessorDatabase) -> Self {
        let source = database.source();
        let earlier = earlier.filter(|note| note.source == source).cloned();
        earlier.unwrap_or(Self {
            source,
            ..Self::default()
        })
    }

    /// Returns whether everything of `database` is imported.
    #[must_use]
    pub fn is_done(&self, database: &PredecessorDatabase) -> bool {
        self.done.is_some() && self.source == database.source()
    }

    /// Returns the outcome for all rows, once everything is imported.
    #[must_use]
    pub fn outcome(&self) -> Option<Account> {
        self.done.map(|_| self.sum())
    }

    /// Returns whether a table is done.
    #[must_use]
    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// Notes that a table is done.
    pub fn through(&mut self, table: &str, account: Account) {
        self.tables.insert(table.to_owned(), account);
    }

    /// Notes that everything is imported, and the marks are forgotten.
    pub fn finish(&mut self, now: Timestamp) {
        self.done = Some(now);
    }

    /// Returns the outcome for the rows of all tables that are done.
    #[must_use]
    pub fn sum(&self) -> Account {
        let mut sum = Account::default();
        for account in self.tables.values() {
            sum.add(account);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(secret: &str, cluster: &str) -> PredecessorDatabase {
        PredecessorDatabase::new("ns", secret, cluster)
    }

    #[test]
    fn an_import_is_done_for_its_source_only_and_survives_its_text() {
        let (one, other) = (database("a", "c"), database("b", "c"));
        let mut note = Note::resume(None, &one);
        let account = Account {
            imported: 3,
            ..Account::default()
        };
        note.through("reports", account);
        assert!(note.has("reports") && !note.has("clusterreports"));
        assert!(!note.is_done(&one));
        assert_eq!(note.outcome(), None);
        note.finish(Timestamp::UNIX_EPOCH);
        let read = Note::parse(&note.text()).unwrap();
        assert_eq!(read, note);
        assert!(read.is_done(&one));
        assert_eq!(read.outcome().map(|sum| sum.imported), Some(3));
        assert!(!read.is_done(&other) && !read.is_done(&database("a", "d")));
        assert_eq!(Note::resume(Some(&read), &one), note);
        assert!(!Note::resume(Some(&read), &other).has("reports"));
        assert_eq!(Note::parse("{"), None);
    }

    #[test]
    fn names_are_bounded_and_counts_are_not() {
        let mut account = Account::default();
        for n in 0..30 {
            let key = Key {
                namespace: "n".repeat(63),
                name: format!("{n}"),
            };
            account.unusable("reports", &key, &"ä".repeat(2000));
            account.no_namespace("reports", &key);
        }
        assert_eq!((account.left(), account.names.len()), (60, NAMED));
        assert!(account.names.iter().all(|name| name.len() <= 1000));
        let mut note = Note::default();
        note.through("a", account.clone());
        note.through("b", account);
        assert_eq!((note.sum().left(), note.sum().names.len()), (120, NAMED));
    }
}
