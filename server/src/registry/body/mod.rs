//! Reading an object from a request body: decoded, brought into the shape of its schema, checked
//! against the path.

mod configuration;

use apimachinery::error::ApiError;
use apimachinery::schema::{
    self, CoerceError, Decoded, Encoding, FieldError, Malformed, Structural,
};
use fieldmanager::go::{Flavour, json, quote};
use serde_json::Value;

use super::collection::Collection;
use super::strategy::{Object, into_fields, meta};
use super::{FieldValidation, RegistryError, unknown_error};

pub(super) use configuration::Configuration;

/// Characters of a body that are shown in an error.
const SUMMARY: usize = 30;

impl Collection<'_> {
    /// Reads the body of a create or update: coerced and with defaults, in the requested version.
    /// The client is warned of probable mistakes in it.
    ///
    /// # Errors
    /// 400 for a body that is no object of the requested group version, for malformed metadata and,
    /// where fields are validated strictly, for unknown and duplicate ones.
    pub fn read(
        &self,
        body: &[u8],
        encoding: Encoding,
        validation: FieldValidation,
    ) -> Result<Object, ApiError> {
        let kind = &self.definition.kind;
        let unrecognized = |error: String| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {error} ({})",
                summary(body)
            ))
        };
        let decoded = schema::decode(body, encoding);
        let Decoded {
            mut value,
            mut duplicates,
        } = decoded.map_err(|error| unrecognized(error.to_string()))?;
        if encoding == Encoding::Yaml && !duplicates.is_empty() {
            duplicates = repeated_in_yaml(body, validation);
        }
        let (api_version, given_kind) = type_meta(&value).map_err(unrecognized)?;
        if given_kind.is_empty() {
            return Err(match validation {
                FieldValidation::Ignore => self.assumed(body, encoding, &value),
                _ => unrecognized(missing_kind(&String::from_utf8_lossy(body))),
            });
        }
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let handled = |as_kind: &str, error: &str| unhandled(&given_kind, version, as_kind, error);
        let unknown = self
            .coerce(&mut value, &api_version, &given_kind)
            .map_err(|error| handled(kind, &error.to_string()))?;
        let mut strict = duplicates;
        strict.extend(unknown.iter().map(|path| unknown_field(path)));
        match validation {
            FieldValidation::Warn => self.warnings.add(strict),
            FieldValidation::Strict if !strict.is_empty() => {
                // By then a kube-apiserver has taken on the kind that is given.
                return Err(handled(&given_kind, &strict_error(&strict)));
            }
            FieldValidation::Ignore | FieldValidation::Strict => {}
        }
        let expected = self.definition.api_version(&self.version.name);
        if api_version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version \
                 ({expected})"
            )));
        }
        Ok(into_fields(value))
    }

    /// Returns the refusal of a body without a kind whose fields are not validated: a
    /// kube-apiserver reads it into an object at once, and has by then assumed version and kind of
    /// the path for those that are missing.
    fn assumed(&self, body: &[u8], encoding: Encoding, value: &Value) -> ApiError {
        let definition = self.definition;
        let given = |field: &str| value.as_object().map_or("", |object| folded(object, field));
        let api_version = given("apiVersion");
        let (group, mut version) = api_version.split_once('/').unwrap_or(("", api_version));
        if version.is_empty() && (group.is_empty() || group == definition.group) {
            version = &self.version.name;
        }
        let kind = match given("kind") {
            "" => &definition.kind,
            kind => kind,
        };
        let text = match encoding {
            Encoding::Json => String::from_utf8_lossy(body.trim_ascii()).into_owned(),
            Encoding::Yaml => json(value, Flavour::Standard),
        };
        unhandled(kind, version, &definition.kind, &missing_kind(&text))
    }

    /// Shapes an object by the schema of its version and fills in defaults; returns the paths of
    /// unknown fields. `api_version` and `kind` are those of [`type_meta`]. In a version that does
    /// not exist every field is unknown. In an object of another kind only the metadata is known,
    /// and looked at.
    ///
    /// # Errors
    /// The first field of the metadata that has the wrong type.
    pub(super) fn coerce(
        &self,
        object: &mut Value,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<String>, CoerceError> {
        let definition = self.definition;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if let Some(given) = object.get_mut("apiVersion")
            && given.is_string()
        {
            *given = api_version.into();
        }
        if group != definition.group || kind != definition.kind {
            return Structural::conform_metadata(object, Malformed::Refuse);
        }
        let known = definition.versions.iter().find(|v| v.name == version);
        let schema = &known.unwrap_or(self.version).schema;
        let content = match known {
            Some(_) => Vec::new(),
            None => without_content(object),
        };
        let mut unknown = schema.coerce(object, Malformed::Refuse)?;
        if known.is_some() {
            schema.default_values(object);
        }
        unknown.extend(content);
        Ok(unknown)
    }

    /// Returns the outcome of an apply, in the shape of its schema: as the kube-apiserver's storage
    /// has it, which writes it as it is and drops malformed metadata when it reads it back.
    ///
    /// # Errors
    /// 500 where `apiVersion` or `kind` are no texts, which was checked before.
    pub(super) fn shaped(&self, object: Object) -> Result<Object, ApiError> {
        let mut value = Value::Object(object);
        let coerced = self.version.schema.coerce(&mut value, Malformed::Drop);
        coerced.map_err(|error| unknown_error(error.to_string()))?;
        Ok(into_fields(value))
    }

    /// Checks that an object is of the kind and version that are written.
    ///
    /// # Errors
    /// 422 about both, in the name of the kind that the object has.
    pub(super) fn check_type(&self, object: &Object) -> Result<(), RegistryError> {
        let text = |field: &str| {
            object
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let own = self.definition.api_version(&self.version.name);
        let mut errors = Vec::new();
        for (field, wanted) in [("kind", &self.definition.kind), ("apiVersion", &own)] {
            if text(field) != wanted {
                errors.push(FieldError::invalid(
                    field,
                    text(field),
                    format!("must be {wanted}"),
                ));
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        let group = text("apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        Err(RegistryError::InvalidType {
            group: group.to_owned(),
            kind: text("kind").to_owned(),
            errors,
        })
    }
}

/// Returns the keys that are twice in a body, in the words of Go's parser of YAML.
fn repeated_in_yaml(body: &[u8], validation: FieldValidation) -> Vec<String> {
    let repeated = schema::repeated_keys(body);
    let repeated: Vec<_> = repeated.iter().map(ToString::to_string).collect();
    match validation {
        FieldValidation::Strict => vec![format!(
            "yaml: unmarshal errors:\n  {}",
            repeated.join("\n  ")
        )],
        _ => repeated,
    }
}

/// Returns the refusal of a body that was understood except for an `error`.
fn unhandled(kind: &str, version: &str, as_kind: &str, error: &str) -> ApiError {
    let version = quote(version);
    ApiError::bad_request(format!(
        "{kind} in version {version} cannot be handled as a {as_kind}: {error}"
    ))
}

/// Checks that a name in an object is the one in the path.
///
/// # Errors
/// 400.
pub(super) fn check_name(wanted: &str, object: &Object) -> Result<(), ApiError> {
    let given = meta::text(object, "name");
    if given.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be \
             provided"
        )));
    }
    if given != wanted {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// Returns the message that a schema does not have the field at `path`.
pub(super) fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// Returns the message with the reasons why an object that is read strictly is refused.
pub(super) fn strict_error(strict: &[String]) -> String {
    format!("strict decoding error: {}", strict.join(", "))
}

/// Returns the message about an object without a kind, whose text is this.
pub(super) fn missing_kind(text: &str) -> String {
    format!("Object 'Kind' is missing in '{text}'")
}

/// Takes away all fields that are neither type nor metadata; returns their names.
fn without_content(object: &mut Value) -> Vec<String> {
    let Value::Object(fields) = object else {
        return Vec::new();
    };
    let own = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata");
    let unknown: Vec<String> = fields.keys().filter(|name| !own(name)).cloned().collect();
    fields.retain(|name, _| own(name));
    unknown
}

/// Returns `apiVersion` and `kind` of an object; empty where they are missing. A group that is
/// empty leaves no slash.
///
/// # Errors
/// The text of Go's decoder for anything that has no room for them, and for more than one slash.
pub fn type_meta(value: &Value) -> Result<(String, String), String> {
    const HEAD: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal";
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Ok((String::new(), String::new())),
        other => {
            return Err(format!(
                "{HEAD} {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}",
                schema::json_type(other)
            ));
        }
    };
    // This part of Go's decoder does not mind whether letters are capital.
    for (key, value) in object {
        let fields = ["apiVersion", "kind"];
        let known = fields.into_iter().find(|field| is_folded(key, field));
        if let Some(field) = known
            && !(value.is_string() || value.is_null())
        {
            return Err(format!(
                "{HEAD} {} into Go struct field .{field} of type string",
                schema::json_type(value)
            ));
        }
    }
    let text = |field: &str| {
        let text = object.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let read = folded(object, "apiVersion");
    if read.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {read}"));
    }
    let api_version = text("apiVersion");
    let of_no_group = api_version.strip_prefix('/').map(str::to_owned);
    Ok((of_no_group.unwrap_or(api_version), text("kind")))
}

/// Returns the text of a field as Go's decoder finds it, which ignores capital letters.
fn folded<'a>(object: &'a Object, field: &str) -> &'a str {
    let known = object.iter().filter(|(key, _)| is_folded(key, field));
    let mut texts = known.filter_map(|(_, value)| value.as_str());
    texts.next_back().unwrap_or_default()
}

/// Returns whether a key is `field` except for capital letters, of which Unicode has one more for
/// the `k`.
fn is_folded(key: &str, field: &str) -> bool {
    key.eq_ignore_ascii_case(field)
        || (key.contains('\u{212a}') && key.replace('\u{212a}', "k").eq_ignore_ascii_case(field))
}

/// Returns the beginning of a body for an error: as text where it looks like JSON, else in hex.
fn summary(body: &[u8]) -> String {
    let Some(first) = body.first() else {
        return "<empty>".to_owned();
    };
    let cut = &body[..body.len().min(SUMMARY)];
    let text = match first {
        b'{' => String::from_utf8_lossy(cut).into_owned(),
        _ => hex::encode(cut),
    };
    if body.len() > SUMMARY {
        format!("{text} ...")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn summaries() {
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"{\"a\":1}"), "{\"a\":1}");
        assert_eq!(summary(b"[1]"), "5b315d");
        assert_eq!(summary(&[b'{'; 40]), format!("{} ...", "{".repeat(30)));
    }

    #[test]
    fn type_meta_of_anything() {
        assert_eq!(
            type_meta(&json!({"kind": "K", "apiVersion": "g/v1"})),
            Ok(("g/v1".to_owned(), "K".to_owned()))
        );
        assert_eq!(
            type_meta(&json!({"kind": "K", "apiVersion": "/v1"})),
            Ok(("v1".to_owned(), "K".to_owned()))
        );
        assert_eq!(
            type_meta(&json!({"apiVersion": "a/b/c"})).unwrap_err(),
            "unexpected GroupVersion string: a/b/c"
        );
        assert_eq!(type_meta(&json!(null)), Ok((String::new(), String::new())));
        assert!(
            type_meta(&json!([]))
                .unwrap_err()
                .contains("cannot unmarshal array into Go value")
        );
        assert!(
            type_meta(&json!({"kind": 1}))
                .unwrap_err()
                .ends_with("field .kind of type string")
        );
        assert!(
            type_meta(&json!({"kind": "K", "APIversion": [], "KIND": 1}))
                .unwrap_err()
                .ends_with("array into Go struct field .apiVersion of type string")
        );
        assert_eq!(
            type_meta(&json!({"Kind": "L", "kind": null})),
            Ok((String::new(), String::new()))
        );
    }
}
