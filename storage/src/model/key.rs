//! Names of resources and objects.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::{fmt, hash};

/// A resource without its version: it is stored once, whichever versions serve it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// API group, such as `wgpolicyk8s.io`.
    pub group: Arc<str>,
    /// Plural resource name, such as `policyreports`.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// Returns the name of the resource `resource` of the API group `group`.
    #[must_use]
    pub fn new(group: impl Into<Arc<str>>, resource: impl Into<Arc<str>>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

/// Writes `<resource>.<group>`, as Kubernetes writes it in messages and CRD names.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.group)
    }
}

/// Key of an object within its resource: `namespace/name`, or `name` for cluster-scoped kinds.
///
/// Keys order bytewise as that text does, which is the order in which etcd lists them (`a-b/x`
/// comes before `a/x`), so that pages and continue tokens agree with the CRD's. A clone shares the
/// text. Neither part may contain `/`, which Kubernetes' name rules ensure.
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    /// Length of the namespace; 0 for a cluster-scoped object.
    namespace_len: usize,
}

impl ObjectKey {
    /// Returns the key of `name` in `namespace`; an empty namespace means cluster-scoped.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let text = if namespace.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{namespace}/{name}"))
        };
        Self {
            text,
            namespace_len: namespace.len(),
        }
    }

    /// Returns the namespace; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace_len]
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            n => &self.text[n + 1..],
        }
    }

    /// Returns the whole key, `namespace/name` or `name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A key compares, hashes and is looked up as its text.
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.as_bytes().cmp(other.text.as_bytes())
    }
}

impl hash::Hash for ObjectKey {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectKey;

    #[test]
    fn keys_order_as_etcd_orders_their_text() {
        let mut keys = [("a", "x"), ("a-b", "x"), ("a", "b"), ("a0", "a")]
            .map(|(ns, name)| ObjectKey::new(ns, name));
        keys.sort();
        assert_eq!(keys.map(|k| k.to_string()), ["a-b/x", "a/b", "a/x", "a0/a"]);
    }

    #[test]
    fn a_cluster_scoped_key_has_no_namespace() {
        let key = ObjectKey::new("", "n");
        assert_eq!((key.namespace(), key.name(), key.as_str()), ("", "n", "n"));
        let key = ObjectKey::new("ns", "n");
        assert_eq!(
            (key.namespace(), key.name(), key.as_str()),
            ("ns", "n", "ns/n")
        );
    }
}
