//! Names, label keys and values: the formats of `ObjectMeta`, and generated names.
//!
//! The rules and the wording of the messages are those of apimachinery's `validate/content`, so
//! that a client which matches on them sees no difference.

use rand::RngExt as _;

/// Longest DNS-1123 subdomain, in bytes.
const SUBDOMAIN_MAX: usize = 253;
/// Longest DNS-1123 label, label value and name part of a label key, in bytes.
const LABEL_MAX: usize = 63;
/// Characters of the random part of a generated name: no vowels and no look-alikes, so that no
/// word appears by chance.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the random part of a generated name.
const SUFFIX_LEN: usize = 5;

const SUBDOMAIN_MSG: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
     (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_MSG: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
     or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const KEY_MSG: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
     used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_MSG: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn max_len(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn label_shape(value: &str) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(a), Some(b)) if lower_alnum(*a) && lower_alnum(*b))
        && bytes.iter().all(|b| lower_alnum(*b) || *b == b'-')
}

fn key_shape(value: &str) -> bool {
    let bytes = value.as_bytes();
    matches!((bytes.first(), bytes.last()),
        (Some(a), Some(b)) if a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// What is wrong with `value` as a DNS-1123 subdomain; empty when nothing is.
#[must_use]
pub fn check_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_len(SUBDOMAIN_MAX));
    }
    if !value.split('.').all(label_shape) {
        errors.push(SUBDOMAIN_MSG.to_owned());
    }
    errors
}

/// What is wrong with `value` as a DNS-1123 label (the form of a namespace's name).
#[must_use]
pub fn check_dns_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_len(LABEL_MAX));
    }
    if !label_shape(value) {
        if value.split('.').all(label_shape) {
            errors.push("must not contain dots".to_owned());
        } else {
            errors.push(LABEL_MSG.to_owned());
        }
    }
    errors
}

/// What is wrong with `value` as a segment of a URL path.
#[must_use]
pub fn check_path_segment(value: &str) -> Vec<String> {
    match value {
        "." | ".." => vec![format!("may not be '{value}'")],
        _ => check_path_segment_prefix(value),
    }
}

/// What is wrong with `value` as the beginning of a segment of a URL path.
#[must_use]
pub fn check_path_segment_prefix(value: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|c| value.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// What is wrong with `value` as a qualified name (label key, annotation key, finalizer).
#[must_use]
pub fn check_qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let (first, second, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if more.is_some() {
        return vec![format!(
            "a valid label key {KEY_MSG} with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')"
        )];
    }
    let name = second.unwrap_or(first);
    if second.is_some() {
        if first.is_empty() {
            errors.push("prefix part must be non-empty".to_owned());
        } else {
            errors.extend(check_subdomain(first).into_iter().map(|m| format!("prefix part {m}")));
        }
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_len(LABEL_MAX)));
    }
    if !key_shape(name) {
        errors.push(format!("name part {KEY_MSG}"));
    }
    errors
}

/// What is wrong with `value` as the value of a label.
#[must_use]
pub fn check_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_len(LABEL_MAX));
    }
    if !value.is_empty() && !key_shape(value) {
        errors.push(VALUE_MSG.to_owned());
    }
    errors
}

/// A name from `base` (a `generateName`) and five random characters, at most 63 bytes together:
/// a longer base is cut.
#[must_use]
pub fn generate(base: &str) -> String {
    let mut end = base.len().min(LABEL_MAX - SUFFIX_LEN);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    let mut rng = rand::rng();
    for _ in 0..SUFFIX_LEN {
        name.push(char::from(SUFFIX_ALPHABET[rng.random_range(0..SUFFIX_ALPHABET.len())]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains() {
        for good in ["a", "a.b", "0-9.z", "9d3bd7b3-0f3b-4a4b-8a3f-1d7b0b7a5a11"] {
            assert!(check_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", ".", "..", "A", "a_b", "-a", "a-", "a..b", "a/b", "a%b", "é"] {
            assert_eq!(check_subdomain(bad).len(), 1, "{bad}");
        }
        assert!(check_subdomain(&"a".repeat(253)).is_empty());
        assert_eq!(check_subdomain(&"a".repeat(254)), ["must be no more than 253 bytes"]);
    }

    #[test]
    fn qualified_names() {
        for good in ["a", "A_b.c", "example.com/x", "kubernetes.io/metadata.name"] {
            assert!(check_qualified_name(good).is_empty(), "{good}");
        }
        assert_eq!(check_qualified_name("/x"), ["prefix part must be non-empty"]);
        assert_eq!(check_qualified_name("a/b/c").len(), 1);
        assert_eq!(check_qualified_name("").len(), 2);
        assert_eq!(check_qualified_name(&format!("UPPER/{}", "x".repeat(64))).len(), 2);
    }

    #[test]
    fn label_values() {
        for good in ["", "a", "A.b-c_d", "1"] {
            assert!(check_label_value(good).is_empty(), "{good}");
        }
        for bad in ["-", "a/b", " ", "a "] {
            assert_eq!(check_label_value(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn dns_labels() {
        assert!(check_dns_label("kube-system").is_empty());
        assert_eq!(check_dns_label("a.b"), ["must not contain dots"]);
        assert!(check_dns_label("A")[0].starts_with("a lowercase RFC 1123 label must"));
    }

    #[test]
    fn generated_names_fit_and_differ() {
        let name = generate("abc-");
        assert_eq!(name.len(), 9);
        assert!(name.starts_with("abc-"));
        assert!(check_subdomain(&name).is_empty());
        assert_ne!(name, generate("abc-"));
        let long = generate(&"a".repeat(300));
        assert_eq!(long.len(), 63);
        assert!(generate(&"é".repeat(40)).is_char_boundary(58));
    }
}
