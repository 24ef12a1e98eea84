//! Copies in etcd that the server's list lacks.

use std::collections::HashMap;

use crds::control::DigestSet;

use super::super::diff;
use super::{Account, Task, WriteBackError, Writer};
use crate::migration::cluster::pages::Key;
use crate::migration::cluster::wire::WireError;

impl Writer<'_> {
    /// Deletes copies of objects that the server does not have: they were deleted there, or by an
    /// earlier pass's account. What was neither imported nor written back is left, and so is what
    /// the server's database still has: a list alone is no proof that an object was deleted.
    pub(super) async fn delete_strays(&mut self) -> Result<Account, WriteBackError> {
        let strays = self.copies.iter().filter(|(_, copy)| !copy.matched);
        let mut strays: HashMap<Key, Box<str>> = strays
            .map(|(key, copy)| (key.clone(), copy.uid.clone()))
            .collect();
        if strays.is_empty() {
            return Ok(Account::default());
        }
        let name = self.resource.name();
        let mut marks = self.cx.control.digest_pages(name, DigestSet::Imported);
        let (mut work, mut stored) = (Vec::new(), Vec::new());
        while let Some(page) = marks.next().await? {
            for mark in page {
                let is_stored = mark.stored;
                let (key, mark) = diff::of_digest(mark);
                if !strays
                    .get(&key)
                    .is_some_and(|uid| is_mark_of(&mark.uid, uid))
                {
                    continue;
                }
                strays.remove(&key);
                if is_stored {
                    stored.push(key);
                } else {
                    work.push((key, Task::Delete));
                }
            }
        }
        for key in strays.keys() {
            tracing::warn!(resource = name, %key, "left in etcd: it was never copied");
        }
        self.put_unlisted(stored, &mut work).await?;
        self.carry_out(work, true).await
    }

    /// Adds the objects that the server's list lacked and its database has: created since, or
    /// missing in the memory of one server.
    async fn put_unlisted(
        &self,
        stored: Vec<Key>,
        work: &mut Vec<(Key, Task)>,
    ) -> Result<(), WireError> {
        for key in stored {
            if let Some(object) = self.ours(&key).await? {
                work.push((key, Task::Put(object)));
            } else {
                tracing::error!(
                    resource = self.resource.name(),
                    %key,
                    "left in etcd: the server does not find it, and its database has it"
                );
            }
        }
        Ok(())
    }
}

/// Returns whether a mark with the uid `marked` may stand for a copy: that of a copy which was about
/// to be made has none.
fn is_mark_of(marked: &str, uid: &str) -> bool {
    marked.is_empty() || marked == uid
}
