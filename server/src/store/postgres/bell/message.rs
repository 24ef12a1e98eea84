//! What servers tell each other.

use std::fmt;

/// A message, as its text carries it: who it is from, and behind a space what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The server's name.
    pub from: u64,
    pub news: News,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Somebody is there.
    Present,
    /// Somebody is there, and asks who else is.
    Question,
    /// A commit with this seq.
    Commit(u64),
}

impl Message {
    /// Reads a text. Anybody with access to the database may send one, so it may be anything.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, news) = text.split_once(' ')?;
        Some(Self {
            from: u64::from_str_radix(from, 16).ok()?,
            news: match news {
                "present" => News::Present,
                "who" => News::Question,
                seq => News::Commit(seq.parse().ok()?),
            },
        })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x} ", self.from)?;
        match self.news {
            News::Present => f.write_str("present"),
            News::Question => f.write_str("who"),
            News::Commit(seq) => write!(f, "{seq}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_read() {
        for news in [News::Present, News::Question, News::Commit(u64::MAX)] {
            let message = Message {
                from: u64::MAX,
                news,
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
