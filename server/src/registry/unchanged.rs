//! Updates that change nothing, found without the steps of a change: many writers put back what
//! they have read.

use std::sync::Arc;

use apimachinery::error::ApiError;
use apimachinery::mutation::{Mutation, broken};
use serde_json::Value;
use storage::model::StoredObject;

use super::collection::Collection;
use super::strategy::{create, lifecycle, meta, validate};
use super::update::Basis;

impl Collection<'_> {
    /// Returns the stored object where an update to `object`, which names the version `named`, is
    /// certain to change nothing. Otherwise the update takes the long way, which may find the same.
    ///
    /// # Errors
    /// 503 when the database does not say whether there is a newer version.
    pub(super) async fn unchanged(
        &self,
        name: &str,
        named: u64,
        object: &Value,
    ) -> Result<Option<Arc<StoredObject>>, ApiError> {
        let known = self.resource.get(&self.key(name));
        let Some(stored) = known.filter(|stored| stored.rv == named) else {
            return Ok(None);
        };
        if !self.stays(&stored, object) {
            return Ok(None);
        }
        let admitted = self.admit(lifecycle::Operation::Update, name).await;
        let is_certain = admitted.is_ok() && self.is_certain(&stored, Basis::Known).await?;
        Ok(is_certain.then_some(stored))
    }

    /// Returns whether every step of an update would leave `stored` as it is, where `object` takes
    /// its place. What a client has sent is in the shape of its schema and has its defaults, so a
    /// stored object of the same text is so, too, and the steps meet two equal objects.
    fn stays(&self, stored: &StoredObject, object: &Value) -> bool {
        let Value::Object(fields) = object else {
            return false;
        };
        let version = self.definition.storage_version().unwrap_or(self.version);
        let api_version = self.definition.api_version(&version.name);
        let namespaced = self.definition.namespaced;
        let metadata_errors =
            || validate::object_meta(fields, namespaced, validate::NameRule::PathSegment);
        !broken(Mutation::NoOpWrites)
            && stored.is_stored_as(fields, &api_version)
            && meta::text(fields, "selfLink").is_empty()
            && !meta::has_deletion_timestamp(fields)
            && !create::has_duplicate_owners(fields)
            && self.field_manager.is_settled(object)
            && self.check_type(fields).is_ok()
            && metadata_errors().is_empty()
            && self.version.schema.validate(object).is_empty()
    }
}
