//! The differences between both sides.

use std::fmt;

use similar::{ChangeTag, TextDiff};

use super::normalise::Shown;

/// The place in a case where something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At a step, from 1.
    Step(usize),
    /// In the watch that runs beside the whole case.
    Events,
    /// In the list at the end.
    Final,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(number) => write!(formatter, "step {number}"),
            Self::Events => formatter.write_str("events"),
            Self::Final => formatter.write_str("final"),
        }
    }
}

/// A difference between the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the case, and of its row.
    pub case: String,
    /// The kind on which it was run, and the way in which it was run.
    pub variant: String,
    /// The place in the case.
    pub place: Place,
    /// The request.
    pub asked: String,
    /// Lines that only the CRD's side has.
    pub crd: String,
    /// Lines that only our side has.
    pub ours: String,
    /// Both texts, with some lines around the differences.
    pub diff: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "case {} ({}), {}: {}",
            self.case, self.variant, self.place, self.asked
        )?;
        formatter.write_str(&self.diff)
    }
}

/// Returns the difference of two texts; `None` where there is none.
#[must_use]
pub fn difference(crd: &str, ours: &str) -> Option<(String, String, String)> {
    if crd == ours {
        return None;
    }
    let diff = TextDiff::from_lines(crd, ours);
    let of = |tag: ChangeTag| {
        let changes = diff.iter_all_changes().filter(|change| change.tag() == tag);
        changes.map(|change| change.to_string()).collect::<String>()
    };
    let shown = diff
        .unified_diff()
        .context_radius(3)
        .header("crd", "ours")
        .to_string();
    Some((of(ChangeTag::Delete), of(ChangeTag::Insert), shown))
}

/// Returns whether both have the same content in another form: order of keys, ways to write a
/// number.
#[must_use]
pub fn only_form_differs(crd: &Shown, ours: &Shown) -> bool {
    crd.text == ours.text && crd.form != ours.form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_none() {
        assert_eq!(difference("a\n", "a\n"), None);
    }

    #[test]
    fn sides_are_told_apart() {
        let (crd, ours, diff) = difference("200\na\nb\n", "200\na\nc\n").unwrap();
        assert_eq!((crd.as_str(), ours.as_str()), ("b\n", "c\n"));
        assert!(diff.contains("-b\n+c\n"), "{diff}");
        assert!(diff.contains(" a\n"), "{diff}");
    }
}
