//! Tokens of a label selector.

/// The kind of a piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Error,
    End,
    CloseParenthesis,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    OpenParenthesis,
}

/// A token with its text.
pub(super) type Item = (Token, String);

/// Splits a text into tokens; the last is always [`Token::End`].
///
/// Like the kube-apiserver's, it ends at a NUL character.
pub(super) fn scan(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = text.split('\0').next().unwrap_or_default();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else {
            break;
        };
        let (item, length) = if is_special(first) {
            symbol(rest)
        } else {
            word(rest)
        };
        items.push(item);
        rest = &rest[length..];
    }
    items.push((Token::End, String::new()));
    items
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn word(text: &str) -> (Item, usize) {
    let length = text
        .find(|c| is_special(c) || is_space(c))
        .unwrap_or(text.len());
    let word = &text[..length];
    let token = match word {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    };
    ((token, word.to_owned()), length)
}

/// Returns the longest symbol that begins here. All special characters but none in two or more that
/// is no symbol begin one, so that `Error` needs no more than the character itself.
fn symbol(text: &str) -> (Item, usize) {
    const SYMBOLS: [(&str, Token); 9] = [
        ("==", Token::DoubleEquals),
        ("!=", Token::NotEquals),
        ("=", Token::Equals),
        ("!", Token::Not),
        (">", Token::Greater),
        ("<", Token::Less),
        ("(", Token::OpenParenthesis),
        (")", Token::CloseParenthesis),
        (",", Token::Comma),
    ];
    SYMBOLS
        .iter()
        .find(|(symbol, _)| text.starts_with(symbol))
        .map_or_else(
            || ((Token::Error, text.to_owned()), text.len()),
            |(symbol, token)| ((*token, (*symbol).to_owned()), symbol.len()),
        )
}
