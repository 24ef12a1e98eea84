//! Field managers: whose the fields are after a write that is no apply.

use apimachinery::mutation::{Mutation, broken};
use fieldmanager::name_of_user_agent;
use serde_json::Value;

use super::body::into_fields;
use super::options::WriteOptions;
use super::scope::Scope;
use crate::registry::Object;

/// A new object with the entry of who creates it.
#[must_use]
pub fn of_new(scope: &Scope, options: &WriteOptions, new: Object) -> Object {
    track(scope, options, None, new)
}

/// A stored object, untouched, and what it is to become, with the entries of who changes it.
#[must_use]
pub fn of_changed(
    scope: &Scope,
    options: &WriteOptions,
    old: Object,
    new: Object,
) -> (Object, Object) {
    let old = Value::Object(old);
    let new = track(scope, options, Some(&old), new);
    (into_fields(old), new)
}

fn track(scope: &Scope, options: &WriteOptions, live: Option<&Value>, new: Object) -> Object {
    if broken(Mutation::OwnersLost) {
        return new;
    }
    let manager = match options.field_manager.as_str() {
        "" => name_of_user_agent(scope.ctx.user_agent()),
        name => name.to_owned(),
    };
    let now = jiff::Timestamp::now();
    let new = scope
        .field_manager
        .update(live, Value::Object(new), &manager, now);
    into_fields(new)
}
