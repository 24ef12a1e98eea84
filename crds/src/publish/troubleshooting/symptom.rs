//! The parts of the page: symptoms, and the advice about each reason.

use crate::v1alpha1::conditions;

/// A symptom that makes people look for a reason.
pub struct Symptom {
    /// The heading of its section.
    pub title: &'static str,
    /// A paragraph about it.
    pub text: &'static str,
    /// The reasons that belong to it.
    pub reasons: &'static [Advice],
}

/// The advice about a reason, besides its meaning.
pub struct Advice {
    /// The reason.
    pub reason: &'static str,
    /// The places where it is met.
    pub seen: &'static [Seen],
    /// The remedy, in sentences.
    pub remedy: &'static str,
}

impl Advice {
    /// Returns what to do about a reason, and where it is met.
    pub const fn new(reason: &'static str, seen: &'static [Seen], remedy: &'static str) -> Self {
        Self {
            reason,
            seen,
            remedy,
        }
    }
}

/// A place where a reason is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// In a condition that is `True`.
    True(&'static str),
    /// In a condition that is `False`.
    False(&'static str),
    /// In a condition that is `Unknown`.
    Unknown(&'static str),
    /// In `Stalled`, and in `Ready`, which is `False` then.
    Stalled,
    /// Nowhere by its name: `Ready` is `False` as `Progressing`, with the message.
    Message,
    /// In an event alone.
    Event,
}

impl Seen {
    /// Returns the conditions in which a reason is met here, with their status.
    pub fn conditions(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::True(type_) => vec![(type_, "True")],
            Self::False(type_) => vec![(type_, "False")],
            Self::Unknown(type_) => vec![(type_, "Unknown")],
            Self::Stalled => vec![(conditions::STALLED, "True"), (conditions::READY, "False")],
            Self::Message | Self::Event => Vec::new(),
        }
    }

    /// Returns the words for where it is met.
    pub fn words(self) -> String {
        match self {
            Self::True(type_) => format!("`{type_}` True"),
            Self::False(type_) => format!("`{type_}` False"),
            Self::Unknown(type_) => format!("`{type_}` Unknown"),
            Self::Stalled => "`Stalled`".to_owned(),
            Self::Message => "the message of `Ready`".to_owned(),
            Self::Event => "event".to_owned(),
        }
    }
}
