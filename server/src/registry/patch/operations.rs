//! The operations of a JSON patch, as the kube-apiserver's library does them
//! (`gopkg.in/evanphx/json-patch.v4`), which is laxer than RFC 6902: a `replace` may add a member, a
//! missing one counts as null, and an index may count from the end.

use super::node::Node;
use crate::registry::RegistryError;

/// Most bytes that the `copy` operations of one JSON patch may copy together.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Deepest nesting that a JSON patch may build. Parsing JSON text stops at 128, so that what is
/// stored can always be read again, and recursion over a value stays within the stack.
const MAX_DEPTH: usize = 120;
/// Most values that the `move` operations of one JSON patch may move together, those within others
/// counted. Each is looked at for its depth, and ten thousand operations can move all of an object
/// to and fro.
const MAX_MOVED: usize = 5_000_000;

/// One operation. What is left out, or is no text where one belongs, is missed only when it is
/// needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// What is to be done.
    pub op: Option<String>,
    /// Where.
    pub path: Option<String>,
    /// Where from.
    pub from: Option<String>,
    /// With what.
    pub value: Option<Node>,
}

impl Operation {
    fn path(&self) -> Result<&str, RegistryError> {
        given(self.path.as_deref(), "path")
    }

    fn from(&self) -> Result<&str, RegistryError> {
        given(self.from.as_deref(), "from")
    }

    /// A value that is left out is null.
    fn value(&self) -> Node {
        self.value.clone().unwrap_or(Node::Null)
    }
}

fn given<'a>(text: Option<&'a str>, name: &str) -> Result<&'a str, RegistryError> {
    text.map_or_else(|| failed(format!("the operation has no {name}")), Ok)
}

/// Applies operations in their order.
///
/// # Errors
/// 422 for the first that does not apply; the document is then of no use.
pub(super) fn apply(document: &mut Node, operations: &[Operation]) -> Result<(), RegistryError> {
    let (mut copied, mut moved) = (0, 0);
    for operation in operations {
        match operation.op.as_deref().unwrap_or("unknown") {
            "add" => add(document, operation.path()?, operation.value())?,
            "remove" => remove(document, operation.path()?).map(drop)?,
            "replace" => replace(document, operation.path()?, operation.value())?,
            "move" => {
                let node = remove(document, operation.from()?)?;
                moved += Extent::of(&node).values;
                if moved > MAX_MOVED {
                    return failed(format!("exceeded the limit of {MAX_MOVED} moved values"));
                }
                add(document, operation.path()?, node)?;
            }
            "copy" => {
                let node = get(document, operation.from()?)?.to_string();
                copied += node.len();
                if copied > MAX_COPIED_BYTES {
                    return failed(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is \
                         {copied}, exceeding the limit {MAX_COPIED_BYTES}"
                    ));
                }
                add(document, operation.path()?, Node::written(&node))?;
            }
            "test" => test(document, operation.path()?, operation.value())?,
            other => return failed(format!("Unexpected kind: {other}")),
        }
    }
    Ok(())
}

fn failed<T>(why: String) -> Result<T, RegistryError> {
    Err(RegistryError::PatchFailed(why))
}

fn missing<T>(path: &str) -> Result<T, RegistryError> {
    failed(format!("the path {path} is missing"))
}

/// What holds the last part of a path, and that part. What stands before the first slash does not
/// count.
fn holder<'a>(document: &'a mut Node, path: &str) -> Result<(&'a mut Node, String), RegistryError> {
    let mut parts = path.split('/').skip(1).map(unescaped);
    let Some(mut last) = parts.next() else {
        return missing(path);
    };
    let mut at = document;
    at.open();
    for part in parts {
        let key = std::mem::replace(&mut last, part);
        let inside = match at {
            Node::Map(map) => map.get_mut(&key),
            Node::List(items) => index(&key, items.len())
                .filter(|index| *index < items.len())
                .and_then(|index| items.get_mut(index)),
            _ => None,
        };
        let Some(inside) = inside else {
            return missing(path);
        };
        inside.open();
        at = inside;
    }
    Ok((at, last))
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// An index of a list that is `length` long; one below zero counts from there.
fn index(key: &str, length: usize) -> Option<usize> {
    let number: i64 = key.parse().ok()?;
    match usize::try_from(number) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(number.unsigned_abs()).ok()?),
    }
}

fn add(document: &mut Node, path: &str, node: Node) -> Result<(), RegistryError> {
    check_depth(path, &node)?;
    let (holder, key) = holder(document, path)?;
    match holder {
        Node::Map(map) => {
            map.insert(key, node);
        }
        Node::List(items) if key == "-" => items.push(node),
        // Counted from the end of the list that it will be.
        Node::List(items) => match index(&key, items.len() + 1) {
            Some(at) if at <= items.len() => items.insert(at, node),
            _ => return missing(path),
        },
        _ => return missing(path),
    }
    Ok(())
}

fn remove(document: &mut Node, path: &str) -> Result<Node, RegistryError> {
    let (holder, key) = holder(document, path)?;
    let removed = match holder {
        Node::Map(map) => map.remove(&key),
        Node::List(items) => index(&key, items.len())
            .filter(|at| *at < items.len())
            .map(|at| items.remove(at)),
        _ => None,
    };
    removed.map_or_else(|| missing(path), Ok)
}

fn replace(document: &mut Node, path: &str, mut node: Node) -> Result<(), RegistryError> {
    check_depth(path, &node)?;
    if path.is_empty() {
        node.open();
        if matches!(node, Node::Map(_) | Node::List(_)) {
            *document = node;
            return Ok(());
        }
        return failed("replace operation value must be object or array".to_owned());
    }
    let (holder, key) = holder(document, path)?;
    match holder {
        Node::Map(map) => {
            map.insert(key, node);
        }
        Node::List(items) => match index(&key, items.len()).and_then(|at| items.get_mut(at)) {
            Some(item) => *item = node,
            None => return missing(path),
        },
        _ => return missing(path),
    }
    Ok(())
}

/// A copy of what is there; null for a member that is not.
fn get(document: &mut Node, path: &str) -> Result<Node, RegistryError> {
    let (holder, key) = holder(document, path)?;
    match holder {
        Node::Map(map) => Ok(map.get(&key).cloned().unwrap_or(Node::Null)),
        Node::List(items) => {
            let item = index(&key, items.len()).and_then(|at| items.get(at));
            item.map_or_else(|| missing(path), |item| Ok(item.clone()))
        }
        _ => missing(path),
    }
}

fn test(document: &mut Node, path: &str, mut wanted: Node) -> Result<(), RegistryError> {
    let mut found = if path.is_empty() {
        document.clone()
    } else {
        get(document, path)?
    };
    found.open_all();
    wanted.open_all();
    if found.is_same(&wanted) {
        Ok(())
    } else {
        failed(format!("testing value {path} failed"))
    }
}

/// Refuses a value that would make the document too deep: a few operations could otherwise deepen
/// it until the stack ends.
fn check_depth(path: &str, node: &Node) -> Result<(), RegistryError> {
    if path.matches('/').count() + Extent::of(node).levels > MAX_DEPTH {
        return failed(format!(
            "exceeded the depth of {MAX_DEPTH} levels at path {path}"
        ));
    }
    Ok(())
}

/// How large a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    /// Levels of nesting; 1 for a scalar.
    levels: usize,
    /// Values, itself and all within.
    values: usize,
}

impl Extent {
    /// Recursion is bounded: by the parser for values of a request, by [`MAX_DEPTH`] for the
    /// document.
    fn of(node: &Node) -> Self {
        let mut all = match node {
            Node::List(items) => items.iter().fold(Self::default(), Self::beside),
            Node::Map(map) => map.values().fold(Self::default(), Self::beside),
            Node::Written(text) => Self::within(text),
            Node::Null | Node::Stored(_) => Self::default(),
        };
        all.levels += 1;
        all.values += 1;
        all
    }

    /// What is within a value by its text: as many levels as brackets are open at a time, and values
    /// by the commas and brackets.
    fn within(text: &str) -> Self {
        let (mut all, mut open) = (Self::default(), 0_usize);
        let (mut in_text, mut escaped) = (false, false);
        for byte in text.bytes() {
            match byte {
                b'"' if !escaped => in_text = !in_text,
                b'[' | b'{' if !in_text => {
                    open += 1;
                    all.levels = all.levels.max(open);
                    all.values += 1;
                }
                b']' | b'}' if !in_text => open = open.saturating_sub(1),
                b',' if !in_text => all.values += 1,
                _ => {}
            }
            escaped = byte == b'\\' && !escaped;
        }
        all
    }

    fn beside(self, node: &Node) -> Self {
        let other = Self::of(node);
        Self {
            levels: self.levels.max(other.levels),
            values: self.values + other.values,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::read::operations;
    use super::*;

    fn patched(patch: &Value) -> Option<Value> {
        let mut document = Node::from(json!({"a": {"b": 1, "n": null}, "l": [1, 2, 3]}));
        let (list, _) = operations(&patch.to_string(), false).unwrap();
        apply(&mut document, &list).ok()?;
        Some(serde_json::from_str(&document.to_string()).unwrap())
    }

    #[rstest::rstest]
    #[case::from_the_end(json!({"op": "add", "path": "/l/-1", "value": 4}), "/l", json!([1, 2, 3, 4]))]
    #[case::last(json!({"op": "remove", "path": "/l/-1"}), "/l", json!([1, 2]))]
    #[case::no_value(json!({"op": "add", "path": "/a/b"}), "/a/b", json!(null))]
    #[case::new_member(json!({"op": "replace", "path": "/a/c", "value": 2}), "/a/c", json!(2))]
    #[case::copy_of_nothing(json!({"op": "copy", "from": "/a/x", "path": "/a/b"}), "/a/b", json!(null))]
    #[case::test_of_nothing(json!({"op": "test", "path": "/a/x", "value": null}), "/a/b", json!(1))]
    #[case::test_of_null(json!({"op": "test", "path": "/a/n"}), "/a/b", json!(1))]
    #[case::before_the_slash(json!({"op": "add", "path": "x/y", "value": 1}), "/y", json!(1))]
    #[case::escapes(json!({"op": "add", "path": "/a/~1~0", "value": 1}), "/a/~1~0", json!(1))]
    #[case::whole(json!({"op": "replace", "path": "", "value": {"z": 1}}), "", json!({"z": 1}))]
    fn applies(#[case] operation: Value, #[case] at: &str, #[case] expected: Value) {
        let document = patched(&json!([operation])).unwrap();
        assert_eq!(document.pointer(at), Some(&expected));
    }

    #[test]
    fn moving_is_bounded() {
        let large = vec![json!(1); 100_000];
        let mut document = Node::from(json!({"a": large}));
        assert_eq!(
            Extent::of(&document),
            Extent {
                levels: 3,
                values: 100_002
            }
        );
        let few = json!([
            {"op": "move", "from": "/a", "path": "/b"},
            {"op": "move", "from": "/b", "path": "/a"},
        ]);
        let (few, _) = operations(&few.to_string(), false).unwrap();
        assert_eq!(apply(&mut document, &few), Ok(()));
        let many: Vec<_> = few.iter().cycle().take(60).cloned().collect();
        let error = apply(&mut document, &many).unwrap_err();
        assert!(matches!(error, RegistryError::PatchFailed(why) if why.contains("moved")));
    }

    #[rstest::rstest]
    #[case("1", 1, 1)]
    #[case(r#""[\"[,""#, 1, 1)]
    #[case("[]", 2, 2)]
    #[case(r#"{"a":[1,{"b":[]}],"c":2}"#, 5, 7)]
    fn extents_by_text(#[case] text: &str, #[case] levels: usize, #[case] values: usize) {
        assert_eq!(Extent::of(&Node::written(text)), Extent { levels, values });
    }

    #[rstest::rstest]
    #[case(json!({"op": "remove", "path": "/a/x"}))]
    #[case(json!({"op": "add", "path": "/a/n/x", "value": 1}))]
    #[case(json!({"op": "add", "path": "/a/b/x", "value": 1}))]
    #[case(json!({"op": "add", "path": "/l/4", "value": 1}))]
    #[case(json!({"op": "add", "path": "/l/-5", "value": 1}))]
    #[case(json!({"op": "replace", "path": "/l/3", "value": 1}))]
    #[case(json!({"op": "replace", "path": "/l/x", "value": 1}))]
    #[case(json!({"op": "replace", "path": "", "value": 1}))]
    #[case(json!({"op": "move", "from": "/l/9", "path": "/a/b"}))]
    #[case(json!({"op": "test", "path": "/a", "value": {"b": 2, "n": null}}))]
    #[case(json!({"op": "add", "value": 1}))]
    #[case(json!({"path": "/a"}))]
    #[case(json!({"op": 7, "path": "/a"}))]
    #[case(json!({"op": "remove", "path": 7}))]
    #[case(json!({"op": "test", "path": "/a/b", "value": 1.5}))]
    #[case(json!({"op": "add", "path": "/l/++1", "value": 1}))]
    #[case(json!(null))]
    fn does_not_apply(#[case] operation: Value) {
        assert_eq!(patched(&json!([operation])), None);
    }
}
