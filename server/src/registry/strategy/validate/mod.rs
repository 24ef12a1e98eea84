//! Validation of `ObjectMeta`, on create and on update.
//!
//! Works on metadata that the schema has coerced, so every field has its type. Rules and
//! wording: apimachinery `api/validation/objectmeta.go`, 1.36.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use apimachinery::schema::{
    FieldError, MAX_ERRORS, dns_label_errors, dns_subdomain_errors, label_value_errors,
    qualified_name_errors,
};
use fieldmanager::NameError;
use fieldmanager::go::{Flavour, json, quote};
use serde_json::{Map, Value};

use super::{Object, meta, names};

/// Sum of the lengths of all keys and values of annotations, in bytes.
const ANNOTATIONS_MAX: i64 = 256 * 1024;
/// Longest subresource in an entry of managedFields, in bytes.
const SUBRESOURCE_MAX: i64 = 256;
/// Finalizer of foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning deletion.
pub const ORPHAN: &str = "orphan";

/// The rule for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS-1123 subdomain: the names of new custom resources.
    Subdomain,
    /// Anything that can stand in a URL path: names that are stored already.
    PathSegment,
}

/// Returns all errors of the metadata of an object that is to be stored.
#[must_use]
pub fn object_meta(object: &Object, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(metadata) = meta::metadata(object) else {
        return vec![FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )];
    };
    name_errors(metadata, rule, &mut errors);
    namespace_errors(metadata, namespaced, &mut errors);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
        && generation < 0
    {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            "metadata.generation",
            generation,
            detail,
        ));
    }
    label_errors(metadata, &mut errors);
    annotation_errors(metadata, &mut errors);
    owner_errors(metadata, &mut errors);
    finalizer_errors(metadata, &mut errors);
    managed_fields_errors(metadata, &mut errors);
    errors
}

/// Returns the errors of the metadata of an update. Most of them need a comparison with the stored
/// object. The errors of [`object_meta`] about labels, annotations, owners and managed fields are
/// reported here again, as the kube-apiserver does: its causes list such an error twice.
#[must_use]
pub fn object_meta_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let empty = Map::new();
    let (after, before) = (
        meta::metadata(new).unwrap_or(&empty),
        meta::metadata(old).unwrap_or(&empty),
    );
    if meta::has_deletion_timestamp(old) {
        no_new_finalizers(new, old, &mut errors);
    }
    for field in ["name", "namespace", "uid"] {
        if text(after, field) != text(before, field) {
            immutable(field, text(after, field), &mut errors);
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if after.get(field) != before.get(field) {
            immutable(
                field,
                after.get(field).cloned().unwrap_or(Value::Null),
                &mut errors,
            );
        }
    }
    label_errors(after, &mut errors);
    annotation_errors(after, &mut errors);
    owner_errors(after, &mut errors);
    managed_fields_errors(after, &mut errors);
    errors
}

fn immutable(field: &str, value: impl Into<Value>, errors: &mut Vec<FieldError>) {
    errors.push(FieldError::invalid(
        format!("metadata.{field}"),
        value,
        "field is immutable",
    ));
}

fn no_new_finalizers(new: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    let before: BTreeSet<&str> = meta::finalizers(old).collect();
    let added: BTreeSet<String> = meta::finalizers(new)
        .filter(|f| !before.contains(f))
        .map(quote)
        .collect();
    if added.is_empty() {
        return;
    }
    let list: Vec<String> = added.into_iter().collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{{{}}}",
        list.join(", ")
    );
    errors.push(FieldError::forbidden("metadata.finalizers", detail));
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn invalid(field: &str, value: &str, messages: Vec<String>, errors: &mut Vec<FieldError>) {
    errors.extend(
        messages
            .into_iter()
            .map(|m| FieldError::invalid(field, value, m)),
    );
}

fn name_errors(metadata: &Map<String, Value>, rule: NameRule, errors: &mut Vec<FieldError>) {
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        let messages = match rule {
            NameRule::Subdomain => subdomain_errors(&masked(generate_name)),
            NameRule::PathSegment => names::path_segment_prefix_errors(generate_name),
        };
        invalid("metadata.generateName", generate_name, messages, errors);
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    let messages = match rule {
        NameRule::Subdomain => subdomain_errors(name),
        NameRule::PathSegment => names::path_segment_errors(name),
    };
    invalid("metadata.name", name, messages, errors);
}

/// Returns the errors of a name as a subdomain. Names are measured in characters, in the words of
/// an older function of apimachinery than the one for the domain of a label key. Either counts
/// bytes.
fn subdomain_errors(name: &str) -> Vec<String> {
    in_characters(dns_subdomain_errors(name))
}

fn in_characters(messages: Vec<String>) -> Vec<String> {
    messages
        .into_iter()
        .map(|text| text.replace(" bytes", " characters"))
        .collect()
}

/// Returns the prefix with another character for a dash at its end, as a prefix may end in a dash
/// and a whole name may not. Like apimachinery's `maskTrailingDash` this overlooks the character
/// before the dash.
fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            let mut stem = stem.to_owned();
            stem.pop();
            stem + "a"
        }
        _ => prefix.to_owned(),
    }
}

fn namespace_errors(metadata: &Map<String, Value>, namespaced: bool, errors: &mut Vec<FieldError>) {
    let namespace = text(metadata, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required("metadata.namespace", "")),
        (true, false) => {
            let messages = in_characters(dns_label_errors(namespace));
            invalid("metadata.namespace", namespace, messages, errors);
        }
        (false, false) => {
            errors.push(FieldError::forbidden(
                "metadata.namespace",
                "not allowed on this type",
            ));
        }
        (false, true) => {}
    }
}

fn label_errors(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    for (key, value) in meta::text_map(metadata, "labels") {
        invalid("metadata.labels", key, qualified_name_errors(key), errors);
        invalid("metadata.labels", value, label_value_errors(value), errors);
    }
}

fn annotation_errors(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in meta::text_map(metadata, "annotations") {
        size += key.len() + value.len();
        let messages = qualified_name_errors(&key.to_lowercase());
        invalid("metadata.annotations", key, messages, errors);
    }
    if i64::try_from(size).unwrap_or(i64::MAX) > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            ANNOTATIONS_MAX,
        ));
    }
}

fn owner_errors(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.ownerReferences";
    let Some(Value::Array(owners)) = metadata.get("ownerReferences") else {
        return;
    };
    let mut controller: Option<String> = None;
    for owner in owners.iter().filter_map(Value::as_object) {
        let (version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
        let mut empty = |key: &str, detail: &str| {
            errors.push(FieldError::invalid(
                format!("{FIELD}.{key}"),
                text(owner, key),
                detail,
            ));
        };
        // The version is what follows the last slash; a group alone has none.
        if version.rsplit('/').next().is_none_or(str::is_empty) || version.matches('/').count() > 1
        {
            empty("apiVersion", "version must not be empty");
        }
        for key in ["kind", "name", "uid"] {
            if text(owner, key).is_empty() {
                empty(key, "must not be empty");
            }
        }
        if version == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_as(FIELD, &owner_text(owner), detail));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{kind}/{}", text(owner, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => errors.push(FieldError::invalid_as(
                    FIELD,
                    &owners_text(owners),
                    &format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    ),
                )),
            }
        }
    }
}

/// Returns an owner as the Go struct is written in JSON.
fn owner_text(owner: &Map<String, Value>) -> String {
    let text = |key: &str| json(&Value::from(text(owner, key)), Flavour::Standard);
    let texts = ["apiVersion", "kind", "name", "uid"];
    let mut members: Vec<_> = texts
        .iter()
        .map(|key| format!("\"{key}\":{}", text(key)))
        .collect();
    for key in ["controller", "blockOwnerDeletion"] {
        if let Some(Value::Bool(value)) = owner.get(key) {
            members.push(format!("\"{key}\":{value}"));
        }
    }
    format!("{{{}}}", members.join(","))
}

fn owners_text(owners: &[Value]) -> String {
    let owners = owners.iter().filter_map(Value::as_object);
    let texts: Vec<_> = owners.map(owner_text).collect();
    format!("[{}]", texts.join(","))
}

fn finalizer_errors(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.finalizers";
    let Some(Value::Array(finalizers)) = metadata.get("finalizers") else {
        return;
    };
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        invalid(FIELD, finalizer, qualified_name_errors(finalizer), errors);
    }
    let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
    if has(FOREGROUND) && has(ORPHAN) {
        errors.push(FieldError::invalid(
            FIELD,
            Value::Array(finalizers.clone()),
            format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set"),
        ));
    }
}

fn managed_fields_errors(metadata: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let Some(Value::Array(entries)) = metadata.get("managedFields") else {
        return;
    };
    for (index, entry) in entries.iter().enumerate() {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        let Some(entry) = entry.as_object() else {
            continue;
        };
        let field = format!("metadata.managedFields[{index}]");
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(
                format!("{field}.operation"),
                operation,
                detail,
            ));
        }
        let kind = text(entry, "fieldsType");
        if !kind.is_empty() && kind != "FieldsV1" {
            let detail = "must be `FieldsV1`";
            errors.push(FieldError::invalid(
                format!("{field}.fieldsType"),
                kind,
                detail,
            ));
        }
        errors.extend(manager_name(
            text(entry, "manager"),
            &format!("{field}.manager"),
            false,
        ));
        if i64::try_from(text(entry, "subresource").len()).unwrap_or(i64::MAX) > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(
                format!("{field}.subresource"),
                SUBRESOURCE_MAX,
            ));
        }
    }
}

/// Returns the errors of the name of a field manager; only apply needs one.
#[must_use]
pub fn manager_name(name: &str, field: &str, is_apply: bool) -> Vec<FieldError> {
    let errors = fieldmanager::check_name(name, is_apply).into_iter();
    errors
        .map(|error| match error {
            NameError::Missing => FieldError::required(field, "is required for apply patch"),
            NameError::TooLong => {
                let max = i64::try_from(fieldmanager::MAX_NAME_LENGTH).unwrap_or(i64::MAX);
                FieldError::too_long(field, max)
            }
            NameError::Unprintable {
                name,
                character,
                position,
            } => {
                let code = u32::from(character);
                let detail = format!("invalid character U+{code:04X} (at position {position})");
                FieldError::invalid(field, name, detail)
            }
        })
        .collect()
}

/// Returns warnings about finalizers that `new` has and `old` has not: a name without a domain can
/// clash.
#[must_use]
pub fn finalizer_warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let before: BTreeSet<&str> = old.into_iter().flat_map(meta::finalizers).collect();
    let added: BTreeSet<&str> = meta::finalizers(new)
        .filter(|f| !before.contains(f))
        .collect();
    let mut warnings = Vec::new();
    for name in added {
        if name.contains('/') || matches!(name, FOREGROUND | ORPHAN | "kubernetes") {
            continue;
        }
        let advice = if name.contains('.') {
            "finalizer name including a path (/)"
        } else {
            "finalizer name"
        };
        warnings.push(format!(
            "metadata.finalizers: {}: prefer a domain-qualified {advice} to avoid accidental \
             conflicts with other finalizer writers",
            quote(name)
        ));
    }
    warnings
}
