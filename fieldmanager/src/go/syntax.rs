//! The errors of Go's decoders about a text that is no JSON (`encoding/json/scanner.go`, of which
//! `sigs.k8s.io/json` has a copy).

use super::quote;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 10_000;

/// Returns the error of a text; none when it is JSON.
#[must_use]
pub fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner {
        state: State::Value { or_end: false },
        levels: Vec::new(),
    };
    let invalid =
        |byte: u8, place: &str| Some(format!("invalid character {} {place}", character(byte)));
    for byte in text {
        if let Err(place) = scanner.step(*byte) {
            return invalid(*byte, &place);
        }
    }
    if scanner.state == State::End {
        return None;
    }
    // The end is looked at as if a space stood there.
    match scanner.step(b' ') {
        Err(place) => invalid(b' ', &place),
        Ok(()) if scanner.state == State::End => None,
        Ok(()) => Some("unexpected end of JSON input".to_owned()),
    }
}

/// Returns a byte as a literal of Go.
fn character(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = quote(&char::from(byte).to_string());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

/// The state of the scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a value, or the end of an empty list.
    Value {
        or_end: bool,
    },
    /// Before a key, or the end of an empty object.
    Key {
        or_end: bool,
    },
    /// Behind a value or a key.
    Behind,
    /// Behind the outermost value.
    End,
    Text,
    Escape,
    /// Inside an escape, of which this many digits are missing.
    Hex(u8),
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// In a word, behind this many of its letters.
    Word(&'static str, usize),
}

/// The container that the scanner is within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Key,
    Member,
    Item,
}

struct Scanner {
    state: State,
    levels: Vec<Level>,
}

/// Nothing, or the error about a character that is not allowed.
type Step = Result<(), String>;

fn wrong(place: &str) -> Step {
    Err(place.to_owned())
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Step {
        match self.state {
            State::Value { or_end } => self.value(byte, or_end),
            State::Key { or_end } => self.key(byte, or_end),
            State::Behind => self.behind(byte),
            State::End if is_space(byte) => Ok(()),
            State::End => wrong("after top-level value"),
            State::Text | State::Escape | State::Hex(_) => self.text(byte),
            State::Word(word, read) => self.word(byte, word, read),
            _ => self.number(byte),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "what most steps end with")]
    fn turn(&mut self, state: State) -> Step {
        self.state = state;
        Ok(())
    }

    fn enter(&mut self, level: Level, state: State) -> Step {
        self.levels.push(level);
        if self.levels.len() > MAX_DEPTH {
            return wrong("exceeded max depth");
        }
        self.turn(state)
    }

    fn leave(&mut self) -> Step {
        self.levels.pop();
        self.turn(if self.levels.is_empty() {
            State::End
        } else {
            State::Behind
        })
    }

    fn value(&mut self, byte: u8, or_end: bool) -> Step {
        match byte {
            _ if is_space(byte) => Ok(()),
            b']' if or_end => self.leave(),
            b'{' => self.enter(Level::Key, State::Key { or_end: true }),
            b'[' => self.enter(Level::Item, State::Value { or_end: true }),
            b'"' => self.turn(State::Text),
            b'-' => self.turn(State::Minus),
            b'0' => self.turn(State::Zero),
            b'1'..=b'9' => self.turn(State::Digits),
            b't' => self.turn(State::Word("true", 1)),
            b'f' => self.turn(State::Word("false", 1)),
            b'n' => self.turn(State::Word("null", 1)),
            _ => wrong("looking for beginning of value"),
        }
    }

    fn key(&mut self, byte: u8, or_end: bool) -> Step {
        match byte {
            _ if is_space(byte) => Ok(()),
            b'}' if or_end => self.leave(),
            b'"' => self.turn(State::Text),
            _ => wrong("looking for beginning of object key string"),
        }
    }

    fn behind(&mut self, byte: u8) -> Step {
        let Some(level) = self.levels.last_mut() else {
            self.state = State::End;
            return self.step(byte);
        };
        match (*level, byte) {
            _ if is_space(byte) => self.turn(State::Behind),
            (Level::Key, b':') => {
                *level = Level::Member;
                self.turn(State::Value { or_end: false })
            }
            (Level::Member, b',') => {
                *level = Level::Key;
                self.turn(State::Key { or_end: false })
            }
            (Level::Item, b',') => self.turn(State::Value { or_end: false }),
            (Level::Member, b'}') | (Level::Item, b']') => self.leave(),
            (Level::Key, _) => wrong("after object key"),
            (Level::Member, _) => wrong("after object key:value pair"),
            (Level::Item, _) => wrong("after array element"),
        }
    }

    fn text(&mut self, byte: u8) -> Step {
        match (self.state, byte) {
            (State::Text, b'"') => self.turn(State::Behind),
            (State::Text, b'\\') => self.turn(State::Escape),
            (State::Text, 0..0x20) => wrong("in string literal"),
            (State::Text, _) => Ok(()),
            (State::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {
                self.turn(State::Text)
            }
            (State::Escape, b'u') => self.turn(State::Hex(4)),
            (State::Hex(1), _) if byte.is_ascii_hexdigit() => self.turn(State::Text),
            (State::Hex(missing), _) if byte.is_ascii_hexdigit() => {
                self.turn(State::Hex(missing - 1))
            }
            (State::Hex(_), _) => wrong("in \\u hexadecimal character escape"),
            _ => wrong("in string escape code"),
        }
    }

    fn word(&mut self, byte: u8, word: &'static str, read: usize) -> Step {
        let expected = word.as_bytes()[read];
        if byte != expected {
            let expected = char::from(expected);
            return Err(format!("in literal {word} (expecting '{expected}')"));
        }
        self.turn(if read + 1 == word.len() {
            State::Behind
        } else {
            State::Word(word, read + 1)
        })
    }

    fn number(&mut self, byte: u8) -> Step {
        let digit = byte.is_ascii_digit();
        match (self.state, byte) {
            (State::Minus, b'0') => self.turn(State::Zero),
            (State::Minus, _) if digit => self.turn(State::Digits),
            (State::Minus, _) => wrong("in numeric literal"),
            (State::Digits, _) if digit => Ok(()),
            (State::Zero | State::Digits, b'.') => self.turn(State::Point),
            (State::Point | State::Fraction, _) if digit => self.turn(State::Fraction),
            (State::Point, _) => wrong("after decimal point in numeric literal"),
            (State::Zero | State::Digits | State::Fraction, b'e' | b'E') => {
                self.turn(State::Exponent)
            }
            (State::Exponent, b'+' | b'-') => self.turn(State::ExponentSign),
            (State::Exponent | State::ExponentSign | State::ExponentDigits, _) if digit => {
                self.turn(State::ExponentDigits)
            }
            (State::Exponent | State::ExponentSign, _) => wrong("in exponent of numeric literal"),
            _ => self.behind(byte),
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("{}")]
    #[case(" [1, -0.5e+3, 0, \"a\\u00e9\\n\", true, false, null, {\"a\": []}] \n")]
    #[case("7")]
    #[case("\"\\ud800\"")]
    fn json_has_no_error(#[case] text: &str) {
        assert_eq!(syntax_error(text.as_bytes()), None);
    }

    /// Recorded from Go 1.26.
    #[rstest::rstest]
    #[case("", "unexpected end of JSON input")]
    #[case("{\"a\":1", "unexpected end of JSON input")]
    #[case("\"a", "unexpected end of JSON input")]
    #[case("nul", "invalid character ' ' in literal null (expecting 'l')")]
    #[case("[nope]", "invalid character 'o' in literal null (expecting 'u')")]
    #[case("-", "invalid character ' ' in numeric literal")]
    #[case(
        "{,}",
        "invalid character ',' looking for beginning of object key string"
    )]
    #[case(
        "{\"a\":1,}",
        "invalid character '}' looking for beginning of object key string"
    )]
    #[case("[1,]", "invalid character ']' looking for beginning of value")]
    #[case("{\"a\" 1}", "invalid character '1' after object key")]
    #[case("{\"a\":01}", "invalid character '1' after object key:value pair")]
    #[case("[01]", "invalid character '1' after array element")]
    #[case("{} x", "invalid character 'x' after top-level value")]
    #[case("'x'", r"invalid character '\'' looking for beginning of value")]
    #[case("[1.]", "invalid character ']' after decimal point in numeric literal")]
    #[case("[1ex]", "invalid character 'x' in exponent of numeric literal")]
    #[case("\"\\x\"", "invalid character 'x' in string escape code")]
    #[case(
        "\"\\u00g\"",
        "invalid character 'g' in \\u hexadecimal character escape"
    )]
    #[case("\"\t\"", r"invalid character '\t' in string literal")]
    #[case(
        "{1:2}",
        "invalid character '1' looking for beginning of object key string"
    )]
    #[case("\u{feff}{}", "invalid character 'ï' looking for beginning of value")]
    fn errors_are_those_of_go(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(expected));
    }

    #[test]
    fn nesting_is_bounded() {
        assert_eq!(
            syntax_error(&[b'['; 10_000]).as_deref(),
            Some("unexpected end of JSON input")
        );
        let deeper = syntax_error(&[b'['; 10_001]);
        assert_eq!(
            deeper.as_deref(),
            Some("invalid character '[' exceeded max depth")
        );
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_another_parser(text in r#"[\[\]{}:,"0-9.eE+a-c \\untrlfs-]{0,30}"#) {
            let parsed = serde_json::from_str::<&serde_json::value::RawValue>(&text);
            proptest::prop_assert_eq!(parsed.is_ok(), syntax_error(text.as_bytes()).is_none());
        }
    }
}
