use rstest::rstest;
use serde_json::{Value, json};

use super::{Flavour, go_syntax, is_print, json as encode, plain, quote, yaml_key};

/// Recorded from Go 1.26.
#[rstest]
#[case(1_000_000.0, "1e+06", "1000000")]
#[case(123_456_789.0, "1.23456789e+08", "123456789")]
#[case(123_456.789, "123456.789", "123456.789")]
#[case(1e20, "1e+20", "100000000000000000000")]
#[case(1e21, "1e+21", "1e+21")]
#[case(0.0001, "0.0001", "0.0001")]
#[case(0.00001, "1e-05", "0.00001")]
#[case(1e-7, "1e-07", "1e-7")]
#[case(80.0, "80", "80")]
#[case(-1.5, "-1.5", "-1.5")]
#[case(0.0, "0", "0")]
fn floats(#[case] float: f64, #[case] printed: &str, #[case] encoded: &str) {
    assert_eq!(plain(&json!(float)), printed);
    assert_eq!(encode(&json!(float), Flavour::Standard), encoded);
}

/// Recorded from Go 1.26: `strconv.FormatFloat(key, 'g', -1, 32)`, infinities by YAML's names.
#[rstest]
#[case(1.5, "1.5")]
#[case(0.1, "0.1")]
#[case(1e6, "1e+06")]
#[case(1_234_567.5, "1.2345675e+06")]
#[case(123_456.789, "123456.79")]
#[case(922_337_203_685_477_228_175.0, "9.223372e+20")]
#[case(-1e-5, "-1e-05")]
#[case(1e300, ".inf")]
#[case(f64::NEG_INFINITY, "-.inf")]
#[case(f64::NAN, ".nan")]
fn keys_of_yaml(#[case] key: f64, #[case] text: &str) {
    assert_eq!(yaml_key(key), text);
}

#[test]
fn integers_keep_all_digits() {
    assert_eq!(plain(&json!(9_007_199_254_740_993_i64)), "9007199254740993");
}

#[rstest]
#[case(json!(null), "<nil>", "interface {}(nil)")]
#[case(json!({"b": 1, "a": null}), "map[a:<nil> b:1]", "map[string]interface {}{\"a\":interface {}(nil), \"b\":1}")]
#[case(json!([true, "x", 1.5]), "[true x 1.5]", "[]interface {}{true, \"x\", 1.5}")]
fn values(#[case] value: Value, #[case] printed: &str, #[case] syntax: &str) {
    assert_eq!(plain(&value), printed);
    assert_eq!(go_syntax(&value), syntax);
}

#[rstest]
#[case("plain", "\"plain\"")]
#[case("a\"b\\c'", "\"a\\\"b\\\\c'\"")]
#[case("\n\t\u{7}\u{1}\u{7f}", "\"\\n\\t\\a\\x01\\x7f\"")]
#[case(
    "a\u{80}\u{ad}\u{300}\u{e0001}",
    "\"a\\u0080\\u00ad\u{300}\\U000e0001\""
)]
#[case("日本", "\"日本\"")]
fn quoted(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(quote(text), expected);
}

#[rstest]
#[case(Flavour::Standard, r#""\u003cb\u003e\u0026\b\f\u2028é\"\\\n""#)]
#[case(Flavour::Iterator, r#""\u003cb\u003e\u0026\u0008\u000c\u2028é\"\\\n""#)]
#[case(Flavour::IteratorName, "\"<b>&\\u0008\\u000c\u{2028}é\\\"\\\\\\n\"")]
fn strings_in_json(#[case] flavour: Flavour, #[case] expected: &str) {
    let text = json!("<b>&\u{8}\u{c}\u{2028}é\"\\\n");
    assert_eq!(encode(&text, flavour), expected);
}

#[rstest]
#[case('a', true)]
#[case('"', true)]
#[case('\'', true)]
#[case('\\', true)]
#[case(' ', true)]
#[case('\u{a0}', false)]
#[case('\u{300}', true)]
#[case('\u{200b}', false)]
#[case('\n', false)]
#[case('\u{e000}', false)]
fn printable(#[case] character: char, #[case] expected: bool) {
    assert_eq!(is_print(character), expected);
}
