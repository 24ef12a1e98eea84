//! Reading the operations of a JSON patch.
//!
//! Go reads it twice: strictly into structs, unless the client wants its mistakes ignored
//! (`jsonPatchOp` of `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`), then into maps, in which
//! members of odd types are found only when they are needed (`DecodePatch` of
//! `gopkg.in/evanphx/json-patch.v4`).

use apimachinery::schema::{self, Members};
use fieldmanager::go::quote;
use serde_json::Value;
use serde_json::value::RawValue;

use super::decoding;
use super::node::Node;
use super::operations::Operation;
use crate::registry::RegistryError;

/// The members of an operation.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];
/// Most mistakes that are reported.
const MAX_TOLD: usize = 100;

/// Returns the operations in the text of a patch, which has to be JSON, and the mistakes that a
/// strict reader finds; none where it is not `strictly` read.
///
/// # Errors
/// 400 unless it is a list of objects or nulls; read strictly also unless their members are texts.
pub(super) fn operations(
    text: &str,
    strictly: bool,
) -> Result<(Vec<Operation>, Vec<String>), RegistryError> {
    let (list, item) = if strictly {
        ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    } else {
        ("jsonpatch.Patch", "jsonpatch.Operation")
    };
    let wrong = |found: &str, type_: &str| {
        decoding(
            strictly,
            &found_as(found),
            &format!("Go value of type {type_}"),
        )
    };
    let items: Vec<&RawValue> = match first(text) {
        b'n' => Vec::new(),
        b'[' => serde_json::from_str(text).map_err(unreadable)?,
        _ => return Err(wrong(text, list)),
    };
    let mut told = Told::default();
    let mut operations = Vec::with_capacity(items.len());
    for (index, raw) in items.into_iter().enumerate() {
        let members = match first(raw.get()) {
            b'n' => Vec::new(),
            b'{' => serde_json::from_str(raw.get())
                .map(|Members(of)| of)
                .map_err(unreadable)?,
            _ => return Err(told.mismatch.unwrap_or_else(|| wrong(raw.get(), item))),
        };
        if strictly {
            told.look_at(index, &members);
        }
        operations.push(operation(members));
    }
    told.mismatch.map_or(Ok((operations, told.texts)), Err)
}

fn operation(members: Vec<(String, &RawValue)>) -> Operation {
    let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    let mut operation = Operation::default();
    for (name, raw) in members {
        match name.as_str() {
            "op" => operation.op = text(raw),
            "path" => operation.path = text(raw),
            "from" => operation.from = text(raw),
            "value" => operation.value = Some(Node::written(raw.get())),
            _ => {}
        }
    }
    operation
}

/// The mistakes that a strict reader finds.
#[derive(Default)]
struct Told {
    texts: Vec<String>,
    /// The first member of a wrong type.
    mismatch: Option<RegistryError>,
}

impl Told {
    fn look_at(&mut self, index: usize, members: &[(String, &RawValue)]) {
        let mut seen = Vec::new();
        for (name, raw) in members {
            let Some(member) = MEMBERS.iter().find(|member| *member == name) else {
                self.tell(format!(
                    "unknown field {}",
                    quote(&format!("[{index}].{name}"))
                ));
                continue;
            };
            if seen.contains(member) {
                self.tell(format!(
                    "duplicate field {}",
                    quote(&format!("[{index}].{name}"))
                ));
            }
            seen.push(member);
            if *member == "value" {
                let within = schema::duplicates_below(raw.get(), index, member);
                for text in within {
                    self.tell(text);
                }
            } else if !matches!(first(raw.get()), b'"' | b'n') {
                let field = format!("Go struct field jsonPatchOp.{member} of type string");
                let found = found_as(raw.get());
                self.mismatch
                    .get_or_insert_with(|| decoding(true, &found, &field));
            }
        }
    }

    fn tell(&mut self, text: String) {
        if self.texts.len() < MAX_TOLD && !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }
}

/// Returns a value of the type that a JSON text has.
fn found_as(text: &str) -> Value {
    match first(text) {
        b'n' => Value::Null,
        b't' | b'f' => Value::from(true),
        b'"' => Value::from(""),
        b'[' => Value::Array(Vec::new()),
        b'{' => Value::Object(serde_json::Map::new()),
        _ => Value::from(0),
    }
}

fn first(text: &str) -> u8 {
    text.trim_ascii_start().bytes().next().unwrap_or_default()
}

/// Returns the error of a text that is not JSON; this does not happen to one that is.
#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn unreadable(error: serde_json::Error) -> RegistryError {
    RegistryError::BadRequest(format!("error decoding patch: {error}"))
}
