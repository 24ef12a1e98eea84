//! Reading the JSONPath of printer columns.

use serde_json::Value;

use super::jsonpath::{Comparison, Filter, JsonPath, Operand, Slice, Step};

/// The reason why a JSONPath cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a JSONPath that printer columns support: {reason}")]
pub struct JsonPathError {
    path: String,
    reason: &'static str,
}

type Parsed<T> = Result<T, &'static str>;

pub(super) fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
    steps(text).map_err(|reason| JsonPathError {
        path: text.to_owned(),
        reason,
    })
}

fn steps(text: &str) -> Parsed<JsonPath> {
    let mut rest = text.trim();
    rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = step(rest)?;
        steps.push(step);
        rest = after;
    }
    Ok(JsonPath { steps })
}

fn step(text: &str) -> Parsed<(Step, &str)> {
    if text.starts_with("..") {
        return Err("recursive descent (..) is not supported");
    }
    if let Some(filter) = text.strip_prefix("[?(") {
        return filter_step(filter);
    }
    if let Some(bracket) = text.strip_prefix('[') {
        return bracket_step(bracket);
    }
    let Some(name) = text.strip_prefix('.') else {
        return Err("a step must begin with '.' or '['");
    };
    let (name, rest) = field(name);
    match name.as_str() {
        "" if rest.starts_with('[') || rest.is_empty() => Err("a field name is missing"),
        "" => Err("a field name must not begin with this character"),
        "*" => Ok((Step::Wildcard, rest)),
        _ => Ok((Step::Field(name), rest)),
    }
}

/// Returns a field name up to the next unescaped terminator; backslashes escape and are dropped.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                return (name, &text[index..]);
            }
            c => name.push(c),
        }
    }
    (name, "")
}

/// Returns the step after `[`: `'key']`, `*]`, `1]`, `1:3]`.
fn bracket_step(text: &str) -> Parsed<(Step, &str)> {
    if let Some(quoted) = text.strip_prefix('\'') {
        let (key, rest) = quoted
            .split_once("']")
            .ok_or("a key in brackets is not closed")?;
        // As in the kube-apiserver, the key is read like a field behind a dot.
        return match field(key) {
            (name, "") if !name.is_empty() => Ok((Step::Field(name), rest)),
            _ => Err("a backslash must stand before special characters of a key"),
        };
    }
    let (inside, rest) = text.split_once(']').ok_or("a bracket is not closed")?;
    if inside == "*" {
        return Ok((Step::Slice(Slice::default()), rest));
    }
    if inside.contains(',') {
        return Err("unions are not supported");
    }
    Ok((Step::Slice(slice(inside)?), rest))
}

fn slice(text: &str) -> Parsed<Slice> {
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| "an index is not a number"),
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [index] => {
            let index = number(index)?.ok_or("an index is missing")?;
            Ok(Slice {
                start: Some(index),
                end: Some(index + 1),
                step: None,
                single: true,
            })
        }
        [start, end] => Ok(Slice {
            start: number(start)?,
            end: number(end)?,
            ..Slice::default()
        }),
        [start, end, step] => Ok(Slice {
            start: number(start)?,
            end: number(end)?,
            step: number(step)?,
            single: false,
        }),
        _ => Err("a slice has at most three parts"),
    }
}

/// Returns the step after `[?(`: `@.type=="Ready")]`.
fn filter_step(text: &str) -> Parsed<(Step, &str)> {
    let end = filter_end(text).ok_or("a filter is not closed")?;
    let (inside, rest) = (&text[..end], &text[end + 2..]);
    let Some(position) = inside.find(['=', '!', '<', '>']) else {
        let left = steps(inside)?;
        return Ok((
            Step::Filter(Filter {
                left,
                comparison: None,
            }),
            rest,
        ));
    };
    let operators = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessEqual),
        (">=", Comparison::GreaterEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let (left, right) = inside.split_at(position);
    let (operator, right) = operators
        .into_iter()
        .find_map(|(operator, comparison)| Some((comparison, right.strip_prefix(operator)?)))
        .ok_or("a filter has an unknown operator")?;
    let comparison = Some((operator, operand(right.trim())?));
    Ok((
        Step::Filter(Filter {
            left: steps(left)?,
            comparison,
        }),
        rest,
    ))
}

/// Returns the position of the `)]` that ends a filter, outside of quotes.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            ')' if quote.is_none() && text[index..].starts_with(")]") => return Some(index),
            _ => {}
        }
    }
    None
}

fn operand(text: &str) -> Parsed<Operand> {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let inside = quoted
                .strip_suffix(quote)
                .ok_or("a text in a filter is not closed")?;
            return Ok(Operand::Literal(Value::String(inside.replace('\\', ""))));
        }
    }
    if text.starts_with(['@', '$', '.']) {
        return steps(text).map(Operand::Path);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => Ok(Operand::Literal(value)),
        _ => Err("a filter compares with a text, a number, a boolean or a path"),
    }
}
