//! The messages between servers.

use std::fmt;

/// A message, as its text carries it: the sender, and behind a space the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The server's name.
    pub from: u64,
    pub kind: MessageKind,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A server is there.
    Present,
    /// A server is there, and asks for the others.
    Question,
    /// A commit with this seq.
    Commit(u64),
}

impl Message {
    /// Reads a text. Anybody with access to the database may send one, so it may be anything.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, kind) = text.split_once(' ')?;
        Some(Self {
            from: u64::from_str_radix(from, 16).ok()?,
            kind: match kind {
                "present" => MessageKind::Present,
                "who" => MessageKind::Question,
                seq => MessageKind::Commit(seq.parse().ok()?),
            },
        })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x} ", self.from)?;
        match self.kind {
            MessageKind::Present => f.write_str("present"),
            MessageKind::Question => f.write_str("who"),
            MessageKind::Commit(seq) => write!(f, "{seq}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_read() {
        for kind in [
            MessageKind::Present,
            MessageKind::Question,
            MessageKind::Commit(u64::MAX),
        ] {
            let message = Message {
                from: u64::MAX,
                kind,
            };
            assert_eq!(Message::parse(&message.to_string()), Some(message));
        }
    }

    #[test]
    fn texts_of_strangers_are_nothing() {
        for text in [
            "",
            "1",
            "x 1",
            "1 -1",
            "1 1 1",
            " 1",
            "1 18446744073709551616",
        ] {
            assert_eq!(Message::parse(text), None, "{text}");
        }
    }
}
