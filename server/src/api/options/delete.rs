//! `DeleteOptions`, from the body or, without one, from the query.

use apimachinery::error::ApiError;
use apimachinery::protobuf;
use apimachinery::schema::{self, Encoding, FieldError};
use fieldmanager::go::{Flavour, json, quote};
use serde_json::{Map, Value};

use super::check::check;
use super::param;
use super::write::{dry_run_error, dry_run_values};
use crate::http::RequestContext;
use crate::http::negotiation::{BodyType, body_type};
use crate::registry::DeleteOptions;
use crate::registry::body::type_meta;
use crate::registry::strategy::delete::{Preconditions, Propagation};

/// The options as they were given, not yet validated.
#[derive(Default)]
struct Raw {
    dry_run: Vec<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<String>,
    orphan: Option<bool>,
}

impl DeleteOptions {
    /// Reads the options of a request.
    ///
    /// # Errors
    /// 400 for a body that is no `DeleteOptions` of `v1` or of the resource's own group version,
    /// 415 for one that is neither JSON nor YAML, 422 for values that break a rule.
    pub fn read(ctx: &RequestContext, body: &[u8]) -> Result<Self, ApiError> {
        let raw = if body.is_empty() {
            from_query(ctx)?
        } else {
            let value = decode(ctx, body)?;
            let own = format!("{}/{}", ctx.info.api_group, ctx.info.version);
            from_body(&value, &own).map_err(ApiError::bad_request)?
        };
        raw.validate()
    }
}

fn decode(ctx: &RequestContext, body: &[u8]) -> Result<Value, ApiError> {
    let encoding = match body_type(&ctx.headers, &BodyType::OBJECTS)? {
        BodyType::Protobuf => {
            return protobuf::delete_options(body).ok_or_else(|| {
                ApiError::bad_request("the body of the request is no DeleteOptions in protobuf")
            });
        }
        BodyType::Yaml => Encoding::Yaml,
        _ => Encoding::Json,
    };
    let decoded = schema::decode(body, encoding);
    Ok(decoded
        .map_err(|error| ApiError::bad_request(error.to_string()))?
        .value)
}

fn from_query(ctx: &RequestContext) -> Result<Raw, ApiError> {
    let query = &ctx.info.query;
    // Reports end at once, so the grace period means nothing, but it must be a number.
    param::int64(query, "gracePeriodSeconds")?;
    let given = |name: &str| query.get(name).filter(|text| !text.is_empty());
    Ok(Raw {
        dry_run: dry_run_values(query),
        uid: given("uid").map(str::to_owned),
        resource_version: given("resourceVersion").map(str::to_owned),
        propagation: query.get("propagationPolicy").map(str::to_owned),
        orphan: param::boolean(query, "orphanDependents"),
    })
}

fn from_body(body: &Value, own_version: &str) -> Result<Raw, String> {
    let (version, kind) = type_meta(body)?;
    let Some(options) = body.as_object() else {
        return Ok(Raw::default());
    };
    // Both may be left out: the kind is then taken for granted.
    let known = ["", "v1", "meta.k8s.io/v1", own_version].contains(&version.as_str());
    if !known || !(kind.is_empty() || kind == "DeleteOptions") {
        return Err(format!(
            "no kind {} is registered for version {} in scheme",
            quote(&kind),
            quote(&version)
        ));
    }
    match options.get("gracePeriodSeconds") {
        None | Some(Value::Null) => {}
        Some(Value::Number(number)) if number.is_i64() => {}
        Some(other) => return Err(mismatch(other, "int64", ".gracePeriodSeconds")),
    }
    let empty = Map::new();
    let preconditions = match options.get("preconditions") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(map)) => map,
        Some(other) => return Err(mismatch(other, "v1.Preconditions", ".preconditions")),
    };
    Ok(Raw {
        dry_run: texts(options, "dryRun")?,
        uid: text(preconditions, "uid")?,
        resource_version: text(preconditions, "resourceVersion")?,
        propagation: text_of(options, "propagationPolicy", "v1.DeletionPropagation")?,
        orphan: match options.get("orphanDependents") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(orphan)) => Some(*orphan),
            Some(other) => return Err(mismatch(other, "bool", ".orphanDependents")),
        },
    })
}

fn text(map: &Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    text_of(map, field, "string")
}

/// Returns a text, which Go holds in a type of this name.
fn text_of(map: &Map<String, Value>, field: &str, type_: &str) -> Result<Option<String>, String> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(mismatch(other, type_, &format!(".{field}"))),
    }
}

fn texts(map: &Map<String, Value>, field: &str) -> Result<Vec<String>, String> {
    let items = match map.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(mismatch(other, "[]string", &format!(".{field}"))),
    };
    items
        .iter()
        .map(|item| {
            item.as_str()
                .map(str::to_owned)
                .ok_or_else(|| mismatch(item, "string", &format!(".{field}")))
        })
        .collect()
}

fn mismatch(found: &Value, wanted: &str, field: &str) -> String {
    let found = match found {
        // Go tells a number that does not fit.
        Value::Number(_) if wanted == "int64" => {
            format!("number {}", json(found, Flavour::Standard))
        }
        other => schema::json_type(other).to_owned(),
    };
    format!(
        "json: cannot unmarshal {found} into Go struct field DeleteOptions{field} of type {wanted}"
    )
}

impl Raw {
    fn validate(self) -> Result<DeleteOptions, ApiError> {
        let mut errors = Vec::new();
        if let (Some(_), Some(policy)) = (self.orphan, &self.propagation) {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy.as_str(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = match self.propagation.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let allowed = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(
                    "propagationPolicy",
                    other,
                    &allowed,
                ));
                None
            }
        };
        errors.extend(dry_run_error(&self.dry_run));
        check("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            dry_run: !self.dry_run.is_empty(),
            preconditions: Preconditions {
                uid: self.uid,
                resource_version: self.resource_version,
            },
            propagation: propagation.or(match self.orphan {
                Some(true) => Some(Propagation::Orphan),
                Some(false) => Some(Propagation::Background),
                None => None,
            }),
            accepted_when_waiting: self.orphan == Some(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: &Value) -> Result<DeleteOptions, String> {
        from_body(body, "g/v1").and_then(|raw| raw.validate().map_err(|e| e.to_string()))
    }

    #[test]
    fn garbage_collectors_body() {
        let options = parse(&json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
            "propagationPolicy": "Background"}))
        .unwrap();
        assert_eq!(
            options,
            DeleteOptions {
                preconditions: Preconditions {
                    uid: Some("u".to_owned()),
                    resource_version: Some("7".to_owned()),
                },
                propagation: Some(Propagation::Background),
                ..DeleteOptions::default()
            }
        );
        let own = parse(&json!({"apiVersion": "g/v1", "dryRun": ["All"]})).unwrap();
        assert!(own.dry_run);
    }

    #[test]
    fn orphan_dependents_means_a_policy() {
        let options = |orphan| parse(&json!({"orphanDependents": orphan})).unwrap();
        assert_eq!(options(true).propagation, Some(Propagation::Orphan));
        assert_eq!(options(false).propagation, Some(Propagation::Background));
        assert!(options(false).accepted_when_waiting);
    }

    #[test]
    fn refused_bodies() {
        for (body, words) in [
            (json!([]), "cannot unmarshal array"),
            (
                json!({"kind": "PolicyReport"}),
                "no kind \"PolicyReport\" is registered",
            ),
            (
                json!({"apiVersion": "other/v1"}),
                "for version \"other/v1\"",
            ),
            (json!({"preconditions": "u"}), "DeleteOptions.preconditions"),
            (json!({"preconditions": {"uid": 1}}), "DeleteOptions.uid"),
            (json!({"dryRun": "All"}), "DeleteOptions.dryRun"),
            (
                json!({"gracePeriodSeconds": "0"}),
                "DeleteOptions.gracePeriodSeconds",
            ),
            (
                json!({"dryRun": ["Some"]}),
                "dryRun: Unsupported value: [\"Some\"]",
            ),
            (
                json!({"propagationPolicy": "Sideways"}),
                "propagationPolicy: Unsupported value: \"Sideways\": supported values: \
                 \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            ),
            (
                json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
                "cannot be both set",
            ),
        ] {
            let error = parse(&body).unwrap_err();
            assert!(error.contains(words), "{body}: {error}");
        }
    }
}
