//! Takes Kubernetes' protobuf apart without knowing its messages.

/// The bytes that Kubernetes writes in front of a message.
const MAGIC: &[u8] = b"k8s\0";

/// One field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The number of the field.
    pub number: u64,
    /// The value of the field.
    pub value: Wire,
}

/// A value, as far as its type is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
    /// A message.
    Message(Vec<Field>),
    /// Bytes that are nothing else.
    Bytes(Vec<u8>),
}

/// Returns the fields of a message with Kubernetes' mark in front; `None` where it is something
/// else.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Vec<Field>> {
    message(bytes.strip_prefix(MAGIC)?)
}

/// A value that may be shown in another way.
#[derive(Clone, Copy, Debug)]
pub enum Plain<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a str),
}

/// Shows fields, a line each; `plain` returns the text of each value.
pub fn show(fields: &[Field], plain: &mut impl FnMut(Plain) -> String) -> String {
    let mut out = String::new();
    lines(fields, 0, plain, &mut out);
    out
}

fn lines(
    fields: &[Field],
    depth: usize,
    plain: &mut impl FnMut(Plain) -> String,
    out: &mut String,
) {
    for field in fields {
        let head = format!("{:depth$}{}:", "", field.number, depth = depth * 2);
        let tail = match &field.value {
            Wire::Number(number) => format!(" {}", plain(Plain::Number(*number))),
            Wire::Text(value) => format!(" {:?}", plain(Plain::Text(value))),
            Wire::Bytes(bytes) => format!(" {bytes:02x?}"),
            Wire::Message(_) => String::new(),
        };
        out.extend([head.as_str(), &tail, "\n"]);
        if let Wire::Message(inner) = &field.value {
            lines(inner, depth + 1, plain, out);
        }
    }
}

/// Returns the fields of a message; `None` where it is something else.
#[must_use]
pub fn message(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes)?;
        let value = match key & 7 {
            0 => Wire::Number(number(&mut bytes)?),
            1 => Wire::Bytes(take(&mut bytes, 8)?.to_vec()),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                delimited(take(&mut bytes, length)?)
            }
            5 => Wire::Bytes(take(&mut bytes, 4)?.to_vec()),
            _ => return None,
        };
        let number = key >> 3;
        if number == 0 {
            return None;
        }
        fields.push(Field { number, value });
    }
    Some(fields)
}

/// Returns a text where it can be read, else a message or another one with its mark.
fn delimited(bytes: &[u8]) -> Wire {
    if let Some(inner) = parse(bytes) {
        return Wire::Message(inner);
    }
    let text = std::str::from_utf8(bytes).ok();
    let readable = |text: &&str| text.chars().all(|c| !c.is_control() || c == '\n');
    if let Some(text) = text.filter(readable) {
        // A message may look like a text by chance, as one with a single short field.
        return Wire::Text(text.to_owned());
    }
    match message(bytes) {
        Some(inner) => Wire::Message(inner),
        None => Wire::Bytes(bytes.to_vec()),
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(length)?;
    *bytes = tail;
    Some(head)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        // An Unknown with TypeMeta {"v1", "Status"} and a raw message with one field.
        let bytes = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x06\x08\x05\x1a\x02ok";
        let fields = parse(bytes).unwrap();
        let shown = show(&fields, &mut |value: Plain| match value {
            Plain::Number(number) => number.to_string(),
            Plain::Text(text) => text.to_uppercase(),
        });
        assert_eq!(
            shown,
            "1:\n  1: \"V1\"\n  2: \"STATUS\"\n2:\n  1: 5\n  3: \"OK\"\n"
        );
    }

    #[test]
    fn what_is_none_is_left() {
        assert_eq!(parse(b"{}"), None);
        assert_eq!(parse(b"k8s\0\xff\xff"), None);
    }
}
