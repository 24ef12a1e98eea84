//! The operations of a JSON patch, as the kube-apiserver's library does them
//! (`gopkg.in/evanphx/json-patch.v4`), which is laxer than RFC 6902: a `replace` may add a member, a
//! missing one counts as null, and an index may count from the end.

use serde_json::Value;

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

/// Applies operations in their order.
///
/// # Errors
/// 422 for the first that does not apply; the document is then of no use.
pub(super) fn apply(document: &mut Value, operations: &[Value]) -> Result<(), RegistryError> {
    let (mut copied, mut moved) = (0, 0);
    for operation in operations {
        let op = operation["op"].as_str().unwrap_or("unknown");
        // A member that is left out is null.
        let value = || operation.get("value").cloned().unwrap_or_default();
        let path = || text(operation, "path");
        match op {
            "add" => add(document, path()?, value())?,
            "remove" => remove(document, path()?).map(drop)?,
            "replace" => replace(document, path()?, value())?,
            "move" => {
                let value = remove(document, text(operation, "from")?)?;
                moved += Extent::of(&value).values;
                if moved > MAX_MOVED {
                    return failed(format!("exceeded the limit of {MAX_MOVED} moved values"));
                }
                add(document, path()?, value)?;
            }
            "copy" => {
                let value = get(document, text(operation, "from")?)?;
                copied += value.to_string().len();
                if copied > MAX_COPIED_BYTES {
                    return failed(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is \
                         {copied}, exceeding the limit {MAX_COPIED_BYTES}"
                    ));
                }
                add(document, path()?, value)?;
            }
            "test" => test(document, path()?, &value())?,
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

fn text<'a>(operation: &'a Value, name: &str) -> Result<&'a str, RegistryError> {
    match operation[name].as_str() {
        Some(text) => Ok(text),
        None => failed(format!("the operation has no {name}")),
    }
}

/// What holds the last part of a path, and that part. What stands before the first slash does not
/// count.
fn holder<'a>(
    document: &'a mut Value,
    path: &str,
) -> Result<(&'a mut Value, String), RegistryError> {
    let mut parts = path.split('/').skip(1).map(unescaped);
    let Some(mut last) = parts.next() else {
        return missing(path);
    };
    let mut at = document;
    for part in parts {
        let key = std::mem::replace(&mut last, part);
        let inside = match at {
            Value::Object(map) => map.get_mut(&key),
            Value::Array(items) => index(&key, items.len())
                .filter(|index| *index < items.len())
                .and_then(|index| items.get_mut(index)),
            _ => None,
        };
        match inside {
            Some(inside) if inside.is_object() || inside.is_array() => at = inside,
            _ => return missing(path),
        }
    }
    Ok((at, last))
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// An index of a list that is `length` long; one below zero counts from there.
fn index(key: &str, length: usize) -> Option<usize> {
    let number: i64 = key.strip_prefix('+').unwrap_or(key).parse().ok()?;
    match usize::try_from(number) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(number.unsigned_abs()).ok()?),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), RegistryError> {
    check_depth(path, &value)?;
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        // Counted from the end of the list that it will be.
        Value::Array(items) => match index(&key, items.len() + 1) {
            Some(at) if at <= items.len() => items.insert(at, value),
            _ => return missing(path),
        },
        _ => return missing(path),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, RegistryError> {
    let (holder, key) = holder(document, path)?;
    let removed = match holder {
        Value::Object(map) => map.remove(&key),
        Value::Array(items) => index(&key, items.len())
            .filter(|at| *at < items.len())
            .map(|at| items.remove(at)),
        _ => None,
    };
    removed.map_or_else(|| missing(path), Ok)
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), RegistryError> {
    check_depth(path, &value)?;
    if path.is_empty() {
        if value.is_object() || value.is_array() {
            *document = value;
            return Ok(());
        }
        return failed("replace operation value must be object or array".to_owned());
    }
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) => match index(&key, items.len()).and_then(|at| items.get_mut(at)) {
            Some(item) => *item = value,
            None => return missing(path),
        },
        _ => return missing(path),
    }
    Ok(())
}

/// A copy of what is there; null for a member that is not.
fn get(document: &mut Value, path: &str) -> Result<Value, RegistryError> {
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(map) => Ok(map.get(&key).cloned().unwrap_or_default()),
        Value::Array(items) => {
            let item = index(&key, items.len()).and_then(|at| items.get(at));
            item.map_or_else(|| missing(path), |item| Ok(item.clone()))
        }
        _ => missing(path),
    }
}

fn test(document: &mut Value, path: &str, wanted: &Value) -> Result<(), RegistryError> {
    let same = if path.is_empty() {
        document == wanted
    } else {
        get(document, path)? == *wanted
    };
    if same {
        Ok(())
    } else {
        failed(format!("testing value {path} failed"))
    }
}

/// Refuses a value that would make the document too deep: a few operations could otherwise deepen
/// it until the stack ends.
fn check_depth(path: &str, value: &Value) -> Result<(), RegistryError> {
    if path.matches('/').count() + Extent::of(value).levels > MAX_DEPTH {
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
    fn of(value: &Value) -> Self {
        let mut all = match value {
            Value::Array(items) => items.iter().fold(Self::default(), Self::beside),
            Value::Object(map) => map.values().fold(Self::default(), Self::beside),
            _ => Self::default(),
        };
        all.levels += 1;
        all.values += 1;
        all
    }

    fn beside(self, value: &Value) -> Self {
        let other = Self::of(value);
        Self {
            levels: self.levels.max(other.levels),
            values: self.values + other.values,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(operations: &Value) -> Option<Value> {
        let mut document = json!({"a": {"b": 1, "n": null}, "l": [1, 2, 3]});
        let list = operations.as_array().unwrap();
        apply(&mut document, list).ok().map(|()| document)
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
        let mut document = json!({"a": large});
        assert_eq!(
            Extent::of(&document),
            Extent {
                levels: 3,
                values: 100_002
            }
        );
        let there = json!({"op": "move", "from": "/a", "path": "/b"});
        let back = json!({"op": "move", "from": "/b", "path": "/a"});
        let few = [there, back];
        assert_eq!(apply(&mut document, &few), Ok(()));
        let many: Vec<_> = few.iter().cycle().take(60).cloned().collect();
        let error = apply(&mut document, &many).unwrap_err();
        assert!(matches!(error, RegistryError::PatchFailed(why) if why.contains("moved")));
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
    fn does_not_apply(#[case] operation: Value) {
        assert_eq!(patched(&json!([operation])), None);
    }
}
