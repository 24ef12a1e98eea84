//! Objects that are embedded in others (`x-kubernetes-embedded-resource`).

use serde_json::{Map, Value};

use super::super::names::dns_1035_label_errors;
use super::super::structural::Additional;
use super::super::told::Told;
use super::super::{FieldError, Structural, label_value_errors, qualified_name_errors};
use super::super::{Malformed, object_meta};
use super::is_full;
use super::path::Path;

/// Returns the errors in `apiVersion`, `kind` and `metadata` of all embedded objects.
pub(super) fn errors(schema: &Structural, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, object, &Path::root(), &mut errors);
    errors
}

fn walk(schema: &Structural, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !schema.needs.embedded || is_full(errors) {
        return;
    }
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                judge(fields, path, errors);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    walk(property, value, &path.field(name), errors);
                } else if let Additional::Schema(below) = &schema.additional {
                    walk(below, value, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(below, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn judge(fields: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = path.field(name).to_field();
        match fields.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                errors.push(FieldError::invalid(field, text.as_str(), detail));
            }
            Some(Value::String(text)) if name == "kind" => {
                let reasons = dns_1035_label_errors(&text.to_lowercase());
                if !reasons.is_empty() {
                    let rule = "may have mixed case, but should otherwise match:";
                    let detail = format!("{rule} {}", reasons.join(","));
                    errors.push(FieldError::invalid(field, text.as_str(), detail));
                }
            }
            Some(Value::String(_)) => {}
            Some(other) => {
                errors.push(FieldError::invalid(
                    field,
                    other.clone(),
                    "must be a string",
                ));
            }
        }
    }
    let Some(metadata) = fields.get("metadata") else {
        return;
    };
    let path = path.field("metadata");
    // What was applied has not been read as metadata before.
    let mut unknown = Told::at_most(0);
    let mut read = metadata.clone();
    match object_meta::conform(&mut read, "", Malformed::Refuse, &mut unknown) {
        Ok(()) => judge_metadata(metadata, &path, errors),
        Err(error) => {
            errors.push(FieldError::invalid(
                path.to_field(),
                metadata.clone(),
                error,
            ));
        }
    }
}

fn judge_metadata(metadata: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(name) = metadata.get("name").and_then(Value::as_str) {
        let reason = match name {
            "." | ".." => Some(format!("may not be '{name}'")),
            name => ["/", "%"]
                .into_iter()
                .find(|part| name.contains(part))
                .map(|part| format!("may not contain '{part}'")),
        };
        if let Some(reason) = reason {
            errors.push(FieldError::invalid(
                path.field("name").to_field(),
                name,
                reason,
            ));
        }
    }
    for map in ["labels", "annotations"] {
        let path = path.field(map);
        for (key, value) in metadata
            .get(map)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let reasons = qualified_name_errors(key);
            errors.extend(
                reasons
                    .into_iter()
                    .map(|reason| FieldError::invalid(path.to_field(), key.as_str(), reason)),
            );
            if map == "labels" {
                let text = value.as_str().unwrap_or_default();
                errors.extend(
                    label_value_errors(text)
                        .into_iter()
                        .map(|reason| FieldError::invalid(path.to_field(), text, reason)),
                );
            }
        }
    }
}
