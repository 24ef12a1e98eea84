//! The typed view of objects: the lists and maps that are owned as a whole, and those by item.

mod meta;
mod parse;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

pub use parse::SchemaError;

/// The types of one version of a kind.
#[derive(Clone, Debug)]
pub struct Schema {
    root: TypeRef,
}

impl Schema {
    /// Reads a structural `openAPIV3Schema`. `apiVersion`, `kind` and `metadata` are always those
    /// of an object, whatever the schema says of them.
    ///
    /// # Errors
    /// If a type or an extension is unknown, a list has no `items`, or an associative list no keys.
    pub fn from_openapi(schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self {
            root: parse::root(schema)?,
        })
    }

    /// Returns the schema of objects about which nothing is known: maps are owned by entry, lists
    /// as a whole.
    #[must_use]
    pub fn deduced() -> Self {
        Self {
            root: TypeRef::Deduced,
        }
    }

    pub(crate) fn root(&self) -> &TypeRef {
        &self.root
    }
}

/// The type of a value.
#[derive(Clone, Debug)]
pub(crate) enum TypeRef {
    /// The schema does not know this field.
    Undeclared,
    /// Anything, owned as a whole.
    Untyped,
    /// Anything; the kind of type follows from the value.
    Deduced,
    Inline(Arc<Atom>),
}

/// The kinds of value that are allowed; with several, the value decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub scalar: Option<Scalar>,
    pub list: Option<List>,
    pub map: Option<MapType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub items: TypeRef,
    pub relation: ListRelation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListRelation {
    /// The list or map is owned as a whole.
    Atomic,
    /// Items are owned one by one, identified by their values.
    Set,
    /// Items are owned one by one, identified by these fields.
    Map(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct MapType {
    pub fields: BTreeMap<String, Field>,
    /// The type of entries that are no fields.
    pub additional: TypeRef,
    pub atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub of: TypeRef,
    pub default: Option<Value>,
}

static UNDECLARED: Atom = Atom {
    scalar: None,
    list: None,
    map: None,
};
static UNTYPED: LazyLock<Atom> = LazyLock::new(|| anything(TypeRef::Untyped, true));
static DEDUCED: LazyLock<Atom> = LazyLock::new(|| anything(TypeRef::Deduced, false));

fn anything(entries: TypeRef, atomic: bool) -> Atom {
    Atom {
        scalar: Some(Scalar::Untyped),
        list: Some(List {
            items: TypeRef::Untyped,
            relation: ListRelation::Atomic,
        }),
        map: Some(MapType {
            fields: BTreeMap::new(),
            additional: entries,
            atomic,
        }),
    }
}

impl TypeRef {
    pub fn resolve(&self) -> &Atom {
        match self {
            Self::Undeclared => &UNDECLARED,
            Self::Untyped => &UNTYPED,
            Self::Deduced => &DEDUCED,
            Self::Inline(atom) => atom,
        }
    }

    pub fn is_undeclared(&self) -> bool {
        matches!(self, Self::Undeclared)
    }

    /// Returns whether the type holds anything by deduction, or is a scalar of any type.
    fn is_untyped(&self) -> bool {
        match self {
            Self::Deduced => true,
            Self::Inline(atom) => atom.scalar == Some(Scalar::Untyped),
            Self::Undeclared | Self::Untyped => false,
        }
    }
}

impl MapType {
    /// Returns the type of the value under `key`.
    pub fn type_of(&self, key: &str) -> &TypeRef {
        self.fields
            .get(key)
            .map_or(&self.additional, |field| &field.of)
    }

    /// Returns whether nothing at all is specified about the entries.
    pub fn is_free(&self) -> bool {
        self.fields.is_empty() && self.additional.is_untyped()
    }
}

/// A type that a value has.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    Scalar(Scalar),
    List(&'a List),
    Map(&'a MapType),
}

/// The kinds of an [`Atom`] that a value can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidates {
    Scalar,
    List,
    Map,
    /// The value is absent, null or of none of the allowed kinds.
    All,
}

impl Atom {
    /// Returns the kinds that remain for a value.
    pub fn candidates(&self, value: Option<&Value>) -> Candidates {
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => {
                Candidates::Scalar
            }
            Some(Value::Array(_)) if self.list.is_some() => Candidates::List,
            Some(Value::Object(_)) if self.map.is_some() => Candidates::Map,
            _ => Candidates::All,
        }
    }

    /// Returns the type to go on with: of several the map, then the scalar. `None` if nothing is
    /// allowed.
    pub fn shape(&self, candidates: Candidates) -> Option<Shape<'_>> {
        let map = || self.map.as_ref().map(Shape::Map);
        let scalar = || self.scalar.map(Shape::Scalar);
        let list = || self.list.as_ref().map(Shape::List);
        match candidates {
            Candidates::Scalar => scalar(),
            Candidates::List => list(),
            Candidates::Map => map(),
            Candidates::All => map().or_else(scalar).or_else(list),
        }
    }

    /// Returns whether both have the same kinds, or only one kind is allowed.
    pub fn same(&self, left: Candidates, right: Candidates) -> bool {
        left == right || self.is_single()
    }

    /// Returns whether at most one kind is allowed.
    fn is_single(&self) -> bool {
        let kinds = [
            self.scalar.is_some(),
            self.list.is_some(),
            self.map.is_some(),
        ];
        kinds.into_iter().filter(|kind| *kind).count() <= 1
    }
}

#[cfg(test)]
mod tests;
