//! `patch`: an object changed by a JSON patch or a JSON merge patch.

use apimachinery::error::ApiError;
use apimachinery::schema::{self, DecodeError, Decoded, Encoding, FieldError};
use fieldmanager::go::{Flavour, json};
use serde_json::Value;

use super::collection::{Collection, Outcome};
use super::json_patch::{Patch, Patched};
use super::strategy::{Object, create, into_fields, meta};
use super::update::Change;
use super::{FieldValidation, RegistryError, WriteOptions, body, causes};

/// The kinds of patches that say what is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

impl Collection<'_> {
    /// Changes the object of this name by a patch.
    ///
    /// # Errors
    /// The refusals of the kube-apiserver; see the modules that each step calls.
    pub async fn patch(
        &self,
        name: &str,
        type_: PatchType,
        bytes: &[u8],
        options: &WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let mut read = None;
        let patch = |old: Object| {
            // Where there is no object, the patch is not looked at.
            let patch = match &mut read {
                Some(patch) => patch,
                none => none.insert(self.read_patch(type_, bytes, options)?),
            };
            let new = self.patched(name, patch, &old)?;
            let (old, new) = self.tracked(options, Some(old), new);
            let applied = false;
            Ok(Change { old, new, applied })
        };
        self.change(name, None, options.dry_run, patch).await
    }

    fn read_patch(
        &self,
        type_: PatchType,
        bytes: &[u8],
        options: &WriteOptions,
    ) -> Result<ReadPatch, ApiError> {
        let strictly = options.field_validation != FieldValidation::Ignore;
        let Decoded { value, duplicates } = schema::decode(bytes, Encoding::Json)
            .map_err(|error| no_json(type_, strictly, error))?;
        let text = schema::readable(bytes);
        let refuse = |error| self.refuse("", error);
        let (patch, strict) = match type_ {
            PatchType::Json => {
                let (patch, told) = Patch::json(&text, strictly).map_err(refuse)?;
                let told = told.into_iter().map(|text| format!("json patch {text}"));
                (patch, told.collect())
            }
            PatchType::Merge => {
                let patch = Patch::merge(&text, value, strictly).map_err(refuse)?;
                (patch, duplicates)
            }
        };
        Ok(ReadPatch {
            patch,
            strict,
            validation: options.field_validation,
        })
    }

    /// Returns the object after the patch.
    fn patched(&self, name: &str, patch: &ReadPatch, old: &Object) -> Result<Object, ApiError> {
        let refuse = |error| self.refuse(name, error);
        let patched = patch.patch.apply(old).map_err(refuse)?;
        let mut object = self.decode_patched(patch, patched)?;
        create::ensure_namespace(&mut object, self.namespace).map_err(refuse)?;
        body::check_name(name, &object)?;
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

    /// Shapes the outcome as the body of an update would be, and warns of probable mistakes.
    fn decode_patched(&self, patch: &ReadPatch, patched: Patched) -> Result<Object, ApiError> {
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
        let unknown = self
            .coerce(&mut value, &api_version, &kind)
            .map_err(|error| invalid(before.clone(), error.to_string()))?;
        let mut strict = patch.strict.clone();
        strict.extend(patched.duplicates);
        strict.extend(unknown.iter().map(|path| body::unknown_field(path)));
        match patch.validation {
            FieldValidation::Strict if !strict.is_empty() => {
                return Err(invalid(before, body::strict_error(&strict)));
            }
            FieldValidation::Warn => self.warnings.add(strict),
            FieldValidation::Ignore | FieldValidation::Strict => {}
        }
        Ok(into_fields(value))
    }
}

/// A patch, and the strictness with which its outcome is read.
struct ReadPatch {
    patch: Patch,
    /// The mistakes in the patch itself where it is read strictly.
    strict: Vec<String>,
    validation: FieldValidation,
}

/// Returns a 400 for a body that is no JSON, in the words of the part of the kube-apiserver that
/// reads it first.
fn no_json(type_: PatchType, strictly: bool, error: DecodeError) -> ApiError {
    let (DecodeError::Json(reason) | DecodeError::Yaml(reason)) = error;
    ApiError::bad_request(match (strictly, type_) {
        (true, _) => format!("error decoding patch: {reason}"),
        (false, PatchType::Merge) => "Invalid JSON Patch".to_owned(),
        (false, PatchType::Json) => reason,
    })
}

/// Returns the version within an object's `apiVersion`; empty where there is none.
fn version(object: &Object) -> &str {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    api_version
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default()
}
