//! Reading an import before it is applied.

use crds::control::{ImportBatch, ImportItem, ImportMode, ImportType};
use serde_json::Value;

use super::StoreError;
use super::engine::{ImportChunk, ImportEntry};
use super::write::NUL;
use crate::model::{Dictionary, Encoded, ObjectKey, ResourceId};

/// A batch whose items are all usable.
#[derive(Debug)]
pub(super) struct Batch {
    mode: ImportMode,
    entries: Vec<ImportEntry>,
    progress: Option<u64>,
    horizon: Option<u64>,
    fence: Option<u64>,
}

/// Reads a batch; `namespaced` says whether the items have to name a namespace, `projects` whether
/// they are stored with their projections, and memory compresses them with `dictionary`.
pub(super) fn read_batch(
    batch: ImportBatch,
    namespaced: bool,
    projects: bool,
    dictionary: &Dictionary,
) -> Result<Batch, StoreError> {
    let mode = match batch.mode {
        // The forgetting is done before; the rest is a mirror's.
        ImportMode::Reset => ImportMode::Mirror,
        mode => mode,
    };
    let version = |field: &str, text: Option<String>| {
        text.map(|t| parse_rv(&t).map_err(|reason| invalid(field, reason)))
            .transpose()
    };
    let progress = version("progress", batch.progress)?;
    let horizon = version("horizon", batch.horizon)?;
    let entries = batch
        .items
        .into_iter()
        .enumerate()
        .map(|(i, item)| {
            read_item(item, mode, namespaced, projects, dictionary)
                .map_err(|(field, reason)| invalid(&format!("items[{i}].object{field}"), reason))
        })
        .collect::<Result<_, _>>()?;
    Ok(Batch {
        mode,
        entries,
        progress,
        horizon,
        fence: batch.fence,
    })
}

impl Batch {
    /// Cuts the batch into transactions of at most `items` items, and of `bytes` bytes of JSON
    /// beyond the first item. The horizon goes first; progress is reached with the last.
    pub fn into_chunks(self, resource: ResourceId, items: usize, bytes: usize) -> Vec<ImportChunk> {
        let Self {
            mode,
            entries,
            progress,
            horizon,
            fence,
        } = self;
        let chunk = |horizon| ImportChunk {
            resource,
            mode,
            items: Vec::new(),
            progress: None,
            horizon,
            fence,
        };
        let mut chunks = Vec::new();
        let mut last = chunk(horizon);
        let mut size = 0;
        for entry in entries {
            let json = entry.object.as_ref().map_or(0, |o| o.json.len());
            if last.items.len() >= items || (size > 0 && size + json > bytes) {
                chunks.push(std::mem::replace(&mut last, chunk(None)));
                size = 0;
            }
            size += json;
            last.items.push(entry);
        }
        last.progress = progress;
        chunks.push(last);
        chunks
    }
}

/// A field of an item, below `object`, and its fault.
type ItemError = (&'static str, String);

fn read_item(
    item: ImportItem,
    mode: ImportMode,
    namespaced: bool,
    projects: bool,
    dictionary: &Dictionary,
) -> Result<ImportEntry, ItemError> {
    let ImportItem { type_, object } = item;
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (name, namespace, uid) = (text("name"), text("namespace"), text("uid"));
    for (field, text) in [
        (".metadata.name", name),
        (".metadata.namespace", namespace),
        (".metadata.uid", uid),
    ] {
        if text.contains('\0') {
            return Err((field, NUL.to_owned()));
        }
    }
    if name.is_empty() || name.contains('/') {
        return Err((".metadata.name", "must be the name of an object".to_owned()));
    }
    if namespace.is_empty() == namespaced || namespace.contains('/') {
        let reason = if namespaced {
            "must name a namespace"
        } else {
            "must not be set"
        };
        return Err((".metadata.namespace", reason.to_owned()));
    }
    // A copy that was about to be made has no uid, also where it is forgotten again.
    if uid.is_empty() && !matches!(mode, ImportMode::WrittenBack | ImportMode::Pruned) {
        return Err((".metadata.uid", "must be set".to_owned()));
    }
    let key = ObjectKey::new(namespace, name);
    let uid = uid.to_owned();
    if mode == ImportMode::WrittenBack {
        let rv = match text("resourceVersion") {
            "" if uid.is_empty() => 0,
            text => parse_rv(text).map_err(|reason| (".metadata.resourceVersion", reason))?,
        };
        return Ok(ImportEntry {
            type_,
            key,
            uid,
            rv,
            object: None,
        });
    }
    if mode == ImportMode::Pruned {
        return Ok(ImportEntry {
            type_,
            key,
            uid,
            rv: 0,
            object: None,
        });
    }
    let rv = parse_rv(text("resourceVersion"))
        .map_err(|reason| (".metadata.resourceVersion", reason))?;
    let object = encode(type_, &object, projects, dictionary)?;
    Ok(ImportEntry {
        type_,
        key,
        uid,
        rv,
        object: Some(object),
    })
}

fn encode(
    type_: ImportType,
    object: &Value,
    projects: bool,
    dictionary: &Dictionary,
) -> Result<Encoded, ItemError> {
    // A deletion is logged with the last state, so it needs the object as well.
    let encoded = match (projects, type_) {
        (false, _) => Encoded::with_packed(object, dictionary),
        (true, ImportType::Deleted) => Encoded::from_value(object, dictionary),
        (true, _) => Encoded::with_projection(object, None, dictionary),
    };
    encoded.map_err(|e| ("", format!("cannot be stored ({type_:?}): {e}")))
}

fn parse_rv(text: &str) -> Result<u64, String> {
    match text.parse() {
        // The database keeps versions as signed 64-bit numbers.
        Ok(rv) if rv > 0 && rv < u64::MAX / 2 => Ok(rv),
        _ => Err(format!("must be a resource version, not {text:?}")),
    }
}

fn invalid(field: &str, reason: String) -> StoreError {
    StoreError::Invalid {
        field: field.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(name: &str, rv: &str) -> ImportItem {
        let metadata = json!({"namespace": "ns", "name": name, "uid": "u", "resourceVersion": rv});
        ImportItem {
            type_: ImportType::Added,
            object: json!({"metadata": metadata}),
        }
    }

    fn batch(items: Vec<ImportItem>) -> ImportBatch {
        let progress = Some("9".to_owned());
        let horizon = Some("3".to_owned());
        ImportBatch {
            items,
            progress,
            horizon,
            ..ImportBatch::default()
        }
    }

    fn read(batch: ImportBatch, namespaced: bool) -> Result<Batch, StoreError> {
        read_batch(batch, namespaced, false, Dictionary::built_in())
    }

    #[test]
    fn chunks_keep_order_and_place_horizon_first_and_progress_last() {
        let items = (1..=5)
            .map(|i| item(&format!("n{i}"), &i.to_string()))
            .collect();
        let batch = read(batch(items), true).unwrap();
        let chunks = batch.into_chunks(ResourceId(7), 2, usize::MAX);
        let rvs: Vec<Vec<u64>> = chunks
            .iter()
            .map(|c| c.items.iter().map(|e| e.rv).collect())
            .collect();
        assert_eq!(rvs, [vec![1, 2], vec![3, 4], vec![5]]);
        let horizons: Vec<_> = chunks.iter().map(|c| c.horizon).collect();
        assert_eq!(horizons, [Some(3), None, None]);
        let progress: Vec<_> = chunks.iter().map(|c| c.progress).collect();
        assert_eq!(progress, [None, None, Some(9)]);
    }

    #[test]
    fn chunks_are_cut_by_size_and_an_empty_batch_still_reports_progress() {
        let items = (1..=3).map(|i| item(&format!("n{i}"), "1")).collect();
        let items = read(batch(items), true).unwrap();
        assert_eq!(items.into_chunks(ResourceId(1), 100, 1).len(), 3);
        let empty = read(batch(vec![]), true).unwrap();
        let chunks = empty.into_chunks(ResourceId(1), 100, 1);
        assert_eq!((chunks.len(), chunks[0].progress), (1, Some(9)));
    }

    #[test]
    fn an_unusable_item_is_named_by_its_field() {
        let field = |item, namespaced| match read(batch(vec![item]), namespaced) {
            Err(StoreError::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            field(item("n", "0"), true),
            "items[0].object.metadata.resourceVersion"
        );
        assert_eq!(
            field(item("n", "x"), true),
            "items[0].object.metadata.resourceVersion"
        );
        assert_eq!(field(item("", "1"), true), "items[0].object.metadata.name");
        assert_eq!(
            field(item("n", "1"), false),
            "items[0].object.metadata.namespace"
        );
        let mut bad = item("n", "1");
        bad.object["metadata"]["labels"] = json!(3);
        assert_eq!(field(bad, true), "items[0].object");
    }
}
