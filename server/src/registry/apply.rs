//! `apply`: an object created or changed by the configuration of a manager.

use apimachinery::error::ApiError;
use apimachinery::schema::is_time;
use serde_json::Value;

use super::body::{Configuration, check_name};
use super::collection::{Collection, MAX_ATTEMPTS, Outcome};
use super::error::apply_error;
use super::strategy::create::{self, Dedup};
use super::strategy::{Object, into_fields, lifecycle, meta, update};
use super::update::{Basis, Change};
use super::{FieldValidation, RegistryError, WriteOptions};

impl Collection<'_> {
    /// Changes the object of this name to the configuration of a manager, or creates it.
    /// `may_create` is asked before it is created: the caller has already asked whether the client
    /// may patch.
    ///
    /// # Errors
    /// 409 where others own fields with other values, and all other refusals of the kube-apiserver.
    pub async fn apply<A>(
        &self,
        name: &str,
        bytes: &[u8],
        options: &WriteOptions,
        may_create: impl Fn() -> A + Sync,
    ) -> Result<Outcome, ApiError>
    where
        A: Future<Output = Result<(), ApiError>> + Send,
    {
        let wanted = Configuration::read(bytes)?;
        let change = |live: Object| {
            let live = Value::Object(live);
            let new = self.merged(name, &wanted, options, Some(&live))?;
            Ok(Change {
                old: into_fields(live),
                new,
                applied: true,
            })
        };
        let key = self.key(name);
        let mut known = self.resource.get(&key);
        for _ in 0..MAX_ATTEMPTS {
            let (stored, basis) = if let Some(stored) = known.take() {
                (Some(stored), Basis::Known)
            } else {
                self.caught_up().await?;
                (self.resource.get(&key), Basis::Newest)
            };
            let outcome = if let Some(stored) = stored {
                let changed = self.change_once(&stored, basis, options.dry_run, change);
                changed.await?
            } else {
                let object = self.merged(name, &wanted, options, None)?;
                self.admit(lifecycle::Operation::Create, name).await?;
                let object = self.applied_new(name, object, options.dry_run)?;
                may_create().await?;
                let object = self.shaped(object)?;
                self.insert(name, object, options.dry_run).await?
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        Err(self.modified(name))
    }

    /// Returns the merged object, with its field managers, in the place that the path names.
    fn merged(
        &self,
        name: &str,
        wanted: &Configuration,
        options: &WriteOptions,
        live: Option<&Value>,
    ) -> Result<Object, ApiError> {
        let manager = options.field_manager.as_str();
        let now = jiff::Timestamp::now();
        let applied = self
            .field_manager
            .apply(live, &wanted.value, manager, options.force, now);
        let mut value = applied.map_err(apply_error)?;
        self.check_repeated(wanted, options.field_validation)?;
        self.version.schema.default_values(&mut value);
        let mut object = into_fields(value);
        drop_unreadable(&mut object);
        if live.is_none() {
            check_no_uid(&object).map_err(|error| self.refuse(name, error))?;
        }
        let placed = create::ensure_namespace(&mut object, self.namespace);
        placed.map_err(|error| self.refuse(name, error))?;
        check_name(name, &object)?;
        Ok(object)
    }

    /// Refuses a body that repeats keys, or warns the client. A body that cannot be applied is
    /// refused before.
    fn check_repeated(
        &self,
        wanted: &Configuration,
        validation: FieldValidation,
    ) -> Result<(), ApiError> {
        let repeated = &wanted.repeated;
        match validation {
            FieldValidation::Strict if !repeated.is_empty() => {
                let lines = repeated.iter().map(|key| format!("\n  {key}"));
                return Err(ApiError::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                     errors:{}",
                    lines.collect::<String>()
                )));
            }
            FieldValidation::Warn => {
                self.warnings.add(repeated.iter().map(ToString::to_string));
            }
            FieldValidation::Ignore | FieldValidation::Strict => {}
        }
        Ok(())
    }

    /// Prepares and checks an object that was applied and is to be created.
    fn applied_new(
        &self,
        name: &str,
        mut object: Object,
        dry_run: bool,
    ) -> Result<Object, ApiError> {
        let warning = create::dedup_owner_references(&mut object, Dedup::Patched);
        self.warnings.add(warning);
        update::version(&object).map_err(|error| self.refuse(name, error))?;
        create::assign(&mut object, jiff::Timestamp::now());
        if !dry_run {
            // The storage's to do, which a dry run does not reach.
            meta::set_text(&mut object, "resourceVersion", "");
            meta::set_text(&mut object, "selfLink", "");
        }
        self.check_new(name, object)
    }
}

/// Refuses a uid in an object that is new: a client that sends one means an object that exists.
fn check_no_uid(object: &Object) -> Result<(), RegistryError> {
    let uid = meta::text(object, "uid");
    if uid.is_empty() {
        return Ok(());
    }
    Err(RegistryError::Conflict {
        names_kind: false,
        detail: format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was \
             found"
        ),
    })
}

/// Takes away a time of deletion that is no time, and a grace period that is no whole number: where
/// an applied object is checked these count as missing, and storage drops them.
fn drop_unreadable(object: &mut Object) {
    meta::edit(object, |metadata| {
        metadata.retain(|field, value| match field.as_str() {
            "deletionGracePeriodSeconds" => value.is_i64(),
            "deletionTimestamp" => value.as_str().is_some_and(is_time),
            _ => true,
        });
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_can_read_is_dropped() {
        let mut object = into_fields(json!({"metadata": {"name": "a",
            "deletionTimestamp": 7, "deletionGracePeriodSeconds": 1.5}}));
        drop_unreadable(&mut object);
        assert_eq!(Value::Object(object), json!({"metadata": {"name": "a"}}));
        let good = json!({"metadata": {"deletionTimestamp": "2000-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 0}});
        let mut object = into_fields(good.clone());
        drop_unreadable(&mut object);
        assert_eq!(Value::Object(object), good);
    }
}
