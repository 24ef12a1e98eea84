//! Marks such as `@NAMESPACE@` in the files of a way, and the texts in their places.

/// A mark, and the text in its place.
pub(super) type Mark = (&'static str, String);

/// Returns a text with its marks filled in.
pub(super) fn filled(text: &str, marks: &[Mark]) -> String {
    marks.iter().fold(text.to_owned(), |text, (mark, with)| {
        text.replace(mark, with)
    })
}

/// Returns the lines of a text, each behind `spaces` spaces.
pub(super) fn indented(text: &str, spaces: usize) -> String {
    let before = " ".repeat(spaces);
    let mut indented = String::new();
    for line in text.lines() {
        indented.extend([before.as_str(), line, "\n"]);
    }
    indented
}
