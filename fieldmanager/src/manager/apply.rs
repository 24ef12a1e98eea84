//! Apply requests.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    ApplyError, BEFORE_FIRST_APPLY, FieldManager, UNKNOWN, describe, last_applied, strip, text,
    type_of,
};
use crate::managed::{Managed, Manager, has_entries, remove_entries};
use crate::set::FieldSet;
use crate::typed::Duplicates;
use crate::updater::UpdateError;
use crate::value::to_integers;

impl FieldManager {
    /// Returns the object after the manager `name` has applied `config`, with its managed fields;
    /// the same for a dry run. `live` is `None` when the object is to be created.
    ///
    /// The object that it returns is to be defaulted, pruned of nulls and validated as any other
    /// new object, and to go through [`crate::keep_timestamps`] before it is stored.
    ///
    /// # Errors
    /// If the apply is refused: the answer to return.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        name: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        let mut live = live.map_or_else(|| self.empty(), Value::clone);
        let managed = Managed::decode(&live)?;
        remove_entries(&mut live);
        self.check_kind(config)?;
        if let Some(object) = live.as_object_mut() {
            object.insert(
                "apiVersion".to_owned(),
                Value::from(self.api_version.as_str()),
            );
        }
        let mut config = config.clone();
        to_integers(&mut config);
        let request = Request {
            manager: self,
            config: &config,
            name,
            now,
        };
        let (mut applied, managed) = request.run(&live, managed, force)?;
        if name == last_applied::KUBECTL {
            last_applied::refresh(&mut applied, &config);
        }
        managed.encode_into(&mut applied);
        Ok(applied)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let (api_version, kind) = (text(config, "apiVersion"), text(config, "kind"));
        if api_version == self.api_version && kind == self.kind {
            return Ok(());
        }
        Err(ApplyError::BadRequest(format!(
            "invalid object type: {}",
            type_of(config)
        )))
    }
}

/// One apply.
struct Request<'a> {
    manager: &'a FieldManager,
    config: &'a Value,
    name: &'a str,
    now: Timestamp,
}

impl Request<'_> {
    fn run(
        &self,
        live: &Value,
        managed: Managed,
        force: bool,
    ) -> Result<(Value, Managed), ApplyError> {
        let error = match self.attempt(live, managed.clone(), force) {
            Err(ApplyError::Conflicts(conflicts)) if self.name == last_applied::KUBECTL => {
                conflicts
            }
            done => return done,
        };
        // Who changes from client-side to server-side apply does not conflict with itself.
        let Some(allowed) = self.allowed_conflicts(live) else {
            return Err(ApplyError::Conflicts(error));
        };
        if !error.to_field_set().difference(&allowed).is_empty() {
            return Err(ApplyError::Conflicts(error.without(&allowed)));
        }
        self.attempt(live, managed, true)
    }

    fn attempt(
        &self,
        live: &Value,
        mut managed: Managed,
        force: bool,
    ) -> Result<(Value, Managed), ApplyError> {
        let endpoint = self.manager;
        if managed.managers.is_empty() {
            managed = self.before_first_apply(live, managed)?;
        }
        if has_entries(self.config) {
            let reason = "metadata.managedFields must be nil";
            return Err(ApplyError::BadRequest(reason.to_owned()));
        }
        let config = endpoint
            .typed(self.config, Duplicates::Refused)
            .map_err(|error| failed_to_type("patch", self.config, &error))?;
        let typed_live = endpoint
            .typed(live, Duplicates::Allowed)
            .map_err(|error| failed_to_type("live", live, &error))?;
        let name = if self.name.is_empty() {
            UNKNOWN
        } else {
            self.name
        };
        let applier = Manager::apply(name, endpoint.subresource.as_str());
        let (changed, managers) =
            endpoint
                .versions
                .apply(&typed_live, &config, &managed.managers, &applier, force)?;
        managed.managers = managers;
        strip::strip(&mut managed.managers, &applier);
        let object = match changed {
            Some(object) => {
                managed.times.insert(applier, self.now);
                object.typed.into_value()
            }
            None => live.clone(),
        };
        Ok((object, managed))
    }

    /// Assigns the existing fields to a manager of their own.
    fn before_first_apply(&self, live: &Value, managed: Managed) -> Result<Managed, ApplyError> {
        let endpoint = self.manager;
        endpoint
            .update_managed(
                &endpoint.empty(),
                live,
                managed,
                BEFORE_FIRST_APPLY,
                self.now,
            )
            .map_err(|error| {
                let step = "failed to create manager for existing fields";
                ApplyError::Internal(format!("{step}: {error}"))
            })
    }

    /// Returns the fields that were applied by the annotation of client-side apply, as far as they
    /// are unchanged.
    fn allowed_conflicts(&self, live: &Value) -> Option<FieldSet> {
        let manager = self.manager;
        let last = last_applied::read(live)?;
        if text(&last, "apiVersion") != manager.api_version {
            return None;
        }
        let live = manager.typed(live, Duplicates::Refused).ok()?;
        let last = manager.typed(&last, Duplicates::Refused).ok()?;
        let comparison = last.typed.compare(&live.typed).ok()?;
        let applied = last.typed.to_field_set().ok()?;
        Some(
            applied
                .difference(&comparison.modified)
                .difference(&comparison.added)
                .difference(&comparison.removed),
        )
    }
}

fn failed_to_type(which: &str, object: &Value, error: &UpdateError) -> ApplyError {
    let object = describe(object);
    ApplyError::Internal(format!(
        "failed to create typed {which} object ({object}): {error}"
    ))
}
