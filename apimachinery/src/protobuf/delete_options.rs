//! `DeleteOptions`, which older controllers send in protobuf.

use serde_json::{Map, Value, json};

use super::MAGIC;
use super::reader::{Field, fields};

/// Returns the options as their JSON would be, with the `apiVersion` and `kind` of the envelope;
/// none where the bytes are no document in protobuf.
#[must_use]
pub fn delete_options(document: &[u8]) -> Option<Value> {
    let mut options = Map::new();
    let mut raw: &[u8] = &[];
    for (number, field) in fields(document.strip_prefix(MAGIC)?)? {
        match (number, field) {
            (1, Field::Bytes(type_meta)) => {
                put_texts(&mut options, type_meta, &[(1, "apiVersion"), (2, "kind")])?;
            }
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    for (number, field) in fields(raw)? {
        match (number, field) {
            (1, Field::Number(seconds)) => {
                options.insert(
                    "gracePeriodSeconds".to_owned(),
                    json!(seconds.cast_signed()),
                );
            }
            (2, Field::Bytes(bytes)) => {
                let mut preconditions = Map::new();
                put_texts(
                    &mut preconditions,
                    bytes,
                    &[(1, "uid"), (2, "resourceVersion")],
                )?;
                options.insert("preconditions".to_owned(), preconditions.into());
            }
            (3, Field::Number(orphan)) => {
                options.insert("orphanDependents".to_owned(), json!(orphan != 0));
            }
            (4, Field::Bytes(policy)) => {
                options.insert("propagationPolicy".to_owned(), text(policy)?);
            }
            (5, Field::Bytes(value)) => {
                let values = options.entry("dryRun").or_insert_with(|| json!([]));
                values.as_array_mut()?.push(text(value)?);
            }
            _ => {}
        }
    }
    Some(Value::Object(options))
}

/// Adds those texts of a message to a map that are not empty.
fn put_texts(map: &mut Map<String, Value>, message: &[u8], names: &[(u64, &str)]) -> Option<()> {
    for (number, field) in fields(message)? {
        let name = names.iter().find(|(known, _)| *known == number);
        if let (Some((_, name)), Field::Bytes(bytes)) = (name, field)
            && !bytes.is_empty()
        {
            map.insert((*name).to_owned(), text(bytes)?);
        }
    }
    Some(())
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(Value::from)
}
