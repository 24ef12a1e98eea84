//! Syntax of names, label keys and label values, with the kube-apiserver's messages for errors.
//!
//! The rules and texts are those of `k8s.io/apimachinery/pkg/api/validate/content` 1.36. Each
//! function returns every reason, none when the text is right.

const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
                              start and end with an alphanumeric character";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
                                characters, '-', '_' or '.', and must start and end with an \
                                alphanumeric character";
const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
                              characters or '-', and must start and end with an alphanumeric \
                              character";
const DNS_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
                                  alphanumeric characters, '-' or '.', and must start and end \
                                  with an alphanumeric character";

const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS_1035_LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric \
                                   characters or '-', start with an alphabetic character, and end \
                                   with an alphanumeric character";

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// Returns the errors of a label or annotation key, or a finalizer: `[prefix/]name`.
#[must_use]
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let (prefix, name) = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            let rule = rule(LABEL_KEY_RULE, LABEL_KEY, &examples);
            let prefixed =
                "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {rule} {prefixed}")];
        }
    };
    let mut errors = Vec::new();
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => errors.extend(
            dns_subdomain_errors(prefix)
                .into_iter()
                .map(|error| format!("prefix part {error}")),
        ),
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", too_long(LABEL_MAX)));
    }
    if !is_label_text(name) {
        errors.push(format!(
            "name part {}",
            rule(LABEL_KEY_RULE, LABEL_KEY, &examples)
        ));
    }
    errors
}

/// Returns the errors of a label value, which may be empty.
#[must_use]
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX));
    }
    if !text.is_empty() && !is_label_text(text) {
        errors.push(rule(
            LABEL_VALUE_RULE,
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// Returns the errors of a DNS-1123 label: a namespace's name.
#[must_use]
pub fn dns_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX));
    }
    if !is_dns_label(text) {
        errors.push(if is_dns_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            rule(DNS_LABEL_RULE, DNS_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// Returns the errors of a DNS-1035 label: a kind in lower case.
#[must_use]
pub fn dns_1035_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX));
    }
    if !is_dns_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        errors.push(rule(
            DNS_1035_LABEL_RULE,
            DNS_1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// Returns the errors of a DNS-1123 subdomain: the name of a custom resource's object.
#[must_use]
pub fn dns_subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_dns_subdomain(text) {
        errors.push(rule(DNS_SUBDOMAIN_RULE, DNS_SUBDOMAIN, &["example.com"]));
    }
    errors
}

fn is_label_text(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

pub(super) fn is_dns_label(text: &str) -> bool {
    let end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}

pub(super) fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn rule(words: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: String = examples
        .iter()
        .map(|example| format!("'{example}', "))
        .collect::<Vec<_>>()
        .join(" or ");
    format!("{words} (e.g. {examples}regex used for validation is '{pattern}')")
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;
    use rstest::rstest;

    #[rstest]
    #[case("app")]
    #[case("app.kubernetes.io/managed-by")]
    #[case("A_b-c.9")]
    #[case("audit.kyverno.io/resource.uid")]
    fn right_keys(#[case] key: &str) {
        assert_eq!(qualified_name_errors(key), Vec::<String>::new());
    }

    #[rstest]
    #[case(
        "",
        "name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )]
    #[case(
        "a/b/c",
        "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    )]
    #[case("/a", "prefix part must be non-empty")]
    #[case(
        "A/a",
        "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )]
    fn wrong_keys(#[case] key: &str, #[case] expected: &str) {
        assert_eq!(qualified_name_errors(key).join("; "), expected);
    }

    #[test]
    fn lengths_are_bounded() {
        let long = "a".repeat(64);
        assert_eq!(
            qualified_name_errors(&long),
            ["name part must be no more than 63 bytes"]
        );
        assert_eq!(label_value_errors(&long), ["must be no more than 63 bytes"]);
        assert_eq!(dns_label_errors(&long), ["must be no more than 63 bytes"]);
        assert_eq!(
            dns_subdomain_errors(&"a".repeat(254)),
            ["must be no more than 253 bytes"]
        );
        assert_eq!(dns_label_errors("a.b"), ["must not contain dots"]);
    }

    proptest::proptest! {
        #[test]
        fn hand_written_checks_equal_the_published_patterns(text in "[-a-zA-Z0-9_./ä]{0,12}") {
            let matches = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(&text);
            assert_eq!(is_label_text(&text), matches(LABEL_KEY));
            assert_eq!(label_value_errors(&text).is_empty(), matches(LABEL_VALUE));
            assert_eq!(is_dns_label(&text), matches(DNS_LABEL));
            assert_eq!(is_dns_subdomain(&text), matches(DNS_SUBDOMAIN));
            assert_eq!(dns_1035_label_errors(&text).is_empty(), matches(DNS_1035_LABEL));
        }
    }
}
