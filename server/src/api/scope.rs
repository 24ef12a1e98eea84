//! The resolved subject of a request: the resource, its version, its place in the store.

use std::sync::Arc;

use apimachinery::definition::{ResourceDefinition, VersionDefinition};
use apimachinery::error::ApiError;
use apimachinery::schema::Encoding;
use fieldmanager::FieldManager;
use fieldmanager::go::quote;
use http::Method;
use storage::cache::Resource;
use storage::model::{GroupResource, ObjectKey};
use tokio::time::Instant;

use super::Api;
use crate::cluster::Effective;
use crate::http::RequestContext;
use crate::http::negotiation::{BodyType, body_type};
use crate::registry::strategy::names;
use crate::registry::{Collection, Warnings, gate};

/// A request for objects of a served resource.
#[derive(Debug)]
pub struct Scope {
    /// The request.
    pub ctx: RequestContext,
    /// The resource.
    pub definition: Arc<ResourceDefinition>,
    /// The requested version of it.
    pub version: VersionDefinition,
    /// The manager of field ownership in this version.
    pub field_manager: Arc<FieldManager>,
    /// The objects of the resource.
    pub resource: Arc<Resource>,
    /// The time until which the request may wait for a held gate.
    pub patience: Instant,
    /// The warnings for the client.
    pub warnings: Warnings,
}

/// Verbs that name or make one object, and so need a namespace where objects have one.
const IN_NAMESPACE: &[&str] = &[
    "get",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

impl Scope {
    /// Resolves a request.
    ///
    /// # Errors
    /// 404 as text where the path leads nowhere, 404 about the object for a subresource, 503 while
    /// the resource is not stored yet.
    pub fn resolve(api: &Api, ctx: RequestContext) -> Result<Self, ApiError> {
        let info = &ctx.info;
        let served = api.definitions.load();
        let (Effective { definition, .. }, version) = served
            .version(&info.api_group, &info.version, &info.resource)
            .ok_or(ApiError::PageNotFound)?;
        let field_manager = definition
            .field_manager(&info.version)
            .ok_or(ApiError::PageNotFound)?;
        check_path(&ctx, definition)?;
        let name = GroupResource::new(info.api_group.as_str(), info.resource.as_str());
        let resource = api.store.resource(&name).ok_or_else(|| {
            ApiError::service_unavailable(format!("{name} is being set up, try again"), 1)
        })?;
        Ok(Self {
            definition: Arc::clone(definition),
            version: version.clone(),
            field_manager: Arc::clone(field_manager),
            resource,
            patience: gate::patience(),
            warnings: Warnings::default(),
            ctx,
        })
    }

    /// Returns the namespace of the request; `None` for all namespaces and for cluster-scoped
    /// resources.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        Some(self.ctx.info.namespace.as_str()).filter(|ns| !ns.is_empty())
    }

    /// Returns the key of `name` in the namespace of the request.
    #[must_use]
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.ctx.info.namespace, name)
    }

    /// Returns the name in the path.
    ///
    /// # Errors
    /// 400 when there is none, or one that no object can have.
    pub fn object_name(&self) -> Result<&str, ApiError> {
        let name = self.ctx.info.name.as_str();
        if name.is_empty() {
            return Err(ApiError::bad_request("name must be provided"));
        }
        let wrong = names::path_segment_errors(name);
        if wrong.is_empty() {
            return Ok(name);
        }
        Err(ApiError::bad_request(format!(
            "Name parameter invalid: {}: {}",
            quote(name),
            wrong.join(";")
        )))
    }

    /// Returns a 404 about an object.
    #[must_use]
    pub fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.definition.group, &self.definition.plural, name)
    }

    /// Returns the encoding of a body with an object.
    ///
    /// # Errors
    /// 415.
    pub fn body_encoding(&self) -> Result<Encoding, ApiError> {
        Ok(match body_type(&self.ctx.headers, &BodyType::OBJECTS)? {
            BodyType::Yaml => Encoding::Yaml,
            _ => Encoding::Json,
        })
    }

    /// Returns the objects that the request is about, for a write.
    #[must_use]
    pub fn collection<'a>(&'a self, api: &'a Api) -> Collection<'a> {
        Collection {
            store: &api.store,
            namespaces: &*api.namespaces,
            resource: &self.resource,
            definition: &self.definition,
            version: &self.version,
            field_manager: &self.field_manager,
            namespace: &self.ctx.info.namespace,
            user_agent: self.ctx.user_agent(),
            patience: self.patience,
            warnings: &self.warnings,
        }
    }
}

fn check_path(ctx: &RequestContext, definition: &ResourceDefinition) -> Result<(), ApiError> {
    let info = &ctx.info;
    let verb = info.verb.as_str();
    if !definition.namespaced && !info.namespace.is_empty() {
        return Err(ApiError::PageNotFound);
    }
    if !info.subresource.is_empty() {
        return Err(ApiError::not_found(
            &definition.group,
            &definition.plural,
            &info.name,
        ));
    }
    if definition.namespaced && info.namespace.is_empty() && IN_NAMESPACE.contains(&verb) {
        return Err(ApiError::PageNotFound);
    }
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    if !known.contains(&ctx.method) {
        return Err(ApiError::method_not_allowed(
            &definition.group,
            &definition.plural,
            verb,
        ));
    }
    Ok(())
}
