//! Label and field selectors.

use std::collections::BTreeMap;

use apimachinery::selector::{FieldSelector, LabelSelector, Operator};

use crate::parts::{bounded, parts};

/// A label selector: printed again it reads the same, and it means what its parts say.
pub fn label_selector(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let selector = match LabelSelector::parse(text) {
        Ok(selector) => selector,
        Err(error) => return bounded("an error", error.to_string().len(), data),
    };
    let printed = selector.to_string();
    let again = LabelSelector::parse(&printed).unwrap_or_else(|e| panic!("{printed:?}: {e}"));
    assert_eq!(again, selector, "{printed:?}");
    assert_eq!(again.to_string(), printed);

    let none = BTreeMap::new();
    let positive = |operator| {
        use Operator::{DoubleEquals, Equals, Exists, GreaterThan, In, LessThan};
        matches!(
            operator,
            Equals | DoubleEquals | In | Exists | GreaterThan | LessThan
        )
    };
    let asks = selector
        .requirements()
        .iter()
        .any(|requirement| positive(requirement.operator));
    assert_eq!(selector.matches(&none), !asks, "without labels: {printed}");
    let labels: BTreeMap<String, String> = selector
        .requirements()
        .iter()
        .map(|of| {
            (
                of.key.clone(),
                of.values.first().cloned().unwrap_or_default(),
            )
        })
        .collect();
    if selector.matches(&labels) {
        for (key, value) in &labels {
            let pinned = selector.equals(key);
            assert!(pinned.is_none_or(|pinned| pinned == value), "{key}");
        }
    }
}

/// A field selector, then a namespace and a name: what it pins down is what it selects.
pub fn field_selector(data: &[u8]) {
    let texts: Vec<_> = parts(data)
        .into_iter()
        .map(String::from_utf8_lossy)
        .collect();
    let at = |index: usize| texts.get(index).map_or("", |text| text.as_ref());
    let (text, namespace, name) = (at(0), at(1), at(2));
    let of_cluster = FieldSelector::parse(text, false);
    let selector = match FieldSelector::parse(text, true) {
        Ok(selector) => selector,
        Err(error) => {
            // What a namespaced resource cannot be selected by, no resource can.
            assert!(of_cluster.is_err());
            return bounded("an error", error.to_string().len(), data);
        }
    };
    let (pinned_namespace, pinned_name) = (selector.namespace(), selector.name());
    if let Ok(of_cluster) = of_cluster {
        assert_eq!(of_cluster, selector);
        assert_eq!(pinned_namespace, None);
    }
    if selector.matches(namespace, name) {
        assert!(pinned_name.is_none_or(|pinned| pinned == name));
        assert!(pinned_namespace.is_none_or(|pinned| pinned == namespace));
    }
    if let Some(pinned) = pinned_name {
        assert!(!selector.matches(namespace, &format!("{pinned}x")));
    }
    assert!(!selector.is_empty() || selector.matches(namespace, name));
}
