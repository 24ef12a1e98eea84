//! The cutting of a stream of objects and events into batches that the server takes.

use std::io;

use crds::control::{
    API_VERSION, ImportBatch, ImportItem, ImportMode, ImportType, MAX_IMPORT_ITEMS,
};
use serde_json::Value;

use crate::migration::cluster::pages::{Text, version};

/// Largest sum of the objects' sizes in one batch, in bytes; the server takes bodies of 3 MiB.
pub const MAX_BATCH_BYTES: usize = 2 << 20;

/// One thing to import.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An object of the list.
    Object(Text),
    /// An event of the watch, with its version.
    Event(ImportType, Option<u64>, Text),
    /// A bookmark: everything up to this version has come.
    Bookmark(u64),
}

impl Entry {
    /// Returns the entry of an object of the list.
    #[must_use]
    pub fn object(object: &Value) -> Self {
        Self::Object(object.into())
    }

    /// Returns the entry of an event, with the object after it.
    #[must_use]
    pub fn event(type_: ImportType, object: &Value) -> Self {
        Self::Event(type_, version(object), object.into())
    }

    /// Returns the size on the wire, near enough to bound memory.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Object(object) | Self::Event(_, _, object) => object.as_str().len(),
            Self::Bookmark(_) => 0,
        }
    }
}

/// A collector of entries until a batch is full. Order is kept.
#[derive(Debug)]
pub struct Batcher {
    limit: usize,
    items: Vec<ImportItem<Text>>,
    bytes: usize,
    position: Option<u64>,
    bookmark: Option<u64>,
}

impl Batcher {
    /// Returns a batcher for at most `limit` entries a batch, and never more than the server takes.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        let limit = usize::try_from(limit)
            .unwrap_or(MAX_IMPORT_ITEMS)
            .clamp(1, MAX_IMPORT_ITEMS);
        Self {
            limit,
            items: Vec::new(),
            bytes: 0,
            position: None,
            bookmark: None,
        }
    }

    /// Returns whether an entry of `size` bytes still fits; a single large one always fits alone.
    #[must_use]
    pub fn fits(&self, size: usize) -> bool {
        self.items.is_empty()
            || (self.items.len() < self.limit && self.bytes + size <= MAX_BATCH_BYTES)
    }

    /// Adds an entry of `size` bytes.
    pub fn push(&mut self, entry: Entry, size: usize) {
        self.bytes += size;
        match entry {
            Entry::Object(object) => {
                self.items.push(ImportItem {
                    type_: ImportType::Object,
                    object,
                });
            }
            Entry::Event(type_, version, object) => {
                self.position = version.max(self.position);
                self.items.push(ImportItem { type_, object });
            }
            Entry::Bookmark(version) => {
                self.bookmark = Some(version).max(self.bookmark);
                self.position = Some(version).max(self.position);
            }
        }
    }

    /// Returns the batch so far and the newest version of the stream in it; `None` when there is
    /// nothing.
    pub fn take(&mut self) -> Option<(ImportBatch<Text>, Option<u64>)> {
        if self.items.is_empty() && self.bookmark.is_none() {
            return None;
        }
        let batch = ImportBatch {
            api_version: API_VERSION.to_owned(),
            kind: "ImportBatch".to_owned(),
            mode: ImportMode::Mirror,
            items: std::mem::take(&mut self.items),
            progress: self.bookmark.take().map(|v| v.to_string()),
            ..ImportBatch::default()
        };
        self.bytes = 0;
        Some((batch, self.position.take()))
    }
}

/// Returns the length of the compact JSON text of a value.
#[must_use]
pub fn json_size(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Neither a Value nor a counter can fail to be written.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) | Err(_) => counter.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let object = (1u64..10_000, 0usize..700_000).prop_map(|(version, size)| {
            json!({"metadata": {"resourceVersion": version.to_string()}, "x": "y".repeat(size)})
        });
        prop_oneof![
            object.clone().prop_map(|o| Entry::object(&o)),
            object.prop_map(|o| Entry::event(ImportType::Modified, &o)),
            (1u64..10_000).prop_map(Entry::Bookmark),
        ]
    }

    fn split(entries: &[Entry], limit: u32) -> Vec<(ImportBatch<Text>, Option<u64>)> {
        let mut batcher = Batcher::new(limit);
        let mut out = Vec::new();
        for entry in entries {
            let size = entry.size();
            if !batcher.fits(size) {
                out.extend(batcher.take());
            }
            batcher.push(entry.clone(), size);
        }
        out.extend(batcher.take());
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn batches_are_bounded_and_lose_nothing(
            entries in prop::collection::vec(entry(), 0..30), limit in 1u32..8
        ) {
            let batches = split(&entries, limit);
            let mut objects = Vec::new();
            for (batch, _) in &batches {
                prop_assert!(batch.items.len() <= limit as usize);
                let bytes: usize = batch.items.iter().map(|i| i.object.as_str().len()).sum();
                prop_assert!(bytes <= MAX_BATCH_BYTES || batch.items.len() == 1);
                objects.extend(batch.items.iter().map(|i| i.object.clone()));
            }
            let sent: Vec<Text> = entries
                .iter()
                .filter_map(|e| match e {
                    Entry::Object(o) | Entry::Event(_, _, o) => Some(o.clone()),
                    Entry::Bookmark(_) => None,
                })
                .collect();
            prop_assert_eq!(objects, sent);
            let newest = entries
                .iter()
                .filter_map(|e| match e {
                    Entry::Event(_, version, _) => *version,
                    Entry::Bookmark(v) => Some(*v),
                    Entry::Object(_) => None,
                })
                .max();
            prop_assert_eq!(batches.iter().filter_map(|(_, p)| *p).max(), newest);
        }
    }

    #[test]
    fn a_listed_object_does_not_move_the_position() {
        let mut batcher = Batcher::new(10);
        let object = json!({"metadata": {"resourceVersion": "900"}});
        batcher.push(Entry::object(&object), 10);
        let (batch, position) = batcher.take().unwrap();
        assert_eq!((batch.progress, position), (None, None));
        assert_eq!(batcher.take(), None);
    }
}
