//! `patch`: JSON patch and JSON merge patch; the way to apply.

use apimachinery::error::ApiError;
use apimachinery::schema::{self, DecodeError, Decoded, Encoding, FieldError};
use axum::response::Response;
use fieldmanager::go::{Flavour, json};
use serde_json::Value;

use super::options::{FieldValidation, WriteKind, WriteOptions, causes};
use super::scope::Scope;
use super::view::View;
use super::{Api, apply, body, failure, field_managers, namespace, update, write};
use crate::http::negotiation::{BodyType, Offer, body_type};
use crate::registry::patch::{Patch, Patched};
use crate::registry::{Object, RegistryError, create, lifecycle, meta};

/// The kinds of patches that are applied. The garbage collector tries a strategic merge patch first
/// and falls back to a merge patch on 415, so the type is judged before anything else.
const ALLOWED: [BodyType; 3] = [
    BodyType::JsonPatch,
    BodyType::MergePatch,
    BodyType::ApplyYaml,
];

/// Answers a patch.
///
/// # Errors
/// 415 for other kinds of patches, and whatever the kube-apiserver refuses.
pub async fn patch(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let type_ = body_type(&scope.ctx.headers, &ALLOWED)?;
    if type_ == BodyType::ApplyYaml {
        return apply::apply(api, scope, bytes).await;
    }
    let name = scope.object_name()?;
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let view = View::new(scope, accepted, false)?;
    let options = WriteOptions::parse(&scope.ctx.info.query, WriteKind::Patch)?;
    let mut read = None;
    for _ in 0..write::MAX_ATTEMPTS {
        api.caught_up().await?;
        let stored = scope
            .resource
            .get(&scope.key(name))
            .ok_or_else(|| scope.not_found(name))?;
        let old = write::live_form(scope, &stored)?;
        // Where there is no object, the patch is not looked at.
        let request = match &mut read {
            Some(request) => request,
            none => none.insert(Request::read(scope, type_, bytes, &options)?),
        };
        let new = request.patched(scope, name, &old)?;
        let (old, new) = field_managers::of_changed(scope, &options, old, new);
        namespace::admit(api, scope, lifecycle::Write::Update, name).await?;
        let change = update::Change {
            new,
            old,
            stored: &stored,
            dry_run: options.dry_run,
            applied: false,
        };
        if let Some(response) = update::store(api, scope, &view, change).await? {
            return Ok(response);
        }
    }
    Err(failure::registry(scope, name, RegistryError::modified()))
}

/// 400 for a body that is no JSON, in the words of whatever part of the kube-apiserver reads it first.
fn no_json(type_: BodyType, strictly: bool, error: DecodeError) -> ApiError {
    let (DecodeError::Json(reason) | DecodeError::Yaml(reason)) = error;
    ApiError::bad_request(match (strictly, type_) {
        (true, _) => format!("error decoding patch: {reason}"),
        (false, BodyType::MergePatch) => "Invalid JSON Patch".to_owned(),
        (false, _) => reason,
    })
}

/// The version within an object's `apiVersion`; empty where there is none.
fn version(object: &Object) -> &str {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    api_version
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default()
}

/// A patch and how strictly its outcome is read.
struct Request {
    patch: Patch,
    /// What is wrong with the patch itself where it is read strictly.
    strict: Vec<String>,
    validation: FieldValidation,
}

impl Request {
    fn read(
        scope: &Scope,
        type_: BodyType,
        bytes: &[u8],
        options: &WriteOptions,
    ) -> Result<Self, ApiError> {
        let strictly = options.field_validation != FieldValidation::Ignore;
        let Decoded { value, duplicates } = schema::decode(bytes, Encoding::Json)
            .map_err(|error| no_json(type_, strictly, error))?;
        let text = schema::readable(bytes);
        let refuse = |error| failure::registry(scope, "", error);
        let (patch, strict) = if type_ == BodyType::JsonPatch {
            let (patch, told) = Patch::json(&text, strictly).map_err(refuse)?;
            let told = told.into_iter().map(|text| format!("json patch {text}"));
            (patch, told.collect::<Vec<_>>())
        } else {
            let patch = Patch::merge(&text, value, strictly).map_err(refuse)?;
            (patch, duplicates)
        };
        Ok(Self {
            patch,
            strict,
            validation: options.field_validation,
        })
    }

    /// The object as the patch makes it.
    fn patched(&self, scope: &Scope, name: &str, old: &Object) -> Result<Object, ApiError> {
        let refuse = |error| failure::registry(scope, name, error);
        let patched = self.patch.apply(old).map_err(refuse)?;
        let mut object = self.decode(scope, patched)?;
        create::ensure_namespace(&mut object, scope.namespace()).map_err(refuse)?;
        body::check_name(scope, &object)?;
        let given = meta::text(&object, "uid");
        if !given.is_empty() && meta::text(old, "uid").is_empty() {
            return Err(refuse(RegistryError::modified()));
        }
        if version(&object).is_empty() {
            // Found by what a kube-apiserver does last.
            let missing = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(ApiError::internal(missing));
        }
        Ok(object)
    }

    /// Shapes the outcome as the body of an update would be, and warns of what is not meant.
    fn decode(&self, scope: &Scope, patched: Patched) -> Result<Object, ApiError> {
        let mut value = Value::Object(patched.object);
        let text = || json(&value, Flavour::Standard);
        let invalid = |text: String, error: String| {
            let error = FieldError::invalid("patch", text, error);
            ApiError::invalid("", "", "", causes(&[error]))
        };
        let (api_version, kind) =
            body::type_meta(&value).map_err(|error| invalid(text(), error))?;
        if kind.is_empty() {
            return Err(invalid(text(), body::missing_kind(&text())));
        }
        let before = text();
        let unknown = body::coerce(scope, &mut value, &api_version, &kind)
            .map_err(|error| invalid(before.clone(), error.to_string()))?;
        let mut strict = self.strict.clone();
        strict.extend(patched.duplicates);
        strict.extend(
            unknown
                .into_iter()
                .map(|path| format!("unknown field \"{path}\"")),
        );
        if self.validation == FieldValidation::Strict && !strict.is_empty() {
            let error = format!("strict decoding error: {}", strict.join(", "));
            return Err(invalid(before, error));
        }
        if self.validation == FieldValidation::Warn {
            scope.notes.add(strict);
        }
        Ok(body::into_fields(value))
    }
}
