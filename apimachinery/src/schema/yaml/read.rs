//! From a document to its value.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::allowance::Allowance;
use super::document::{Document, Kind};
use super::error::YamlError;
use super::key::Key;
use super::scalar::Resolved;
use crate::schema::depth::{MAX_LEVELS, TooDeep};
use crate::schema::number::number;
use crate::schema::repeated::Repeated;
use crate::schema::told::MAX_BYTES;
use crate::schema::track::{MAX_DUPLICATES, Segment, Track};

/// A text that could be read.
pub struct Read {
    /// The content; the last of several values of one key stays.
    pub value: Value,
    /// Keys that are in their map for the second time. At most 100, of 256 KiB.
    pub repeated: Vec<Repeated>,
}

/// Reads the first document of a text; null where there is none.
///
/// # Errors
/// If it is no YAML, or none that can be JSON, or is too deep, or holds too much by aliases.
pub fn read(body: &[u8], track: &mut Track) -> Result<Read, YamlError> {
    let text = str::from_utf8(body).map_err(|_| YamlError::Encoding)?;
    if !text.chars().all(is_yaml) {
        return Err(YamlError::Control);
    }
    let document = Document::first(text)?;
    let mut reader = Reader {
        document: &document,
        track,
        allowance: Allowance::of(text),
        levels: 0,
        repeated: Vec::new(),
        told: 0,
    };
    let value = match document.root() {
        Some(root) => reader.value(root)?,
        None => Value::Null,
    };
    Ok(Read {
        value,
        repeated: reader.repeated,
    })
}

/// Returns whether YAML allows a character as it is.
const fn is_yaml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}'
        | '\u{10000}'..)
}

/// The reader of a document.
struct Reader<'r, 't> {
    document: &'r Document<'t>,
    track: &'r mut Track,
    /// The rest of the values and bytes that it may hold.
    allowance: Allowance,
    /// Number of lists and maps around this place, merged ones included.
    levels: usize,
    repeated: Vec<Repeated>,
    /// Bytes of the keys among them.
    told: usize,
}

/// A map that is being read.
#[derive(Default)]
struct Fields {
    map: Map<String, Value>,
    seen: HashSet<Key>,
}

impl Reader<'_, '_> {
    /// Returns the value of a node.
    fn value(&mut self, at: usize) -> Result<Value, YamlError> {
        let node = self.document.node(at);
        match &node.kind {
            Kind::Alias(target) => self.value(*target),
            Kind::Scalar(scalar) => {
                self.allowance.take(scalar.bytes())?;
                json(scalar.resolve(node.line)?)
            }
            Kind::List(end) => {
                self.track.check_depth()?;
                self.list(at, *end)
            }
            Kind::Map(end) => {
                self.track.check_depth()?;
                let mut fields = Fields::default();
                self.fill(at, *end, &mut fields)?;
                Ok(Value::Object(fields.map))
            }
        }
    }

    /// Returns the value of a list, which ends before the node `end`.
    fn list(&mut self, at: usize, end: usize) -> Result<Value, YamlError> {
        self.descend()?;
        let mut items = Vec::new();
        for item in self.document.inside(at, end) {
            self.track.enter(Segment::Index(items.len()));
            items.push(self.value(item)?);
            self.track.leave();
        }
        self.levels -= 1;
        Ok(Value::Array(items))
    }

    /// Adds what is in a map, which ends before the node `end`, to fields.
    fn fill(&mut self, at: usize, end: usize, fields: &mut Fields) -> Result<(), YamlError> {
        self.descend()?;
        let document = self.document;
        let mut inside = document.inside(at, end);
        while let (Some(key), Some(value)) = (inside.next(), inside.next()) {
            match &document.node(key).kind {
                Kind::Scalar(scalar) if scalar.is_merge() => self.merge(value, fields)?,
                _ => self.member(key, value, fields)?,
            }
        }
        self.levels -= 1;
        Ok(())
    }

    /// Adds what is in a map, or in the maps of a list, whose first counts most. As in Go, it
    /// replaces the fields before it, and is replaced by those behind it.
    fn merge(&mut self, at: usize, fields: &mut Fields) -> Result<(), YamlError> {
        let document = self.document;
        let mut maps = vec![at];
        if let Kind::List(end) = document.node(at).kind {
            maps = document.inside(at, end).collect();
        }
        for map in maps.into_iter().rev() {
            let map = document.followed(map);
            let Kind::Map(end) = document.node(map).kind else {
                return Err(YamlError::Merge);
            };
            self.fill(map, end, fields)?;
        }
        Ok(())
    }

    /// Adds a key and its value to fields.
    fn member(&mut self, key: usize, value: usize, to: &mut Fields) -> Result<(), YamlError> {
        let key = self.key(key)?;
        let name = key.name();
        self.allowance.take(name.len())?;
        self.track.enter(Segment::Key(name.clone()));
        let read = self.value(value)?;
        self.track.leave();
        if to.seen.contains(&key) {
            self.track.record_duplicate(&name);
            self.record(&key, self.document.node(value).line);
        } else {
            to.seen.insert(key);
        }
        to.map.insert(name, read);
        Ok(())
    }

    /// Returns the key that a node is.
    fn key(&self, at: usize) -> Result<Key, YamlError> {
        let node = self.document.node(self.document.followed(at));
        match &node.kind {
            Kind::Scalar(scalar) => Key::new(scalar.resolve(node.line)?, node.line),
            _ => Err(YamlError::Key(node.line)),
        }
    }

    /// Notes a key that its map has had, and the line of its value.
    fn record(&mut self, key: &Key, line: usize) {
        if self.repeated.len() < MAX_DUPLICATES && self.told < MAX_BYTES {
            let key = key.go_syntax();
            self.told += key.len();
            self.repeated.push(Repeated { line, key });
        }
    }

    /// Goes into a list or a map. The levels of a document are counted when it is parsed; those that
    /// its aliases make are counted here.
    fn descend(&mut self) -> Result<(), YamlError> {
        self.allowance.take(0)?;
        self.levels += 1;
        if self.levels > MAX_LEVELS {
            return Err(TooDeep.into());
        }
        Ok(())
    }
}

/// Returns a value as JSON has it.
#[expect(
    clippy::cast_precision_loss,
    reason = "Go holds larger numbers as floats"
)]
fn json(value: Resolved<'_>) -> Result<Value, YamlError> {
    Ok(match value {
        Resolved::Null => Value::Null,
        Resolved::Bool(flag) => flag.into(),
        Resolved::Int(int) => int.into(),
        Resolved::Large(int) => number(int as f64),
        Resolved::Float(float) if float.is_nan() => return Err(YamlError::Number("NaN")),
        Resolved::Float(f64::INFINITY) => return Err(YamlError::Number("+Inf")),
        Resolved::Float(f64::NEG_INFINITY) => return Err(YamlError::Number("-Inf")),
        Resolved::Float(float) => number(float),
        Resolved::Text(text) => text.into_owned().into(),
    })
}
