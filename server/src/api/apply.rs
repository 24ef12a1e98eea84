//! Server-side apply: an object created or changed by what a manager wants of it.

use apimachinery::error::ApiError;
use apimachinery::schema::{self, Encoding, Repeated};
use axum::response::Response;
use fieldmanager::go::syntax_error;
use serde_json::Value;
use storage::model::StoredObject;

use super::options::{FieldValidation, WriteKind, WriteOptions};
use super::scope::Scope;
use super::view::View;
use super::{Api, body, create, failure, namespace, update, write};
use crate::http::negotiation::Offer;
use crate::registry::create::{Dedup, assign, dedup_owner_references, ensure_namespace};
use crate::registry::{self, Object, RegistryError, lifecycle, meta, validate};

/// Answers an apply patch.
///
/// # Errors
/// 409 where others own fields with other values, and whatever else the kube-apiserver refuses.
pub async fn apply(api: &Api, scope: &Scope, bytes: &[u8]) -> Result<Response, ApiError> {
    let name = scope.object_name()?;
    let accepted = scope.ctx.accept(Offer::Objects)?;
    let options = WriteOptions::parse(&scope.ctx.info.query, WriteKind::Apply)?;
    let (config, repeated) = read(bytes)?;
    let request = Request {
        api,
        scope,
        name,
        view: View::new(scope, accepted, false)?,
        options,
        config,
        repeated,
    };
    for _ in 0..write::MAX_ATTEMPTS {
        api.caught_up().await?;
        let response = match scope.resource.get(&scope.key(name)) {
            Some(stored) => request.change(&stored).await?,
            None => request.create().await?,
        };
        if let Some(response) = response {
            return Ok(response);
        }
    }
    Err(failure::registry(scope, name, RegistryError::modified()))
}

/// What the manager wants, as it was sent (nothing is pruned, and no default filled in), and the
/// keys that stand there twice.
fn read(bytes: &[u8]) -> Result<(Value, Vec<Repeated>), ApiError> {
    let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    if bytes.trim_ascii().is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    if !std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_yaml)) {
        let why = "error converting YAML to JSON: yaml: control characters are not allowed";
        return Err(refuse(why.to_owned()));
    }
    if let Some(why) = odd_escape(bytes) {
        return Err(refuse(format!(
            "error converting YAML to JSON: yaml: {why}"
        )));
    }
    // Most clients send JSON, which is YAML too, and much quicker to read as what it is.
    let decoded = if has_breaks(bytes) {
        schema::decode(bytes, Encoding::Yaml)
    } else {
        schema::decode(bytes, Encoding::Json).or_else(|_| schema::decode(bytes, Encoding::Yaml))
    };
    let decoded = decoded.map_err(|error| refuse(error.to_string()))?;
    let repeated = if decoded.duplicates.is_empty() {
        Vec::new()
    } else {
        schema::repeated_keys(bytes)
    };
    match decoded.value {
        value @ (Value::Object(_) | Value::Null) => Ok((value, repeated)),
        other => Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go \
             value of type map[string]interface {{}}",
            schema::json_type(&other)
        ))),
    }
}

/// Whether YAML allows a character as it is. JSON allows more.
const fn is_yaml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}'
        | '\u{10000}'..)
}

/// Whether a text has characters that end a line in YAML and are letters like others in JSON.
fn has_breaks(bytes: &[u8]) -> bool {
    memchr::memchr2_iter(0xc2, 0xe2, bytes).any(|at| {
        let breaks: [&[u8]; 3] = [b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9"];
        breaks.iter().any(|one| bytes[at..].starts_with(one))
    })
}

/// The first escape of JSON that is none in YAML, in the words of Go's parser: a slash, and halves of
/// characters beyond 16 bits. Only texts that are JSON are looked at, as a backslash may stand for
/// itself in others.
fn odd_escape(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at + 1..];
        let digits = escape.strip_prefix('u').and_then(|digits| digits.get(..4));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let problem = if escape.starts_with('/') {
            "found unknown escape character"
        } else if code.is_some_and(|code| (0xd800..=0xdfff).contains(&code)) {
            "found invalid Unicode character escape code"
        } else {
            let length = escape.chars().next().map_or(0, char::len_utf8);
            rest = &escape[length..];
            continue;
        };
        if syntax_error(bytes).is_some() {
            return None;
        }
        let before = &text[..text.len() - escape.len()];
        return Some(match before.matches('\n').count() {
            0 => problem.to_owned(),
            lines => format!("line {}: {problem}", lines + 1),
        });
    }
    None
}

struct Request<'a> {
    api: &'a Api,
    scope: &'a Scope,
    name: &'a str,
    view: View,
    options: WriteOptions,
    config: Value,
    repeated: Vec<Repeated>,
}

impl Request<'_> {
    /// Changes what is there; `None` when somebody else has changed it in the meantime.
    async fn change(&self, stored: &StoredObject) -> Result<Option<Response>, ApiError> {
        let live = Value::Object(write::live_form(self.scope, stored)?);
        let new = self.merged(Some(&live))?;
        self.admit(lifecycle::Write::Update).await?;
        let change = update::Change {
            new,
            old: body::into_fields(live),
            stored,
            dry_run: self.options.dry_run,
            applied: true,
        };
        update::store(self.api, self.scope, &self.view, change).await
    }

    /// Makes a new object; `None` when there is one of this name meanwhile.
    async fn create(&self) -> Result<Option<Response>, ApiError> {
        let (scope, name) = (self.scope, self.name);
        let refuse = |error| failure::registry(scope, name, error);
        let mut object = self.merged(None)?;
        self.admit(lifecycle::Write::Create).await?;
        let deduplicated = dedup_owner_references(&mut object, Dedup::Patched);
        scope.notes.add(deduplicated);
        registry::update::version(&object).map_err(refuse)?;
        assign(&mut object, jiff::Timestamp::now());
        if !self.options.dry_run {
            // The storage's to do, which a dry run does not reach.
            meta::set_text(&mut object, "resourceVersion", "");
            meta::set_text(&mut object, "selfLink", "");
        }
        let object = create::check(scope, object).map_err(refuse)?;
        scope.notes.add(validate::finalizer_warnings(&object, None));
        // The kube-apiserver has asked whether the client may patch.
        scope.ctx.require("create").await?;
        let object = body::shaped(scope, object)?;
        let (api, view) = (self.api, &self.view);
        create::once(api, scope, view, name, object, self.options.dry_run).await
    }

    /// The object as it is to be, with its field managers, in the place that the path names.
    fn merged(&self, live: Option<&Value>) -> Result<Object, ApiError> {
        let (scope, options) = (self.scope, &self.options);
        let manager = options.field_manager.as_str();
        let now = jiff::Timestamp::now();
        let applied = scope
            .field_manager
            .apply(live, &self.config, manager, options.force, now);
        let mut value = applied.map_err(failure::apply)?;
        self.check_repeated()?;
        scope.version.schema.default_values(&mut value);
        let mut object = body::into_fields(value);
        drop_unreadable(&mut object);
        if live.is_none() {
            self.check_uid(&object)?;
        }
        ensure_namespace(&mut object, scope.namespace())
            .map_err(|error| failure::registry(scope, self.name, error))?;
        body::check_name(scope, &object)?;
        Ok(object)
    }

    /// Refuses a body that repeats keys, or warns the client. What cannot be applied is refused
    /// before.
    fn check_repeated(&self) -> Result<(), ApiError> {
        match self.options.field_validation {
            FieldValidation::Strict if !self.repeated.is_empty() => {
                let lines = self.repeated.iter().map(|key| format!("\n  {key}"));
                Err(ApiError::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                     errors:{}",
                    lines.collect::<String>()
                )))
            }
            FieldValidation::Warn => {
                let repeated = self.repeated.iter().map(ToString::to_string);
                self.scope.notes.add(repeated);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Who names a uid means an object that is there.
    fn check_uid(&self, object: &Object) -> Result<(), ApiError> {
        let uid = meta::text(object, "uid");
        if uid.is_empty() {
            return Ok(());
        }
        let error = RegistryError::Conflict {
            names_kind: false,
            detail: format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object \
                 was found"
            ),
        };
        Err(failure::registry(self.scope, self.name, error))
    }

    async fn admit(&self, write: lifecycle::Write) -> Result<(), ApiError> {
        namespace::admit(self.api, self.scope, write, self.name).await
    }
}

/// Takes away the end of an object that is no time, and a grace period that is no whole number:
/// where an applied object is checked these count as missing, and storage drops them.
fn drop_unreadable(object: &mut Object) {
    meta::edit(object, |metadata| {
        metadata.retain(|field, value| match field.as_str() {
            "deletionGracePeriodSeconds" => value.is_i64(),
            "deletionTimestamp" => value.as_str().is_some_and(schema::is_time),
            _ => true,
        });
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_can_read_is_dropped() {
        let mut object = body::into_fields(json!({"metadata": {"name": "a",
            "deletionTimestamp": 7, "deletionGracePeriodSeconds": 1.5}}));
        drop_unreadable(&mut object);
        assert_eq!(Value::Object(object), json!({"metadata": {"name": "a"}}));
        let good = json!({"metadata": {"deletionTimestamp": "2000-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 0}});
        let mut object = body::into_fields(good.clone());
        drop_unreadable(&mut object);
        assert_eq!(Value::Object(object), good);
    }

    #[rstest::rstest]
    #[case(r#"{"a":"\u0041\n\"\\/ \\ud800"}"#, None)]
    #[case(r#"{"a":"x\/y"}"#, Some("found unknown escape character"))]
    #[case(
        "{\"a\":1,\n\"b\":\"\\ud83d\\ude00\"}",
        Some("line 2: found invalid Unicode character escape code")
    )]
    #[case("a: x\\/y", None)]
    #[case("\\", None)]
    #[case("\"\\u", None)]
    fn escapes_that_are_none_in_yaml(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(odd_escape(text.as_bytes()).as_deref(), expected);
    }

    #[rstest::rstest]
    #[case("{}", false)]
    #[case("\"\u{85}\"", true)]
    #[case("\"\u{2028}\"", true)]
    #[case("\"\u{2029}\"", true)]
    #[case("\"\u{2027}\u{e9}\"", false)]
    fn ends_of_lines(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(has_breaks(text.as_bytes()), expected);
    }
}
