//! Names of managers.

use crate::go;

/// Most bytes of a name.
pub const MAX_NAME_LENGTH: usize = 128;

/// Most bytes of a name that are repeated for the characters in it, unless it is longer itself: all
/// are reported of a name that is not too long.
const REPEATED: usize = MAX_NAME_LENGTH * MAX_NAME_LENGTH;

/// The fault of the parameter `fieldManager`; the text is the part after the name of the field in
/// the kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Apply needs a name.
    #[error("Required value: is required for apply patch")]
    Missing,
    /// The name is too long.
    #[error("Too long: may not be more than {MAX_NAME_LENGTH} bytes")]
    TooLong,
    /// A character is not printable.
    #[error(
        "Invalid value: {}: invalid character U+{:04X} (at position {position})",
        go::quote(name),
        u32::from(*character)
    )]
    Unprintable {
        /// The name.
        name: String,
        /// The character.
        character: char,
        /// The position of the character, in bytes.
        position: usize,
    },
}

/// Returns the faults of a name that a client has set; empty means that it has set none, which only
/// apply does not allow. Not every character of a name that is far too long is reported.
#[must_use]
pub fn check_name(name: &str, is_apply: bool) -> Vec<NameError> {
    let missing = (is_apply && name.is_empty()).then_some(NameError::Missing);
    let too_long = (name.len() > MAX_NAME_LENGTH).then_some(NameError::TooLong);
    let unprintable = name
        .char_indices()
        .filter(|(_, character)| !go::is_print(*character))
        .map(|(position, character)| NameError::Unprintable {
            name: name.to_owned(),
            character,
            position,
        })
        .take((REPEATED / name.len().max(1)).max(1));
    missing
        .into_iter()
        .chain(too_long)
        .chain(unprintable)
        .collect()
}

/// Returns the name of a client that has set none: its user agent up to the first slash, without
/// characters that are not printable, and not longer than a name may be.
#[must_use]
pub fn name_of_user_agent(user_agent: &str) -> String {
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in product.chars().filter(|character| go::is_print(*character)) {
        if name.len() + character.len_utf8() > MAX_NAME_LENGTH {
            break;
        }
        name.push(character);
    }
    name
}
