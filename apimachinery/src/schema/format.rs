//! The `format`s that the kube-apiserver enforces on the values of custom resources.
//!
//! Formats it does not know are ignored, as there. Formats that it knows and this module does not
//! check are refused when the schema is read, never passed over.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use super::names::{is_dns_label, is_dns_subdomain};
use super::structural::{Type, Types};

/// A format that restricts values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// The name in the schema.
    pub name: String,
    pub kind: FormatKind,
}

/// The kind of a format. See [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatKind {
    Int32,
    Int64,
    Float,
    Double,
    Text(TextFormat),
}

/// Formats of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFormat {
    Any,
    Base64,
    BsonObjectId,
    Cidr,
    Date,
    DateTime,
    Duration,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    LongName,
    Mac,
    RgbColor,
    ShortName,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
}

impl Format {
    /// Returns the format of a schema of these types; none where the kube-apiserver ignores it.
    ///
    /// # Errors
    /// If the kube-apiserver would check it and this server cannot.
    pub fn of(name: &str, types: Types) -> Result<Option<Self>, String> {
        let kind = match (types, name) {
            (Types::One(Type::Integer), "int32") => Some(FormatKind::Int32),
            (Types::One(Type::Integer), "int64") => Some(FormatKind::Int64),
            (Types::One(Type::Number), "float") => Some(FormatKind::Float),
            (Types::One(Type::Number), "double") => Some(FormatKind::Double),
            (Types::One(Type::String) | Types::Any | Types::IntOrString, _) => {
                text_format(name)?.map(FormatKind::Text)
            }
            (Types::One(_), _) => None,
        };
        Ok(kind.map(|kind| Self {
            name: name.to_owned(),
            kind,
        }))
    }
}

fn text_format(name: &str) -> Result<Option<TextFormat>, String> {
    Ok(Some(match name.replace('-', "").as_str() {
        "password" => TextFormat::Any,
        "byte" => TextFormat::Base64,
        "bsonobjectid" => TextFormat::BsonObjectId,
        "cidr" => TextFormat::Cidr,
        "date" => TextFormat::Date,
        "datetime" => TextFormat::DateTime,
        "duration" => TextFormat::Duration,
        "hexcolor" => TextFormat::HexColor,
        "hostname" => TextFormat::Hostname,
        "ipv4" => TextFormat::Ipv4,
        "ipv6" => TextFormat::Ipv6,
        "k8slongname" => TextFormat::LongName,
        "mac" => TextFormat::Mac,
        "rgbcolor" => TextFormat::RgbColor,
        "k8sshortname" => TextFormat::ShortName,
        "uuid" => TextFormat::Uuid,
        "uuid3" => TextFormat::Uuid3,
        "uuid4" => TextFormat::Uuid4,
        "uuid5" => TextFormat::Uuid5,
        "uri" | "email" | "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn" => {
            return Err(format!(
                "the format {name:?} is not supported by this server"
            ));
        }
        _ => return Ok(None),
    }))
}

impl TextFormat {
    /// Returns whether a string has the format.
    pub fn admits(self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Base64 => is_base64(text),
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Cidr => is_cidr(text),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::HexColor => matches(&HEX_COLOR, text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => is_ip(text) && text.contains('.'),
            Self::Ipv6 => is_ip(text) && text.contains(':'),
            Self::LongName => text.len() <= 253 && is_dns_subdomain(text),
            Self::Mac => is_mac(text),
            Self::RgbColor => matches(&RGB_COLOR, text),
            Self::ShortName => text.len() <= 63 && is_dns_label(text),
            Self::Uuid => is_uuid(text, None),
            Self::Uuid3 => is_uuid(text, Some('3')),
            Self::Uuid4 => is_uuid(text, Some('4')),
            Self::Uuid5 => is_uuid(text, Some('5')),
        }
    }
}

/// A pattern of this module; a test makes sure that all can be read.
type Pattern = LazyLock<Option<Regex>>;

static HEX_COLOR: Pattern =
    LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: Pattern = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static TIME_OF_DAY: Pattern = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});
static HOSTNAME: Pattern = LazyLock::new(|| {
    let letter = r"[a-zA-Z0-9\p{S}\p{L}]";
    let single = format!(r"({letter}((-?{letter}{{0,62}})?)");
    let label = format!(r"({letter}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{letter})?)(\.)){{1,}}");
    Regex::new(&format!(r"^{single}|{label}([a-zA-Z\p{{L}}]){{2,63}})$")).ok()
});
static SCALA_DURATION: Pattern = LazyLock::new(|| Regex::new(r"(\d+)\s*([A-Za-zµ]+)").ok());
static GO_DURATION: Pattern = LazyLock::new(|| {
    Regex::new(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").ok()
});

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

fn is_base64(text: &str) -> bool {
    let (body, padding) = match text.trim_end_matches('=') {
        body if text.len() - body.len() <= 2 => (body, text.len() - body.len()),
        _ => return false,
    };
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && body.len() + padding == text.len()
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(captures) = TIME_OF_DAY
        .as_ref()
        .and_then(|pattern| pattern.captures(time))
    else {
        return false;
    };
    is_date(date) && &captures[1] <= "23" && &captures[2] <= "59" && &captures[3] <= "59"
}

/// Returns whether a text is a Go duration, or has at least one `<number> <unit>` in it.
fn is_duration(text: &str) -> bool {
    const EXACT: [&str; 9] = ["ns", "us", "ms", "s", "m", "h", "hr", "d", "w"];
    const OTHER_EXACT: [&str; 2] = ["µs", "wk"];
    const PREFIXES: [&str; 8] = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    if matches(&GO_DURATION, text) {
        return true;
    }
    let Some(pattern) = SCALA_DURATION.as_ref() else {
        return false;
    };
    let mut found = false;
    for captures in pattern.captures_iter(text) {
        if captures[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = captures[2].to_lowercase();
        found |= EXACT.contains(&unit.as_str())
            || OTHER_EXACT.contains(&unit.as_str())
            || PREFIXES.iter().any(|prefix| unit.starts_with(prefix));
    }
    found
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(&HOSTNAME, text)
}

fn is_ip(text: &str) -> bool {
    if text.contains(':') {
        is_ipv6(text)
    } else {
        is_ipv4(text)
    }
}

/// Returns whether a text is an IPv4 address. Leading zeros are accepted, as they were before Go
/// 1.17.
fn is_ipv4(text: &str) -> bool {
    let octet = |part: &str| {
        let digits = part.trim_start_matches('0');
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && digits.len() <= 3
            && (digits.is_empty() || digits.parse::<u8>().is_ok())
    };
    text.split('.').count() == 4 && text.split('.').all(octet)
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let bits = if address.contains(':') { 128 } else { 32 };
    let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
    is_ip(address) && digits && prefix.parse::<u32>().is_ok_and(|length| length <= bits)
}

/// Returns whether a text is 6, 8 or 20 octets in one of the three notations of `net.ParseMAC`.
fn is_mac(text: &str) -> bool {
    let hex = |parts: &[&str], digits: usize| {
        parts
            .iter()
            .all(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    for (separator, digits, counts) in [
        (':', 2, [6, 8, 20]),
        ('-', 2, [6, 8, 20]),
        ('.', 4, [3, 4, 10]),
    ] {
        let parts: Vec<&str> = text.split(separator).collect();
        if counts.contains(&parts.len()) && hex(&parts, digits) {
            return true;
        }
    }
    false
}

/// Returns whether a text is hexadecimal digits in groups of 8, 4, 4, 4 and 12, with or without
/// dashes between them.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else {
            return false;
        };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        let restricted = match (index, version) {
            (2, Some(version)) => group.starts_with(version),
            (3, Some('4' | '5')) => group.starts_with(['8', '9', 'a', 'b', 'A', 'B']),
            _ => true,
        };
        if !restricted {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn patterns_can_be_read() {
        for pattern in [
            &HEX_COLOR,
            &RGB_COLOR,
            &TIME_OF_DAY,
            &HOSTNAME,
            &SCALA_DURATION,
            &GO_DURATION,
        ] {
            assert!(pattern.is_some());
        }
    }

    #[rstest]
    #[case("date-time", "2026-11-21T04:09:53Z", true)]
    #[case("date-time", "2026-11-21t04:09:53.123+01:00", true)]
    #[case("date-time", "2026-11-21T24:09:53Z", false)]
    #[case("date-time", "2026-11-21 04:09:53Z", false)]
    #[case("date-time", "2026-13-21T04:09:53Z", false)]
    #[case("date-time", "2026-11-21T04:09:53", false)]
    #[case("date-time", "", false)]
    #[case("date", "2026-02-28", true)]
    #[case("date", "2026-02-30", false)]
    #[case("date", "20260228", false)]
    #[case("duration", "5m3s", true)]
    #[case("duration", "0", true)]
    #[case("duration", "22 ns", true)]
    #[case("duration", "3 weeks", true)]
    #[case("duration", "5", false)]
    #[case("duration", "five minutes", false)]
    #[case("byte", "aGk=", true)]
    #[case("byte", "aGk", false)]
    #[case("byte", "", false)]
    #[case("byte", "a===", false)]
    #[case("ipv4", "010.0.0.1", true)]
    #[case("ipv4", "256.0.0.1", false)]
    #[case("ipv4", "::1", false)]
    #[case("ipv6", "::1", true)]
    #[case("ipv6", "::ffff:1.2.3.4", true)]
    #[case("ipv6", "1.2.3.4", false)]
    #[case("cidr", "10.0.0.0/8", true)]
    #[case("cidr", "10.0.0.0/33", false)]
    #[case("cidr", "fd00::/64", true)]
    #[case("mac", "01:23:45:67:89:ab", true)]
    #[case("mac", "0123.4567.89ab", true)]
    #[case("mac", "01:23:45", false)]
    #[case("hostname", "example.com", true)]
    #[case("hostname", "-example.com", false)]
    #[case("hostname", "localhost", true)]
    #[case("uuid", "F47AC10B-58cc-0372-8567-0E02B2C3D479", true)]
    #[case("uuid4", "f47ac10b-58cc-4372-8567-0e02b2c3d479", true)]
    #[case("uuid4", "f47ac10b-58cc-3372-8567-0e02b2c3d479", false)]
    #[case("uuid", "f47ac10b58cc437285670e02b2c3d479", true)]
    #[case("uuid", "ä47ac10b-58cc-4372-8567-0e02b2c3d479", false)]
    #[case("hexcolor", "#fff", true)]
    #[case("hexcolor", "#ff", false)]
    #[case("rgbcolor", "rgb(1, 2,255)", true)]
    #[case("rgbcolor", "rgb(1,2,256)", false)]
    #[case("k8s-short-name", "a-b", true)]
    #[case("k8s-short-name", "a.b", false)]
    #[case("k8s-long-name", "a.b", true)]
    #[case("password", "anything", true)]
    #[case("bsonobjectid", "507f1f77bcf86cd799439011", true)]
    #[case("bsonobjectid", "507f", false)]
    fn texts(#[case] format: &str, #[case] text: &str, #[case] expected: bool) {
        let format = Format::of(format, Types::One(Type::String))
            .unwrap()
            .unwrap();
        let FormatKind::Text(format) = format.kind else {
            panic!("a text format")
        };
        assert_eq!(format.admits(text), expected);
    }

    #[rstest]
    #[case("int64", Types::One(Type::String))]
    #[case("int64", Types::One(Type::Number))]
    #[case("float", Types::One(Type::Integer))]
    #[case("date-time", Types::One(Type::Object))]
    #[case("unheard-of", Types::One(Type::String))]
    fn other_formats_are_ignored(#[case] format: &str, #[case] types: Types) {
        assert_eq!(Format::of(format, types), Ok(None));
    }

    #[rstest]
    fn formats_that_would_be_missed_are_refused(
        #[values("uri", "email", "isbn", "ssn")] format: &str,
    ) {
        let error = Format::of(format, Types::One(Type::String)).unwrap_err();
        assert_eq!(
            error,
            format!("the format {format:?} is not supported by this server")
        );
    }

    proptest::proptest! {
        #[test]
        fn hostile_texts_never_panic(text in ".{0,40}", kind in 0..19_usize) {
            let all = [
                "password", "byte", "bsonobjectid", "cidr", "date", "datetime", "duration", "hexcolor",
                "hostname", "ipv4", "ipv6", "k8s-long-name", "mac", "rgbcolor", "k8s-short-name",
                "uuid", "uuid3", "uuid4", "uuid5",
            ];
            if let Ok(Some(TextFormat::Any)) = text_format(all[kind]) { return Ok(()); }
            let _ = text_format(all[kind]).unwrap().unwrap().admits(&text);
        }
    }
}
