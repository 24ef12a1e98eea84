//! A check whether libyaml can be trusted with a text.
//!
//! For each token libyaml looks at every bracket that is open, and the parser that is built on it
//! takes in the whole text before it counts levels: three megabytes of `{a: ` would keep a thread
//! busy for an hour. So the levels are counted first, in one pass, by the rules of libyaml's
//! scanner (`scanner.c` of 0.2.5), whose names the functions here have. An error of that scanner is
//! passed over: the parser stops at it, so that nothing behind it costs anything.

use crate::schema::depth::MAX_DEPTH;

/// Most levels, as many as the parser of JSON reads: `managedFields` may be deeper than the fields
/// that they describe, for which [`MAX_DEPTH`] is counted while the text is read.
pub(super) const MOST_LEVELS: usize = 127;
/// Most directives: libyaml compares each with all others, and each tag with all of them.
const MAX_DIRECTIVES: usize = 100;
/// Longest distance of a key from its colon, in bytes.
const KEY_LENGTH: usize = 1024;

/// The reason why a text is not parsed; in the words of Go's parser, which has such bounds, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    /// Nested too deeply, in this line, counted from zero.
    #[error("{at}exceeded max depth of {most}", at = place(*.0), most = MAX_DEPTH)]
    Levels(usize),
    /// Too many directives.
    #[error("{at}exceeded max number of directives of {most}", at = place(*.0), most = MAX_DIRECTIVES)]
    Directives(usize),
}

/// Returns the line for an error of Go's parser, which names none when it is the first.
fn place(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!("line {}: ", line + 1),
    }
}

/// Checks a text.
///
/// # Errors
/// If it must not be parsed.
pub fn check(text: &[u8]) -> Result<(), TooMuch> {
    let mut scanner = Scanner::new(text);
    while scanner.next_token() {
        if scanner.levels() > MOST_LEVELS {
            return Err(TooMuch::Levels(scanner.line));
        }
        if scanner.directives > MAX_DIRECTIVES {
            return Err(TooMuch::Directives(scanner.line));
        }
    }
    Ok(())
}

/// A token that is a key of a block mapping, when a colon follows.
#[derive(Clone, Copy)]
struct Key {
    at: usize,
    line: usize,
    column: usize,
}

/// The state of the scanner.
pub(super) struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    /// The column, in characters.
    column: usize,
    /// Number of brackets and braces that are open.
    flow: usize,
    /// Columns of the block collections that are open.
    indents: Vec<usize>,
    key: Option<Key>,
    key_allowed: bool,
    directives: usize,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            at: 0,
            line: 0,
            column: 0,
            flow: 0,
            indents: Vec::new(),
            key: None,
            key_allowed: true,
            directives: 0,
        }
    }

    /// Returns the number of collections that are open. Lists in the column of their key are not
    /// among them.
    pub fn levels(&self) -> usize {
        self.flow + self.indents.len()
    }

    /// Goes behind the next token; returns false at the end.
    pub fn next_token(&mut self) -> bool {
        self.skip_to_next_token();
        self.unroll_indent(self.column);
        match self.byte(0) {
            0 => return false,
            b'%' if self.column == 0 => self.directive(),
            _ if self.at_document_indicator() => self.document_indicator(),
            b'[' | b'{' => self.flow_collection_start(),
            b']' | b'}' => self.flow_collection_end(),
            b',' => self.flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.block_entry(),
            b'?' if self.flow > 0 || self.is_blank_or_end(1) => self.explicit_key(),
            b':' if self.flow > 0 || self.is_blank_or_end(1) => self.value(),
            b'*' | b'&' => self.anchor(),
            b'!' => self.tag(),
            b'|' | b'>' if self.flow == 0 => self.block_scalar(),
            b'\'' => self.single_quoted(),
            b'"' => self.double_quoted(),
            // No token begins with these.
            b'\t' | b'|' | b'>' | b'%' | b'@' | b'`' => self.skip(),
            _ => self.plain_scalar(),
        }
        true
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn is_blank(&self) -> bool {
        matches!(self.byte(0), b' ' | b'\t')
    }

    /// Returns the bytes of the line break there; 0 for none.
    fn line_break(&self, ahead: usize) -> usize {
        match self.text.get(self.at + ahead..).unwrap_or_default() {
            [b'\r', b'\n', ..] | [0xc2, 0x85, ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
            _ => 0,
        }
    }

    fn is_break_or_end(&self) -> bool {
        self.byte(0) == 0 || self.line_break(0) > 0
    }

    fn is_blank_or_end(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t' | 0) || self.line_break(ahead) > 0
    }

    /// Goes behind a character.
    fn skip(&mut self) {
        let width = match self.byte(0) {
            0xf0.. => 4,
            0xe0.. => 3,
            0xc0.. => 2,
            _ => 1,
        };
        self.at = (self.at + width).min(self.text.len());
        self.column += 1;
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while wanted(self.byte(0)) {
            self.skip();
        }
    }

    fn skip_line(&mut self) {
        self.at += self.line_break(0);
        self.line += 1;
        self.column = 0;
    }

    fn skip_to_line_end(&mut self) {
        while !self.is_break_or_end() {
            self.skip();
        }
    }

    fn at_document_indicator(&self) -> bool {
        let here = self.text.get(self.at..).unwrap_or_default();
        self.column == 0
            && (here.starts_with(b"---") || here.starts_with(b"..."))
            && self.is_blank_or_end(3)
    }

    fn skip_to_next_token(&mut self) {
        loop {
            if self.column == 0 && self.text[self.at..].starts_with(b"\xef\xbb\xbf") {
                self.skip();
            }
            let tabs = self.flow > 0 || !self.key_allowed;
            self.skip_while(|byte| byte == b' ' || (tabs && byte == b'\t'));
            if self.byte(0) == b'#' {
                self.skip_to_line_end();
            }
            if self.line_break(0) == 0 {
                return;
            }
            self.skip_line();
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    /// Opens a block collection in this column, unless one is open there.
    fn roll_indent(&mut self, column: usize) {
        if self.flow == 0 && self.indents.last().is_none_or(|indent| *indent < column) {
            self.indents.push(column);
        }
    }

    /// Closes the block collections that are further to the right.
    fn unroll_indent(&mut self, column: usize) {
        while self.flow == 0 && self.indents.last().is_some_and(|indent| *indent > column) {
            self.indents.pop();
        }
    }

    fn unroll_all(&mut self) {
        if self.flow == 0 {
            self.indents.clear();
        }
    }

    /// Notes a key. Keys within brackets open no collection, so that they need not be known.
    fn save_simple_key(&mut self) {
        if self.flow == 0 && self.key_allowed {
            self.key = Some(Key {
                at: self.at,
                line: self.line,
                column: self.column,
            });
        }
    }

    fn remove_simple_key(&mut self) {
        if self.flow == 0 {
            self.key = None;
        }
    }

    fn directive(&mut self) {
        self.unroll_all();
        self.remove_simple_key();
        self.key_allowed = false;
        self.directives += 1;
        self.skip_to_line_end();
        if self.line_break(0) > 0 {
            self.skip_line();
        }
    }

    fn document_indicator(&mut self) {
        self.unroll_all();
        self.remove_simple_key();
        self.key_allowed = false;
        for _ in 0..3 {
            self.skip();
        }
    }

    fn flow_collection_start(&mut self) {
        self.save_simple_key();
        self.flow += 1;
        self.key_allowed = true;
        self.skip();
    }

    fn flow_collection_end(&mut self) {
        self.remove_simple_key();
        self.flow = self.flow.saturating_sub(1);
        self.key_allowed = false;
        self.skip();
    }

    fn flow_entry(&mut self) {
        self.remove_simple_key();
        self.key_allowed = true;
        self.skip();
    }

    fn block_entry(&mut self) {
        self.roll_indent(self.column);
        self.remove_simple_key();
        self.key_allowed = true;
        self.skip();
    }

    fn explicit_key(&mut self) {
        self.roll_indent(self.column);
        self.remove_simple_key();
        self.key_allowed = self.flow == 0;
        self.skip();
    }

    fn value(&mut self) {
        let (line, at) = (self.line, self.at);
        let near = |key: &Key| key.line == line && key.at + KEY_LENGTH >= at;
        let key = if self.flow == 0 {
            self.key.take().filter(near)
        } else {
            None
        };
        self.roll_indent(key.map_or(self.column, |key| key.column));
        self.key_allowed = self.flow == 0 && key.is_none();
        self.skip();
    }

    fn anchor(&mut self) {
        self.save_simple_key();
        self.key_allowed = false;
        self.skip();
        self.skip_while(is_alpha);
    }

    fn tag(&mut self) {
        self.save_simple_key();
        self.key_allowed = false;
        let verbatim = self.byte(1) == b'<';
        self.skip();
        if verbatim {
            self.skip();
        }
        self.skip_while(|byte| is_uri(byte) || (verbatim && matches!(byte, b',' | b'[' | b']')));
        if verbatim && self.byte(0) == b'>' {
            self.skip();
        }
    }

    fn block_scalar(&mut self) {
        self.remove_simple_key();
        self.key_allowed = true;
        self.skip();
        let mut indent = self.block_scalar_header();
        self.skip_to_line_end();
        if self.line_break(0) > 0 {
            self.skip_line();
        }
        self.block_scalar_breaks(&mut indent);
        while self.column == indent && self.byte(0) != 0 {
            self.skip_to_line_end();
            if self.line_break(0) > 0 {
                self.skip_line();
            }
            self.block_scalar_breaks(&mut indent);
        }
    }

    /// Returns the indentation that the head of a block scalar has; 0 where the text shows it.
    fn block_scalar_header(&mut self) -> usize {
        let mut indent = 0;
        for _ in 0..2 {
            match self.byte(0) {
                digit @ b'1'..=b'9' if indent == 0 => {
                    let around = self.indents.last().copied().unwrap_or(0);
                    indent = around + usize::from(digit - b'0');
                    self.skip();
                }
                b'+' | b'-' => self.skip(),
                _ => {}
            }
        }
        indent
    }

    fn block_scalar_breaks(&mut self, indent: &mut usize) {
        let mut widest = 0;
        loop {
            while (*indent == 0 || self.column < *indent) && self.byte(0) == b' ' {
                self.skip();
            }
            widest = widest.max(self.column);
            if self.line_break(0) == 0 {
                break;
            }
            self.skip_line();
        }
        if *indent == 0 {
            let least = self.indents.last().map_or(0, |indent| indent + 1);
            *indent = widest.max(least).max(1);
        }
    }

    fn single_quoted(&mut self) {
        self.quoted(|scanner| match (scanner.byte(0), scanner.byte(1)) {
            (b'\'', b'\'') => Some(2),
            (b'\'', _) => None,
            _ => Some(1),
        });
    }

    fn double_quoted(&mut self) {
        self.quoted(|scanner| match scanner.byte(0) {
            // A break behind a backslash is skipped as any other.
            b'\\' if scanner.line_break(1) == 0 => Some(2),
            b'"' => None,
            _ => Some(1),
        });
    }

    /// Goes behind a quoted text; `next` returns the number of characters to go on by.
    fn quoted(&mut self, next: impl Fn(&Self) -> Option<usize>) {
        self.save_simple_key();
        self.key_allowed = false;
        self.skip();
        while self.byte(0) != 0 {
            if self.line_break(0) > 0 {
                self.skip_line();
                continue;
            }
            let Some(characters) = next(self) else {
                return self.skip();
            };
            for _ in 0..characters {
                self.skip();
            }
        }
    }

    fn plain_scalar(&mut self) {
        self.save_simple_key();
        self.key_allowed = false;
        let indent = self.indents.last().map_or(0, |indent| indent + 1);
        let mut new_line = false;
        while !self.at_document_indicator() && self.byte(0) != b'#' {
            while !self.is_blank_or_end(0) && !self.ends_plain() {
                new_line = false;
                self.skip();
            }
            if !self.is_blank() && self.line_break(0) == 0 {
                break;
            }
            while self.is_blank() || self.line_break(0) > 0 {
                if self.is_blank() {
                    self.skip();
                } else {
                    self.skip_line();
                    new_line = true;
                }
            }
            if self.flow == 0 && self.column < indent {
                break;
            }
        }
        if new_line {
            self.key_allowed = true;
        }
    }

    /// Returns whether a plain text ends here, and a token begins.
    fn ends_plain(&self) -> bool {
        match self.byte(0) {
            b':' if self.is_blank_or_end(1) => true,
            // An error in libyaml.
            b':' => {
                self.flow > 0 && matches!(self.byte(1), b',' | b'?' | b'[' | b']' | b'{' | b'}')
            }
            b',' | b'[' | b']' | b'{' | b'}' => self.flow > 0,
            _ => false,
        }
    }
}

fn is_alpha(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_uri(byte: u8) -> bool {
    is_alpha(byte) || (byte != 0 && b";/?:@&=+$.%!~*'()".contains(&byte))
}
