//! The operations of a JSON patch, as the kube-apiserver's library does them
//! (`gopkg.in/evanphx/json-patch.v4`), which is laxer than RFC 6902: a `replace` may add a member,
//! a missing one counts as null, and an index may count from the end.

use apimachinery::schema::MAX_DEPTH;

use super::node::Node;
use crate::registry::RegistryError;

/// Most bytes that the `copy` operations of one JSON patch may copy together.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Most values that the `move` operations of one JSON patch may move together, those within others
/// counted. Each is looked at for its depth, and ten thousand operations can move all of an object
/// to and fro.
const MAX_MOVED: usize = 5_000_000;
/// Most items of lists that the operations of one JSON patch may shift together, by adding in front
/// of them or removing what is there: ten thousand operations on a list of a million would take
/// minutes.
const MAX_SHIFTED: usize = 100_000_000;

/// The cost of the operations of a patch together.
#[derive(Debug, Default)]
struct Spent {
    copied: usize,
    moved: usize,
    shifted: usize,
}

impl Spent {
    fn copy(&mut self, bytes: usize) -> Result<(), RegistryError> {
        self.copied += bytes;
        if self.copied > MAX_COPIED_BYTES {
            return failed(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, \
                 exceeding the limit {MAX_COPIED_BYTES}",
                self.copied
            ));
        }
        Ok(())
    }

    fn carry(&mut self, values: usize) -> Result<(), RegistryError> {
        self.moved += values;
        if self.moved > MAX_MOVED {
            return failed(format!("exceeded the limit of {MAX_MOVED} moved values"));
        }
        Ok(())
    }

    fn shift(&mut self, items: usize) -> Result<(), RegistryError> {
        self.shifted += items;
        if self.shifted > MAX_SHIFTED {
            return failed(format!(
                "exceeded the limit of {MAX_SHIFTED} shifted items of lists"
            ));
        }
        Ok(())
    }
}

/// One operation. A member that is left out, or is no text where one belongs, is an error only when
/// it is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// The kind of the operation.
    pub op: Option<String>,
    /// The path that it works on.
    pub path: Option<String>,
    /// The path that it takes a value from.
    pub from: Option<String>,
    /// The value that it works with.
    pub value: Option<Node>,
}

impl Operation {
    fn path(&self) -> Result<&str, RegistryError> {
        given(self.path.as_deref(), "path")
    }

    fn from(&self) -> Result<&str, RegistryError> {
        given(self.from.as_deref(), "from")
    }

    /// Returns the value; one that is left out is null.
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
    let mut spent = Spent::default();
    for operation in operations {
        match operation.op.as_deref().unwrap_or("unknown") {
            "add" => add(document, operation.path()?, operation.value(), &mut spent)?,
            "remove" => remove(document, operation.path()?, &mut spent).map(drop)?,
            "replace" => replace(document, operation.path()?, operation.value())?,
            "move" => {
                let node = remove(document, operation.from()?, &mut spent)?;
                spent.carry(node.extent().values)?;
                add(document, operation.path()?, node, &mut spent)?;
            }
            "copy" => {
                let text = get(document, operation.from()?)?
                    .map_or_else(|| Node::Null.to_string(), |node| node.to_string());
                spent.copy(text.len())?;
                add(
                    document,
                    operation.path()?,
                    Node::written(&text),
                    &mut spent,
                )?;
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

/// Returns the node that holds the last part of a path, and that part. The text before the first
/// slash does not count.
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

/// Returns an index of a list that is `length` long; one below zero counts from there.
fn index(key: &str, length: usize) -> Option<usize> {
    let number: i64 = key.parse().ok()?;
    match usize::try_from(number) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(number.unsigned_abs()).ok()?),
    }
}

fn add(
    document: &mut Node,
    path: &str,
    node: Node,
    spent: &mut Spent,
) -> Result<(), RegistryError> {
    check_depth(path, &node)?;
    let (holder, key) = holder(document, path)?;
    match holder {
        Node::Map(map) => {
            map.insert(key, node);
        }
        Node::List(items) if key == "-" => items.push(node),
        // Counted from the end of the list that it will be.
        Node::List(items) => match index(&key, items.len() + 1) {
            Some(at) if at <= items.len() => {
                spent.shift(items.len() - at)?;
                items.insert(at, node);
            }
            _ => return missing(path),
        },
        _ => return missing(path),
    }
    Ok(())
}

fn remove(document: &mut Node, path: &str, spent: &mut Spent) -> Result<Node, RegistryError> {
    let (holder, key) = holder(document, path)?;
    let removed = match holder {
        Node::Map(map) => map.remove(&key),
        Node::List(items) => match index(&key, items.len()) {
            Some(at) if at < items.len() => {
                spent.shift(items.len() - at)?;
                Some(items.remove(at))
            }
            _ => None,
        },
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

/// Returns the node at a path; none for a member that does not exist, which counts as null.
fn get<'a>(document: &'a mut Node, path: &str) -> Result<Option<&'a mut Node>, RegistryError> {
    let (holder, key) = holder(document, path)?;
    match holder {
        Node::Map(map) => Ok(map.get_mut(&key)),
        Node::List(items) => {
            let item = index(&key, items.len()).and_then(|at| items.get_mut(at));
            item.map_or_else(|| missing(path), |item| Ok(Some(item)))
        }
        _ => missing(path),
    }
}

fn test(document: &mut Node, path: &str, mut wanted: Node) -> Result<(), RegistryError> {
    let mut null = Node::Null;
    let found = if path.is_empty() {
        document
    } else {
        get(document, path)?.unwrap_or(&mut null)
    };
    if found.is_same(&mut wanted) {
        Ok(())
    } else {
        failed(format!("testing value {path} failed"))
    }
}

/// Refuses a value that would make the document too deep: a few operations could otherwise deepen
/// it until the stack ends.
fn check_depth(path: &str, node: &Node) -> Result<(), RegistryError> {
    if path.matches('/').count() + node.extent().levels > MAX_DEPTH {
        return failed(format!(
            "exceeded the depth of {MAX_DEPTH} levels at path {path}"
        ));
    }
    Ok(())
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
        assert_eq!(document.extent().levels, 3);
        assert_eq!(document.extent().values, 100_002);
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

    #[test]
    fn shifting_is_bounded() {
        let mut document = Node::from(json!({"l": vec![json!(1); 100_000]}));
        let add = json!({"op": "add", "path": "/l/0", "value": 1});
        let behind = json!({"op": "add", "path": "/l/-", "value": 1});
        let remove = json!({"op": "remove", "path": "/l/0"});
        let mut done = |patch: Vec<Value>| {
            let (list, _) = operations(&json!(patch).to_string(), false).unwrap();
            apply(&mut document, &list)
        };
        assert_eq!(done(vec![behind; 10_000]), Ok(()));
        let many = [add, remove].into_iter().cycle().take(1000).collect();
        let error = done(many).unwrap_err();
        assert!(matches!(error, RegistryError::PatchFailed(why) if why.contains("shifted")));
    }

    /// A large value is measured and compared no more than it has to be.
    #[test]
    fn a_long_text_is_moved_and_tested_many_times() {
        let text = "x".repeat(1_000_000);
        let mut patch = vec![json!({"op": "add", "path": "/t", "value": [text]})];
        patch.extend((0..4000).flat_map(|_| {
            [
                json!({"op": "move", "from": "/t", "path": "/u"}),
                json!({"op": "move", "from": "/u", "path": "/t"}),
            ]
        }));
        patch.push(json!({"op": "test", "path": "/t/0", "value": text}));
        let (list, _) = operations(&json!(patch).to_string(), false).unwrap();
        let mut document = Node::from(json!({}));
        let begun = std::time::Instant::now();
        assert_eq!(apply(&mut document, &list), Ok(()));
        // Measuring it anew each time takes minutes.
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
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
