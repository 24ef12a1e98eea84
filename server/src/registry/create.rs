//! `create`: a new object, under a given or a generated name.

use apimachinery::error::ApiError;
use serde_json::Value;
use storage::store::{Write, WriteError};

use super::collection::{Collection, CommitError, Form, Outcome};
use super::strategy::create::{self, Dedup, MAX_NAME_ATTEMPTS};
use super::strategy::{Object, into_fields, lifecycle, meta, validate};
use super::{RegistryError, WriteOptions};

impl Collection<'_> {
    /// Stores a new object, under a name that is generated where it has none.
    ///
    /// # Errors
    /// The refusals of the kube-apiserver; see the modules that each step calls.
    pub async fn create(
        &self,
        mut object: Object,
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let placed = create::ensure_namespace(&mut object, self.namespace);
        placed.map_err(|error| self.refuse("", error))?;
        let name = match meta::text(&object, "name") {
            "" => meta::text(&object, "generateName"),
            name => name,
        };
        self.admit(lifecycle::Operation::Create, name).await?;
        create::wipe(&mut object);
        let warning = create::dedup_owner_references(&mut object, Dedup::Received);
        self.warnings.add(warning);
        let (_, mut object) = self.tracked(options, None, object);
        create::assign(&mut object, jiff::Timestamp::now());
        self.insert_named(object, options.dry_run).await
    }

    /// Stores the object, each time under a new name where it has none of its own.
    async fn insert_named(&self, template: Object, dry_run: bool) -> Result<Outcome, ApiError> {
        let generates = create::needs_name(&template);
        let has_generate_name = !meta::text(&template, "generateName").is_empty();
        let mut template = Some(template);
        let mut attempts = if generates { MAX_NAME_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let kept = (attempts > 0).then(|| template.clone()).flatten();
            let mut object = std::mem::replace(&mut template, kept).unwrap_or_default();
            if generates {
                create::generate_name(&mut object);
            }
            let name = meta::text(&object, "name").to_owned();
            let object = self.check_new(&name, object)?;
            match self.insert(&name, object, dry_run).await? {
                Some(outcome) => return Ok(outcome),
                None if attempts > 0 => {}
                None => return Err(self.taken(has_generate_name, &name)),
            }
        }
    }

    /// Validates a new object as it would be stored.
    ///
    /// # Errors
    /// 422.
    pub(super) fn check_new(&self, name: &str, object: Object) -> Result<Object, ApiError> {
        let refuse = |error| self.refuse(name, error);
        self.check_type(&object).map_err(refuse)?;
        let namespaced = self.definition.namespaced;
        let mut errors = validate::object_meta(&object, namespaced, validate::NameRule::Subdomain);
        let value = Value::Object(object);
        errors.extend(self.version.schema.validate(&value));
        if !errors.is_empty() {
            return Err(refuse(RegistryError::Invalid(errors)));
        }
        let object = into_fields(value);
        self.warnings
            .add(validate::finalizer_warnings(&object, None));
        Ok(object)
    }

    /// Stores a new object that was checked; `None` when the name is taken.
    ///
    /// # Errors
    /// 500 for an object with a resourceVersion, and the refusals of the store.
    pub(super) async fn insert(
        &self,
        name: &str,
        mut object: Object,
        dry_run: bool,
    ) -> Result<Option<Outcome>, ApiError> {
        let key = self.key(name);
        if dry_run {
            let is_taken = self.resource.get(&key).is_some();
            return Ok((!is_taken).then(|| Outcome::created(Form::Unstored(object))));
        }
        // Like the existence of the name this is the storage's to say, which a dry run does not ask.
        let unversioned = create::take_resource_version(&mut object);
        unversioned.map_err(|error| self.refuse(name, error))?;
        let object = self.stored_form(object);
        match self.commit(Write::Create { key, object }).await {
            Ok(written) => Ok(Some(Outcome::created(Form::of(&written)))),
            Err(CommitError::Write(WriteError::AlreadyExists(_))) => Ok(None),
            Err(other) => Err(self.not_committed(name, other)),
        }
    }

    /// Returns a 409 for a name that is taken.
    fn taken(&self, has_generate_name: bool, name: &str) -> ApiError {
        let (group, plural) = (&self.definition.group, &self.definition.plural);
        if has_generate_name {
            return ApiError::generate_name_conflict(group, plural, name);
        }
        let deleting = self
            .resource
            .get(&self.key(name))
            .and_then(|object| object.value().ok())
            .is_some_and(|object| meta::has_deletion_timestamp(&into_fields(object)));
        if deleting {
            ApiError::already_exists_terminating(group, plural, name)
        } else {
            ApiError::already_exists(group, plural, name)
        }
    }
}
