//! The import of reports that only the PostgreSQL of a kyverno/reports-server has which is gone
//! already.
//!
//! The group is moved as usual and served by our server. Then its tables are read page by page, and
//! each row whose key the server does not have comes to it as an ordinary write: with its uid and
//! everything else, and with a version of our own. What the server has stays, because it was
//! written later. Nothing is written to the database.
//!
//! **A row is imported once, whenever the operator dies.** A report that a client deletes after it
//! was imported must not come back. So the server keeps the mark of each import ([`MARK`] tells it
//! from that of a copy in etcd) until the note in the operator's
//! [`NoteBook`](crate::migration::observe::notes::NoteBook) says that the table is done; only then
//! are the marks forgotten, and with them all that tells these reports from those that clients have
//! created since the switch. An import that was cut off reads its table from the start, and passes
//! over what has a mark. A note of the position in the table instead would leave the page that was
//! under way: the server's change log would tell what was deleted of it, but not for as long as an
//! operator may be away.

mod error;
mod known;
pub(in crate::migration) mod note;
mod rows;
mod store;

use crds::control::{DigestItem, DigestSet, ImportItem, ImportMode, ImportType, MAX_IMPORT_ITEMS};
use crds::v1alpha1::reasons;
use jiff::Timestamp;
use kube::runtime::events::EventType;
use serde_json::Value;

use super::recover::batch;
use crate::migration::cluster::control::retry;
use crate::migration::cluster::marks;
use crate::migration::cluster::pages::Key;
use crate::migration::cluster::wire::WireError;
use crate::migration::context::Cx;
use crate::migration::observe::notes;
use crate::migration::observe::state::{Observed, Resource};
use crate::migration::plan::step::StepName;
use crate::migration::plan::target::PredecessorDatabase;
pub use error::ImportError;
use known::{Known, Namespaces};
pub use note::{Account, Note};
use rows::{Fate, Table, fate};
use store::{Place, Store};

/// The time for which a batch is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
/// The version in the marks of what is imported from a database. No copy in etcd has it: etcd's
/// first write has revision 2.
const MARK: u64 = 1;

/// Imports what the server does not have, table by table, and notes that it is done.
///
/// # Errors
/// See [`ImportError`]; carried out again it goes on with the table that it stopped in.
pub async fn run(cx: &Cx, o: &Observed, database: &PredecessorDatabase) -> Result<(), ImportError> {
    let mut note = Note::resume(o.import.as_ref(), database);
    let rest = o.resources.iter().filter(|r| !note.has(r.plural()));
    let rest: Vec<&Resource> = rest.collect();
    if !rest.is_empty() {
        let mut store = Store::open(cx, database).await?;
        let tables = o.resources.iter();
        let tables = tables.map(|r| Table::of(&cx.target.group, &r.stored.status));
        store.check(&tables.collect::<Vec<_>>()).await?;
        for resource in rest {
            let account = import(cx, resource, &mut store).await?;
            note.through(resource.plural(), account);
            save(cx, &note).await?;
        }
    }
    for resource in &o.resources {
        forget(cx, resource).await?;
    }
    note.finish(Timestamp::now());
    save(cx, &note).await?;
    tell(cx, database, &note.sum());
    Ok(())
}

async fn save(cx: &Cx, note: &Note) -> Result<(), ImportError> {
    let sum = note.sum();
    cx.journal.note(|report| report.imports(&sum));
    let key = notes::import(&cx.target.group);
    let set = cx.notes.set(&key, Some(&note.text())).await;
    set.map_err(|source| ImportError::Notes(Box::new(source)))
}

/// Returns whether a mark is of an import from a database that is not through, and not of etcd's
/// copy.
#[must_use]
pub fn is_ours(mark: &DigestItem) -> bool {
    mark.resource_version.parse() == Ok(MARK)
}

/// Imports one table.
async fn import(cx: &Cx, resource: &Resource, store: &mut Store) -> Result<Account, ImportError> {
    let table = Table::of(&cx.target.group, &resource.stored.status);
    let known = Known::read(cx, resource.name()).await?;
    let mut namespaces = Namespaces::default();
    let mut account = Account::default();
    let mut place = Place::default();
    loop {
        cx.pacer.turn().await;
        let page_size = cx.target.settings.page_size;
        let rows = store.page(&table, &place, page_size).await?;
        let Some(last) = rows.last() else {
            return Ok(account);
        };
        place = Place::of(last);
        if table.namespaced {
            namespaces.refresh(&cx.client).await?;
        }
        let mut wanted = Vec::new();
        for row in rows {
            match fate(&row, &table, &known, &namespaces) {
                Fate::Import(object) => wanted.push(object),
                Fate::Imported => account.imported += 1,
                Fate::Present => account.present += 1,
                Fate::NoNamespace => account.no_namespace(&table.plural, &row.key),
                Fate::Unusable(why) => account.unusable(&table.plural, &row.key, &why.to_string()),
            }
        }
        send(cx, resource, wanted, &mut account).await?;
        cx.within(StepName::ImportDatabase).await;
        show(cx, &table.plural, &account);
    }
}

/// Has the server take objects. One that it cannot take is left and named; the others are sent
/// again without it.
async fn send(
    cx: &Cx,
    resource: &Resource,
    objects: Vec<Value>,
    account: &mut Account,
) -> Result<(), ImportError> {
    let type_ = ImportType::Added;
    let items = objects
        .into_iter()
        .map(|object| ImportItem { type_, object });
    let mut parts = vec![items.collect::<Vec<_>>()];
    while let Some(items) = parts.pop() {
        if items.is_empty() {
            continue;
        }
        cx.pacer.turn().await;
        let mut one = batch(ImportMode::Straggler, items);
        match retry(PATIENCE, || cx.control.import(resource.name(), &one)).await {
            Ok(result) => {
                // A client was faster, or has deleted an object of this name.
                let kept_out = result.conflicts.len() as u64;
                let imported = (one.items.len() as u64).saturating_sub(kept_out);
                account.present += kept_out;
                account.imported += imported;
                let (group, plural) = (&cx.target.group, resource.plural());
                cx.deps.metrics.imported(group, plural, imported);
            }
            Err(error) if is_of_an_object(&error) && one.items.len() == 1 => {
                let key = one.items.first().map(|item| key_of(&item.object));
                account.unusable(
                    resource.plural(),
                    &key.unwrap_or_default(),
                    &error.to_string(),
                );
            }
            Err(error) if is_of_an_object(&error) => {
                let second = one.items.split_off(one.items.len() / 2);
                parts.extend([second, one.items]);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns whether the server refuses the content of a batch, whoever sends it and when.
fn is_of_an_object(error: &WireError) -> bool {
    matches!(error.code(), Some(400 | 413 | 422))
}

fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Key {
        namespace: text("namespace").to_owned(),
        name: text("name").to_owned(),
    }
}

/// Has the server forget the marks of a table that is done.
async fn forget(cx: &Cx, resource: &Resource) -> Result<(), ImportError> {
    let name = resource.name();
    let marks = cx.control.digest(name, DigestSet::Imported).await?;
    let ours: Vec<&DigestItem> = marks.iter().filter(|mark| is_ours(mark)).collect();
    let versions = &resource.stored.status.versions;
    let version = versions.first().map(String::as_str).unwrap_or_default();
    for part in ours.chunks(MAX_IMPORT_ITEMS) {
        cx.pacer.turn().await;
        marks::forget(cx, resource, version, part).await?;
    }
    Ok(())
}

/// Shows the progress of a table.
fn show(cx: &Cx, plural: &str, account: &Account) {
    let Account {
        imported, present, ..
    } = account;
    let left = account.left();
    cx.report.update(|status| {
        status.goes_on();
        status.message = format!(
            "served by the server; importing {plural} from the database of the other server: \
             {imported} imported, {present} known, {left} left there"
        );
    });
}

fn tell(cx: &Cx, database: &PredecessorDatabase, sum: &Account) {
    let left = sum.left();
    let mut note = format!(
        "{}: {} reports imported from the database of {}; {} rows were known to the server, or \
         deleted there since, {left} left in the database",
        cx.target.group,
        sum.imported,
        database.secret(),
        sum.present
    );
    let mut type_ = EventType::Normal;
    if left > 0 {
        note = format!("{note}: {}", sum.names.join(", "));
        type_ = EventType::Warning;
    }
    cx.event(type_, reasons::IMPORTED, &note);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, version: &str) -> DigestItem {
        DigestItem {
            name: name.to_owned(),
            resource_version: version.to_owned(),
            ..DigestItem::default()
        }
    }

    #[test]
    fn marks_of_an_import_are_not_taken_for_copies_that_are_gone_from_etcd() {
        assert!(is_ours(&mark("ours", "1")));
        assert!(!is_ours(&mark("etcd's", "12")));
        assert!(!is_ours(&mark("about to be made", "0")));
    }

    #[test]
    fn what_the_server_refuses_in_an_object_is_told_from_what_can_be_tried_again() {
        let status = |code| WireError::Status {
            method: http::Method::POST,
            path: String::new(),
            code,
            reason: String::new(),
            message: String::new(),
            retry_after: None,
        };
        assert!([400, 413, 422].map(status).iter().all(is_of_an_object));
        assert!(
            ![401, 403, 404, 409, 429, 503]
                .map(status)
                .iter()
                .any(is_of_an_object)
        );
    }
}
