//! The chart's README: a head, and a table of the values out of the comments above them.

const HEAD: &str = include_str!("files/README.head.md");

/// A value with a comment.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// The keys on the way to the value, joined by dots.
    path: String,
    /// The default of the value as it is written; empty where it spans lines.
    default: String,
    /// The comment above it.
    comment: String,
}

/// Returns the README for the text of `values.yaml`.
pub(super) fn readme(values: &str) -> String {
    let mut text = HEAD.to_owned();
    for row in rows(values) {
        let default = match row.default.as_str() {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let comment = row.comment.as_str();
        text.extend(["| `", &row.path, "` | ", &default, " | ", comment, " |\n"]);
    }
    text
}

/// Returns every key that has a comment right above it.
fn rows(values: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut keys: Vec<(usize, &str)> = Vec::new();
    for line in values.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(words) = content.strip_prefix('#') {
            comment.push(words.trim());
            continue;
        }
        if let Some((key, default)) = content.split_once(':') {
            keys.retain(|(above, _)| *above < indent);
            keys.push((indent, key));
            if !comment.is_empty() {
                let path: Vec<&str> = keys.iter().map(|(_, key)| *key).collect();
                rows.push(Row {
                    path: path.join("."),
                    default: default.trim().to_owned(),
                    comment: comment.join(" "),
                });
            }
        }
        comment.clear();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_belongs_to_the_key_below_it() {
        let values =
            "# Head.\n\n# All\n# of it.\na:\n  # One.\n  b: 1\n  c: 2\n# Two.\nd:\n  e: 3\n";
        let row = |path: &str, default: &str, comment: &str| Row {
            path: path.to_owned(),
            default: default.to_owned(),
            comment: comment.to_owned(),
        };
        let expected = [
            row("a", "", "All of it."),
            row("a.b", "1", "One."),
            row("d", "", "Two."),
        ];
        assert_eq!(rows(values), expected);
    }
}
