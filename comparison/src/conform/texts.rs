//! The parts of texts that differ from run to run: Status messages, warnings, YAML.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Returns a regular expression. `None` never happens: a test compiles them.
fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static UID: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"));
static YAML_VERSION: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex(r#"(resourceVersion: ")(\d+)(")"#));
static HASH: LazyLock<Option<Regex>> = LazyLock::new(|| regex("hash=[0-9A-F]{8,}"));
static TOO_OLD: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex(r"(too old resource version: \d+ \()(\d+)(\))"));
static SYNTAX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = "yaml: |error converting YAML|json: unsupported value|unsupported map key";
    regex(&format!(r"(?s)(\(must be of type \w+\): )({words}).*"))
});
static CURRENT: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"current: \d+"));
static MESSAGE_VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(r"((?i:resource ?version)[^0-9{}]{0,30}?|[Rr]esource version: [^ ]+ \()(\d+)()")
});

/// Replaces each uid by the result of `number`.
pub fn uids(text: &str, mut number: impl FnMut(&str) -> String) -> String {
    replace(UID.as_ref(), text, |found| number(&found[0]))
}

/// Replaces each time by the result of `mark`.
pub fn times(text: &str, mut mark: impl FnMut(&str) -> String) -> String {
    replace(TIME.as_ref(), text, |found| mark(&found[0]))
}

/// Leaves out the hashes in the addresses of documents.
pub fn hashes(text: &str) -> String {
    replace(HASH.as_ref(), text, |_| "hash=<hash>".to_owned())
}

/// Replaces each resourceVersion in YAML, and in messages about them. The version of a server
/// depends on other writes.
pub fn versions(text: &str, mark: impl Fn(&str) -> String) -> String {
    let change = |found: &Captures| format!("{}{}{}", &found[1], mark(&found[2]), &found[3]);
    let text = replace(YAML_VERSION.as_ref(), text, change);
    let text = replace(TOO_OLD.as_ref(), &text, change);
    let text = replace(CURRENT.as_ref(), &text, |_| "current: <rv>".to_owned());
    replace(MESSAGE_VERSION.as_ref(), &text, change)
}

fn replace(regex: Option<&Regex>, text: &str, change: impl FnMut(&Captures) -> String) -> String {
    match regex {
        Some(regex) => regex.replace_all(text, change).into_owned(),
        None => text.to_owned(),
    }
}

/// Replaces the random ends of names that begin with `prefix`.
#[must_use]
pub fn generated(text: &str, prefix: &str) -> String {
    let pattern = format!(
        "{}[bcdfghjklmnpqrstvwxz2456789]{{5}}",
        regex::escape(prefix)
    );
    replace(regex(&pattern).as_ref(), text, |_| {
        format!("{prefix}<suffix>")
    })
}

/// Sorts the errors of an object that has not the shape of its schema, which the kube-apiserver
/// finds in the order of a Go map.
#[must_use]
pub fn shape_errors(text: &str) -> String {
    const HEAD: &str = ": errors:\n";
    match text.split_once(HEAD) {
        Some((before, errors)) if errors.starts_with("  .") => {
            let mut errors: Vec<_> = errors.split('\n').collect();
            errors.sort_unstable();
            format!("{before}{HEAD}{}", errors.join("\n"))
        }
        _ => text.to_owned(),
    }
}

/// Leaves out the messages of Go's parsers of YAML, times and tokens about bad syntax, and the form
/// in which Go prints maps, whose order is random.
#[must_use]
pub fn parsers(text: &str) -> String {
    let mut text = text.to_owned();
    for head in [
        "error converting YAML to JSON: ",
        "continue key is not valid: ",
        "as \"2006-01-02T15:04:05Z07:00\": ",
    ] {
        if let Some((before, tail)) = text.split_once(head) {
            // These are Kubernetes' own words.
            let known = [
                "json: ",
                "server does not",
                "incorrect encoded",
                "encoded start",
            ];
            let keep = known.iter().any(|start| tail.starts_with(start));
            text = format!("{before}{head}{}", if keep { tail } else { "<syntax>" });
        }
    }
    text = replace(SYNTAX.as_ref(), &text, |found| {
        format!("{}<syntax>", &found[1])
    });
    if let Some((before, _)) = text.split_once(" in scheme") {
        text = format!("{before} in scheme");
    }
    text = cut(&text, "Invalid value: \"{", "}\"");
    cut(&text, "is missing in '{", "}'")
}

/// Returns the text without the part between the first `from` and the last `to` behind it.
#[must_use]
pub fn cut(text: &str, from: &str, to: &str) -> String {
    let Some((head, tail)) = text.split_once(from) else {
        return text.to_owned();
    };
    match tail.rsplit_once(to) {
        Some((_, end)) => format!("{head}{from}…{to}{end}"),
        None => text.to_owned(),
    }
}

/// Returns whether a cell of a table is the age of something.
#[must_use]
pub fn is_age(cell: &str) -> bool {
    let mut digits = false;
    !cell.is_empty()
        && cell.len() < 8
        && cell.chars().all(|c| {
            let unit = digits && matches!(c, 's' | 'm' | 'h' | 'd' | 'y');
            digits = c.is_ascii_digit();
            digits || unit
        })
        && cell.ends_with(['s', 'm', 'h', 'd', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_good() {
        for regex in [
            &UID,
            &TIME,
            &HASH,
            &YAML_VERSION,
            &TOO_OLD,
            &SYNTAX,
            &CURRENT,
            &MESSAGE_VERSION,
        ] {
            assert!(regex.is_some());
        }
    }

    #[rstest::rstest]
    #[case(
        "Too large resource version: 99, current: 12",
        "Too large resource version: N, current: <rv>"
    )]
    #[case(
        "too old resource version: 1 (1234)",
        "too old resource version: N (N)"
    )]
    #[case(
        "the ResourceVersion in the precondition (5) does not match the ResourceVersion in record (7).",
        "the ResourceVersion in the precondition (N) does not match the ResourceVersion in record (N)."
    )]
    #[case("  resourceVersion: \"77\"\n", "  resourceVersion: \"N\"\n")]
    #[case(
        "must be no more than 253 characters",
        "must be no more than 253 characters"
    )]
    fn versions_in_texts(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(versions(text, |_| "N".to_owned()), expected);
    }

    #[test]
    fn names_that_are_made_up() {
        assert_eq!(generated("a \"r-x7k2p\" b", "r-"), "a \"r-<suffix>\" b");
        assert_eq!(generated("r-aeiou", "r-"), "r-aeiou");
    }

    #[rstest::rstest]
    #[case("5s", true)]
    #[case("2m10s", true)]
    #[case("3d", true)]
    #[case("", false)]
    #[case("s", false)]
    #[case("12", false)]
    #[case("pods", false)]
    fn ages(#[case] cell: &str, #[case] age: bool) {
        assert_eq!(is_age(cell), age, "{cell}");
    }

    #[test]
    fn parsers_words_are_left_out() {
        assert_eq!(
            parsers("error converting YAML to JSON: yaml: line 2: no"),
            "error converting YAML to JSON: <syntax>"
        );
        assert_eq!(
            parsers("unrecognized (must be of type A): yaml: line 4: no\n x"),
            "unrecognized (must be of type A): <syntax>"
        );
        let kept = "error converting YAML to JSON: json: unsupported";
        assert_eq!(parsers(kept), kept);
        let kept = "json parse error: invalid character 'x'";
        assert_eq!(parsers(kept), kept);
        assert_eq!(
            parsers("Invalid value: \"{\\\"a\\\"}\": no"),
            "Invalid value: \"{…}\": no"
        );
    }
}
