//! The openings of doc comments. A comment says what its item is or does ("The …", "Returns …");
//! one that begins with a question, or with a word for another item, does not.

use std::fmt;
use std::path::{Path, PathBuf};

/// Words that no doc comment begins with.
const FORBIDDEN: [&str; 7] = ["How", "Its", "What", "When", "Where", "Whether", "Why"];
/// The beginnings of lines of doc comments: for the item below, and for the one around.
const MARKERS: [&str; 2] = ["///", "//!"];

/// A doc comment that begins with a forbidden word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Path of the file from the root of the workspace.
    pub path: PathBuf,
    /// Number of the comment's first line.
    pub line: usize,
    /// The word.
    pub word: String,
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.word)
    }
}

/// Returns the doc comments in the text of a source file that begin with a forbidden word. Lines
/// are read, not syntax: arguments of macros have comments too.
#[must_use]
pub fn forbidden(path: &Path, text: &str) -> Vec<Opening> {
    let mut found = Vec::new();
    let mut before = None;
    for (index, line) in text.lines().enumerate() {
        let doc = doc_line(line);
        let marker = doc.map(|(marker, _)| marker);
        if marker != before {
            let word = doc.and_then(|(_, said)| forbidden_word(said));
            found.extend(word.map(|word| Opening {
                path: path.to_owned(),
                line: index + 1,
                word: word.to_owned(),
            }));
        }
        before = marker;
    }
    found
}

/// Returns the marker of a line of a doc comment, and the text behind it. More than three slashes
/// are an ordinary comment.
fn doc_line(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    if line.starts_with("////") {
        return None;
    }
    MARKERS
        .into_iter()
        .find_map(|marker| line.strip_prefix(marker).map(|said| (marker, said)))
}

/// Returns the first word of a text, where it is forbidden.
fn forbidden_word(said: &str) -> Option<&str> {
    let said = said.trim_start();
    let end = said.find(|c: char| !c.is_alphabetic());
    let word = &said[..end.unwrap_or(said.len())];
    FORBIDDEN
        .iter()
        .any(|forbidden| forbidden.eq_ignore_ascii_case(word))
        .then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let openings = forbidden(Path::new("a.rs"), text);
        openings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_forbidden_word_is_found() {
        for word in ["How", "Its", "What", "When", "Where", "Whether", "Why"] {
            let text = format!("/// {word} it is.\nfn f() {{}}\n");
            assert_eq!(found(&text), [format!("a.rs:1: {word}")]);
        }
    }

    #[test]
    fn comments_of_modules_and_members_are_read() {
        let text = "//! What is.\n\nstruct A {\n    /// why: so.\n    ///What for.\n    a: u8,\n}";
        assert_eq!(found(text), ["a.rs:1: What", "a.rs:4: why"]);
    }

    #[test]
    fn a_comment_begins_where_another_kind_ends() {
        assert_eq!(found("//! The module.\n/// What it is."), ["a.rs:2: What"]);
        assert_eq!(found("/// The one.\n\n///Whether."), ["a.rs:3: Whether"]);
    }

    #[test]
    fn other_text_is_allowed() {
        for text in [
            "/// Returns what is there.",
            "/// The way.\n/// What follows is the second line.",
            "/// The way.\n///\n/// Where it is.",
            "/// Whatever is asked.",
            "/// However it is.",
            "/// It's an item.",
            "/// `What` is a name.",
            "/// 1",
            "///",
            "// What is an ordinary comment.",
            "//// What is one too.",
            "fn f() {} /// Why not.",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
