//! Field selectors. Custom resources without `selectableFields` know just two fields.

use super::SelectorError;

/// A field selector on `metadata.name` and `metadata.namespace`: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    field: Field,
    equal: bool,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Field {
    Name,
    Namespace,
}

impl FieldSelector {
    /// Reads the value of the `fieldSelector` parameter. Only namespaced resources can be selected
    /// by `metadata.namespace`.
    ///
    /// # Errors
    /// `field label not supported: spec.x`, or the syntax error, in the words of the
    /// kube-apiserver.
    pub fn parse(text: &str, namespaced: bool) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(|part| {
                let Some((label, equal, value)) = split_term(part) else {
                    let error = format!("invalid selector: '{text}'; can't understand '{part}'");
                    return Err(SelectorError(error));
                };
                Ok((label, equal, unescape(value)?))
            })
            .collect::<Result<Vec<_>, _>>()?;
        // The syntax of the whole is judged before any label is, as in the kube-apiserver.
        let terms = terms
            .into_iter()
            .map(|(label, equal, value)| match label {
                "metadata.name" => Ok(Term {
                    field: Field::Name,
                    equal,
                    value,
                }),
                "metadata.namespace" if namespaced => Ok(Term {
                    field: Field::Namespace,
                    equal,
                    value,
                }),
                _ => Err(SelectorError(format!("field label not supported: {label}"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { terms })
    }

    /// Returns the selector of one object by its name.
    #[must_use]
    pub fn for_name(name: &str) -> Self {
        Self {
            terms: vec![Term {
                field: Field::Name,
                equal: true,
                value: name.to_owned(),
            }],
        }
    }

    /// Returns whether an object is selected; `namespace` is empty for cluster-scoped objects.
    #[must_use]
    pub fn matches(&self, namespace: &str, name: &str) -> bool {
        self.terms.iter().all(|term| {
            let actual = match term.field {
                Field::Name => name,
                Field::Namespace => namespace,
            };
            (actual == term.value) == term.equal
        })
    }

    /// Returns whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the one name that is asked for, if it is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.exact(Field::Name)
    }

    /// Returns the one namespace that is asked for, if it is one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.exact(Field::Namespace)
    }

    fn exact(&self, field: Field) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.field == field && term.equal)
            .map(|term| term.value.as_str())
    }
}

/// Splits at commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Returns (label, whether equal, escaped value) of the leftmost operator.
fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    part.char_indices().find_map(|(index, _)| {
        [("!=", false), ("==", true), ("=", true)]
            .into_iter()
            .find_map(|(operator, equal)| {
                let value = part[index..].strip_prefix(operator)?;
                Some((&part[..index], equal, value))
            })
    })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut unescaped = String::with_capacity(value.len());
    let mut chars = value.chars();
    let invalid = |sequence: String| {
        SelectorError(format!(
            "invalid field selector: invalid escape sequence: {sequence}"
        ))
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => unescaped.push(c),
                Some(c) => return Err(invalid(format!("\\{c}"))),
                None => return Err(invalid("\\".to_owned())),
            },
            ',' | '=' => {
                // The kube-apiserver prints the character as its number.
                let number = u32::from(c);
                let error =
                    format!("invalid field selector: unescaped character in value: {number}");
                return Err(SelectorError(error));
            }
            c => unescaped.push(c),
        }
    }
    Ok(unescaped)
}
