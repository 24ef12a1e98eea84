//! `gate`: the state that decides if requests are refused, held or served.

use apimachinery::error::ApiError;
use axum::response::Response;
use crds::control::{API_VERSION, Gate, GateSpec};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use storage::model::GateStatus;

use super::target::{named, refused};
use super::{body, output};
use crate::api::Api;
use crate::api::control::body::invalid;
use crate::api::options::parse_uint;
use crate::http::RequestContext;

const KIND: &str = "Gate";

/// Returns the current gate.
///
/// # Errors
/// 404.
pub fn get(api: &Api, ctx: &RequestContext) -> Result<Response, ApiError> {
    let gate = named(api, ctx)?.record().gate;
    output::plain(ctx, StatusCode::OK, &describe(ctx, &gate))
}

/// Moves the gate; the user becomes its holder.
///
/// # Errors
/// 400 for a body that is no gate, 422 for a text that is no version, 409 for an old fencing token
/// and for opening a released gate, and the refusals of the store.
pub async fn update(api: &Api, ctx: &RequestContext, bytes: &[u8]) -> Result<Response, ApiError> {
    let resource = named(api, ctx)?;
    let wanted: Gate = body::read(ctx, bytes, KIND)?;
    let name = &resource.def().resource;
    let user = ctx.user.username.as_str();
    if let Some(version) = &wanted.spec.resource_version {
        parse_uint(version).map_err(|error| invalid(ctx, KIND, "spec.resourceVersion", &error))?;
    }
    let state = wanted.spec.state;
    let gate = api
        .store
        .set_gate(name, wanted.spec, Some(user))
        .await
        .map_err(|error| refused(ctx, KIND, error))?;
    tracing::info!(resource = %name, ?state, user, request_id = %ctx.request_id, "gate moved");
    output::plain(ctx, StatusCode::OK, &describe(ctx, &gate))
}

fn describe(ctx: &RequestContext, gate: &GateStatus) -> Gate {
    Gate {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: ObjectMeta {
            name: Some(ctx.info.name.clone()),
            ..ObjectMeta::default()
        },
        spec: GateSpec {
            state: gate.state,
            settled: Some(gate.settled),
            released: gate.released.then_some(true),
            resource_version: gate.frozen.map(|rv| rv.to_string()),
            fence: Some(gate.fence).filter(|fence| *fence > 0),
        },
    }
}
