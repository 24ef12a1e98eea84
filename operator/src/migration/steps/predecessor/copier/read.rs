//! The reading of all objects of a predecessor, while its watches go on.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::lists;
use super::super::streams::Streams;
use super::super::table::identify;
use super::Copy;
use super::error::CopyError;
use crate::migration::cluster::endpoints::Endpoint;
use crate::migration::cluster::pages;
use crate::migration::steps::mirror;
use crate::migration::steps::mirror::batch::json_size;

/// Pages that may wait between the list and the copy.
const PAGES: usize = 2;

impl Copy<'_> {
    /// Returns an object as a CRD would have given it: with apiVersion and kind.
    pub(super) fn complete(&mut self, mut object: Value) -> Value {
        let mirror::Source { group, version, .. } = &self.source.common;
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), json!(format!("{group}/{version}")));
            map.insert("kind".to_owned(), json!(self.source.kind));
        }
        self.theirs = pages::version(&object).unwrap_or_default().max(self.theirs);
        if identify(&object).is_none() {
            let named = object["metadata"].to_string();
            self.unusable
                .get_or_insert(named.chars().take(200).collect());
        }
        object
    }

    /// Reads everything while the watches go on, and returns the number of changes that they had
    /// not told.
    pub(super) async fn pass(&mut self, streams: &mut Streams) -> Result<usize, CopyError> {
        let Some(endpoint) = self.source.common.endpoints.all.first() else {
            return Ok(0);
        };
        self.table.begin_list();
        let read = self.read(endpoint, streams).await;
        let found = match read {
            Ok(found) => found,
            Err(error) => {
                self.table.give_up_list();
                return Err(error);
            }
        };
        let gone = self.table.end_list();
        let found = found + gone.len();
        self.waiting.extend(gone);
        self.flush().await?;
        if let Some(example) = self.unusable.take() {
            let resource = self.source.common.plural.clone();
            return Err(CopyError::Unusable { resource, example });
        }
        let total = self.table.objects().len() as u64;
        self.progress.send_modify(|p| p.total = Some(total));
        Ok(found)
    }

    async fn read(
        &mut self,
        endpoint: &Endpoint,
        streams: &mut Streams,
    ) -> Result<usize, CopyError> {
        let (sender, mut pages) = mpsc::channel(PAGES);
        let source = self.source;
        let list = lists::list(source, endpoint, &sender);
        tokio::pin!(list);
        let (mut found, mut bytes, mut listed) = (0, 0, false);
        loop {
            tokio::select! {
                event = streams.next() => {
                    self.handle(event)?;
                    self.hear_all(streams)?;
                }
                Some(page) = pages.recv() => {
                    for object in page {
                        bytes += json_size(&object) as u64;
                        let object = self.complete(object);
                        let change = self.table.listed(object);
                        found += usize::from(change.is_some());
                        self.waiting.extend(change);
                    }
                }
                done = &mut list, if !listed => {
                    done?;
                    listed = true;
                }
            }
            if listed && pages.is_empty() {
                self.progress.send_modify(|p| p.bytes = bytes);
                return Ok(found);
            }
            self.flush().await?;
        }
    }
}
