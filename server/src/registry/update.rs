//! `update`: an object replaced; and the checks and the write of every other change of an object.

use apimachinery::error::ApiError;
use apimachinery::mutation::{Mutation, broken};
use bytes::Bytes;
use serde_json::Value;
use storage::model::{StoredObject, canonical_json};
use storage::store::{Write, WriteError};

use super::collection::{Collection, CommitError, Form, MAX_ATTEMPTS, Outcome};
use super::strategy::create::{self, Dedup};
use super::strategy::{Object, into_fields, lifecycle, meta, update, validate};
use super::{RegistryError, WriteOptions, body};

/// The ground on which a change is decided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// The newest state, of which the database was asked.
    Newest,
    /// The state in memory, of which the database was not asked. A write in its place fails where
    /// it is not the newest; an answer without a write needs a question.
    Known,
}

/// The consequence of a change.
enum Decided {
    /// Nothing is written.
    Unwritten(Object),
    /// The object is replaced.
    Replace(Write),
    /// The last finalizer was taken away, so the object goes.
    Remove { write: Write, last: Object },
}

/// A stored object and its new state, both in the requested version.
pub(super) struct Change {
    /// The stored object.
    pub old: Object,
    /// The new state.
    pub new: Object,
    /// True when the new state was applied: it is then not in the shape of its schema yet.
    pub applied: bool,
}

impl Collection<'_> {
    /// Replaces the object of this name.
    ///
    /// # Errors
    /// The refusals of the kube-apiserver; see the modules that each step calls.
    pub async fn update(
        &self,
        name: &str,
        mut object: Object,
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let placed = create::ensure_namespace(&mut object, self.namespace);
        placed.map_err(|error| self.refuse(name, error))?;
        body::check_name(name, &object)?;
        let key = self.storage_key(name, options.dry_run);
        let uid = meta::text(&object, "uid").to_owned();
        let named = update::version(&object).unwrap_or_default();
        let object = Value::Object(object);
        if !options.dry_run
            && let Some(stored) = self.unchanged(name, named, &object).await?
        {
            return Ok(Outcome::changed(Form::Stored(stored)));
        }
        let mut object = Some(into_fields(object));
        let replace = |old: Object| {
            let same = update::check_uid(&uid, &old, &key);
            same.map_err(|error| self.refuse(name, error))?;
            // It names the version that it replaces, so it cannot be tried again.
            let mut new = object.take().ok_or_else(|| self.modified(name))?;
            let warning = create::dedup_owner_references(&mut new, Dedup::Received);
            self.warnings.add(warning);
            let (old, new) = self.tracked(options, Some(old), new);
            let applied = false;
            Ok(Change { old, new, applied })
        };
        self.change(name, Some(named), options.dry_run, replace)
            .await
    }

    /// Returns the name of the object in the kube-apiserver's storage; part of an error text. A dry
    /// run does not get as far as etcd, where keys have a prefix.
    fn storage_key(&self, name: &str, dry_run: bool) -> String {
        let definition = self.definition;
        let key = self.key(name);
        let prefix = if dry_run { "" } else { "/registry" };
        format!("{prefix}/{}/{}/{key}", definition.group, definition.plural)
    }

    /// Changes the stored object by `change`, again where somebody else has changed it in the
    /// meantime. The first attempt is on the state in memory, unless another version is `named`;
    /// the database is asked for its newest state only for the next one.
    ///
    /// # Errors
    /// 404 where there is none (any more), and as [`Collection::change_once`].
    pub(super) async fn change(
        &self,
        name: &str,
        named: Option<u64>,
        dry_run: bool,
        mut change: impl FnMut(Object) -> Result<Change, ApiError> + Send,
    ) -> Result<Outcome, ApiError> {
        let key = self.key(name);
        let known = self.resource.get(&key);
        let is_meant = |rv: u64| named.is_none_or(|named| named == rv);
        let mut known = known.filter(|stored| is_meant(stored.rv));
        for _ in 0..MAX_ATTEMPTS {
            let (stored, basis) = if let Some(stored) = known.take() {
                (stored, Basis::Known)
            } else {
                self.caught_up().await?;
                let stored = self.resource.get(&key);
                (stored.ok_or_else(|| self.not_found(name))?, Basis::Newest)
            };
            let changed = self.change_once(&stored, basis, dry_run, &mut change);
            if let Some(outcome) = changed.await? {
                return Ok(outcome);
            }
        }
        Err(self.modified(name))
    }

    /// Checks, prepares and writes a change; returns `None` when the object was changed or deleted
    /// by somebody else in the meantime. A change that changes nothing is not written; one that
    /// takes the last finalizer of a deleted object removes it.
    ///
    /// # Errors
    /// 409, 422, and the refusals of `change`, the namespace and the store.
    pub(super) async fn change_once(
        &self,
        stored: &StoredObject,
        basis: Basis,
        dry_run: bool,
        change: impl FnOnce(Object) -> Result<Change, ApiError> + Send,
    ) -> Result<Option<Outcome>, ApiError> {
        let decided = self.decide(stored, dry_run, change).await;
        let is_written = matches!(decided, Ok(Decided::Replace(_)));
        if !is_written && !self.is_certain(stored, basis).await? {
            return Ok(None);
        }
        let (write, last) = match decided? {
            Decided::Unwritten(object) => {
                return Ok(Some(Outcome::changed(Form::Unstored(object))));
            }
            Decided::Replace(write) => (write, None),
            Decided::Remove { write, last } => (write, Some(last)),
        };
        match (self.commit(write).await, last) {
            // Somebody else may have taken the last finalizer at the same time.
            (Ok(_) | Err(CommitError::Write(WriteError::NotFound(_))), Some(last)) => {
                Ok(Some(Outcome::changed(Form::Unstored(last))))
            }
            (Ok(written), None) => Ok(Some(Outcome::changed(Form::of(&written)))),
            (Err(CommitError::Write(WriteError::Conflict { .. } | WriteError::NotFound(_))), _) => {
                Ok(None)
            }
            (Err(other), _) => Err(self.not_committed(stored.key.name(), other)),
        }
    }

    /// Returns whether an answer about an object may be given without a write: it is as the
    /// database has it.
    pub(super) async fn is_certain(
        &self,
        stored: &StoredObject,
        basis: Basis,
    ) -> Result<bool, ApiError> {
        if basis == Basis::Newest {
            return Ok(true);
        }
        self.caught_up().await?;
        let present = self.resource.get(&stored.key);
        Ok(present.is_some_and(|present| present.rv == stored.rv))
    }

    /// Checks and prepares a change.
    ///
    /// # Errors
    /// 409, 422, and the refusals of `change` and the namespace.
    async fn decide(
        &self,
        stored: &StoredObject,
        dry_run: bool,
        change: impl FnOnce(Object) -> Result<Change, ApiError> + Send,
    ) -> Result<Decided, ApiError> {
        let name = stored.key.name();
        let (live, text) = self.live(stored)?;
        let change = change(live)?;
        self.admit(lifecycle::Operation::Update, name).await?;
        let (new, old) = self.prepared(name, change, dry_run)?;
        let completes_deletion = update::completes_deletion(&new, &old);
        if dry_run || !completes_deletion && self.is_stored(&new, &old, &text)? {
            return Ok(Decided::Unwritten(new));
        }
        let (key, expected_rv) = (stored.key.clone(), Some(stored.rv));
        if completes_deletion {
            let write = Write::Delete {
                key,
                expected_uid: None,
                expected_rv,
                last: self.stored_form(old),
            };
            return Ok(Decided::Remove { write, last: new });
        }
        Ok(Decided::Replace(Write::Update {
            key,
            expected_rv,
            object: self.stored_form(new),
        }))
    }

    /// Returns the new and the old object as they are to be stored, checked.
    fn prepared(
        &self,
        name: &str,
        change: Change,
        dry_run: bool,
    ) -> Result<(Object, Object), ApiError> {
        let Change {
            mut new,
            old,
            applied,
        } = change;
        update::check_version(&new, &old).map_err(|error| self.refuse(name, error))?;
        let version = meta::text(&old, "resourceVersion");
        meta::set_text(&mut new, "resourceVersion", version);
        self.warnings.add(update::prepare(&mut new, &old));
        if !dry_run {
            // The storage's to do, which a dry run does not reach.
            meta::set_text(&mut new, "selfLink", "");
        }
        let checked = self.check_change(new, old);
        let (mut new, old) = checked.map_err(|error| self.refuse(name, error))?;
        self.warnings
            .add(validate::finalizer_warnings(&new, Some(&old)));
        if applied {
            new = self.shaped(new)?;
        }
        Ok((new, old))
    }

    /// Validates the object as it would be stored; returns both.
    fn check_change(&self, new: Object, old: Object) -> Result<(Object, Object), RegistryError> {
        self.check_type(&new)?;
        let namespaced = self.definition.namespaced;
        let mut errors = validate::object_meta(&new, namespaced, validate::NameRule::PathSegment);
        // Twice, as in the kube-apiserver: once for any resource, once for custom resources.
        errors.extend(validate::object_meta_update(&new, &old));
        errors.extend(validate::object_meta_update(&new, &old));
        let (mut new, old) = (Value::Object(new), Value::Object(old));
        fieldmanager::keep_timestamps(&old, &mut new);
        errors.extend(self.version.schema.validate_update(&new, &old));
        if errors.is_empty() {
            Ok((into_fields(new), into_fields(old)))
        } else {
            Err(RegistryError::Invalid(errors))
        }
    }

    /// Returns whether a write would change nothing. `text` is the stored text, which may be of an
    /// older schema than `old`, the form in which it was read.
    fn is_stored(&self, new: &Object, old: &Object, text: &Bytes) -> Result<bool, ApiError> {
        if new != old || broken(Mutation::NoOpWrites) {
            return Ok(false);
        }
        let object = self.stored_form(new.clone());
        let unchanged = canonical_json(&object).map_err(ApiError::internal)?;
        Ok(unchanged == *text)
    }
}
