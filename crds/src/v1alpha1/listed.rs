//! Constants that the documentation lists: each with what its comment says.

/// A constant, and what its comment says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The value of the constant.
    pub name: &'static str,
    /// The lines of its comment.
    pub comment: &'static [&'static str],
}

impl Listed {
    /// Returns the comment as one paragraph.
    #[must_use]
    pub fn meaning(&self) -> String {
        let words = self.comment.iter().flat_map(|line| line.split_whitespace());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Defines constants as they are written, and `ALL`, the list of them with their comments.
macro_rules! listed {
    ($($(#[doc = $line:literal])+ pub const $name:ident: &str = $value:literal;)+) => {
        $($(#[doc = $line])+ pub const $name: &str = $value;)+

        /// Every one of them, in the order in which they are defined, with its comment.
        pub const ALL: &[$crate::v1alpha1::listed::Listed] = &[
            $($crate::v1alpha1::listed::Listed { name: $value, comment: &[$($line),+] }),+
        ];
    };
}
pub(crate) use listed;

#[cfg(test)]
mod tests {
    mod shown {
        listed! {
            /// Is one
            /// of two.
            pub const ONE: &str = "One";
            /// Is the other.
            pub const OTHER: &str = "Other";
        }
    }

    #[test]
    fn a_list_has_every_constant_with_its_comment() {
        let listed: Vec<(&str, String)> = shown::ALL
            .iter()
            .map(|listed| (listed.name, listed.meaning()))
            .collect();
        let expected = [("One", "Is one of two."), ("Other", "Is the other.")];
        let expected = expected.map(|(name, meaning)| (name, meaning.to_owned()));
        assert_eq!(listed, expected);
        assert_eq!((shown::ONE, shown::OTHER), ("One", "Other"));
    }
}
