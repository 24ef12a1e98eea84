//! Parameters from maps and directories.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rstest::rstest;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(pairs: Pairs<'_>) -> Result<Parameters, ParametersError> {
    // Without TLS, so that no CA is needed where it is not what is tested.
    let plain = ("sslmode", "disable");
    let given = pairs.iter().any(|(key, _)| *key == "sslmode");
    let sslmode = (!given).then_some(plain);
    Parameters::from_map(pairs.iter().copied().chain(sslmode))
}

fn uri(uri: &str) -> Result<Parameters, ParametersError> {
    read(&[("uri", uri)])
}

const SINGLE: Pairs<'static> = &[
    ("host", "db.example"),
    ("dbname", "reports"),
    ("username", "writer"),
    ("password", "p:@/?"),
];

#[test]
fn single_keys_are_enough() {
    let parameters = read(SINGLE).unwrap();
    assert_eq!(parameters.address(), "db.example:5432");
    assert_eq!(parameters.dbname, "reports");
    assert_eq!(parameters.username, "writer");
    assert_eq!(parameters.password.as_ref().unwrap().expose(), b"p:@/?");
    assert_eq!(
        parameters.target_session_attrs,
        TargetSessionAttrs::ReadWrite
    );
    assert!(!parameters.verifies_server());
}

#[test]
fn one_newline_at_the_end_is_dropped_and_what_is_then_empty_is_missing() {
    let parameters = read(&[
        ("host", "db.example\n"),
        ("dbname", "reports\r\n"),
        ("username", "writer"),
        ("password", "two\n\n"),
    ])
    .unwrap();
    assert_eq!(parameters.address(), "db.example:5432");
    assert_eq!(parameters.dbname, "reports");
    assert_eq!(parameters.password.unwrap().expose(), b"two\n");

    let error = read(&[("host", "\n"), ("dbname", "d"), ("username", "")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`host`, `username` are missing: give a `uri`, or `host`, `dbname` and `username`"
    );
}

#[rstest]
#[case("postgres://u:p@h/d", "h:5432", "u", Some("p"), "d")]
#[case("postgresql://u@h:6432/d", "h:6432", "u", None, "d")]
#[case(
    "postgres://u:p%40ss%2F%3A@h/d%20b",
    "h:5432",
    "u",
    Some("p@ss/:"),
    "d b"
)]
#[case(
    "postgres://u:p@a,b:5433,c/d",
    "a:5432,b:5433,c:5432",
    "u",
    Some("p"),
    "d"
)]
#[case(
    "postgres://u:p@[fd00::1]:5433,b/d",
    "[fd00::1]:5433,b:5432",
    "u",
    Some("p"),
    "d"
)]
#[case(
    "postgres:///d?host=a,b&port=5433&user=u&password=p",
    "a:5433,b:5433",
    "u",
    Some("p"),
    "d"
)]
#[case("postgres://u@%2Frun%2Fpg/d", "/run/pg/.s.PGSQL.5432", "u", None, "d")]
fn uris_are_read_as_by_libpq(
    #[case] text: &str,
    #[case] address: &str,
    #[case] username: &str,
    #[case] password: Option<&str>,
    #[case] dbname: &str,
) {
    let parameters = uri(text).unwrap();
    assert_eq!(parameters.address(), address);
    assert_eq!(parameters.username, username);
    let given = parameters.password.as_ref().map(Password::expose);
    assert_eq!(given, password.map(str::as_bytes));
    assert_eq!(parameters.dbname, dbname);
}

#[test]
fn options_of_a_uri_count_or_are_named() {
    let text =
        "postgres://u@a,b/d?target_session_attrs=primary&connect_timeout=3&channel_binding=require";
    let parameters = uri(text).unwrap();
    assert_eq!(parameters.target_session_attrs, TargetSessionAttrs::Primary);
    assert_eq!(parameters.ignored, ["connect_timeout", "channel_binding"]);
}

#[test]
fn a_single_key_counts_more_than_the_uri() {
    let parameters = read(&[
        ("uri", "postgres://u:old@a:1,b:2/d?sslmode=require"),
        ("password", "new"),
        ("host", "c"),
        ("sslmode", "disable"),
    ])
    .unwrap();
    assert_eq!(parameters.address(), "c:5432");
    assert_eq!(parameters.password.unwrap().expose(), b"new");
    assert_eq!(parameters.ssl_mode, SslMode::Disable);
}

#[rstest]
#[case(&[("uri", "mysql://h/d")], "`uri` does not begin with postgres://")]
#[case(&[("uri", "postgres://u:p@ss@h/d")], "write it as %40")]
#[case(&[("uri", "postgres://u@h/d?sslrootcert=/ca.pem")], "use key `ca.crt`")]
#[case(&[("uri", "postgres://u@h/d?slmode=require")], "unknown option `slmode`")]
#[case(&[("uri", "postgres://u@h:x/d")], "`port` holds \"x\"")]
#[case(&[("uri", "postgres://u@h h/d")], "`host` holds \"h h\"")]
#[case(&[("uri", "postgres://h/d")], "`username` is missing")]
#[case(&[("uri", "postgres://u@h")], "`dbname` is missing")]
#[case(&[("uri", "postgres://u@h/d"), ("port", "1,2")], "2 ports for 1 hosts")]
#[case(&[("uri", "postgres://u@h/d"), ("port", "0")], "`port` holds \"0\"")]
#[case(&[("uri", "postgres://u@h/d"), ("sslmode", "prefer")], "choose `verify-full`")]
#[case(&[("uri", "postgres://u@h/d?target_session_attrs=standby")], "cannot be written to")]
#[case(&[("uri", "postgres://u@h/d"), ("sslmode", "verify-full"), ("ca.crt", "x")], "`ca.crt` holds no certificate")]
#[case(&[("uri", "postgres://u@h/d"), ("sslmode", "require"), ("tls.crt", "x")], "`tls.key` is missing")]
#[case(&[("uri", "postgres://u@h/d"), ("sslmode", "require"), ("tls.key", "x")], "`tls.crt` is missing")]
fn mistakes_are_named(#[case] pairs: Pairs<'_>, #[case] expected: &str) {
    let error = read(pairs).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn no_message_and_no_debug_form_shows_a_password() {
    let parameters = uri("postgres://u:hunter2@h/d").unwrap();
    assert!(!format!("{parameters:?}").contains("hunter2"));
    for broken in [
        "postgres://u:hunter2@h:x/d",
        "postgres://u:hunter2@@h/d",
        "postgres://u:hunter2@h/d?nothing",
        "pg://u:hunter2@h/d",
    ] {
        let error = uri(broken).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

fn write(directory: &Path, pairs: Pairs<'_>) {
    for (key, value) in pairs {
        fs::write(directory.join(key), value).unwrap();
    }
}

#[rstest]
#[case::password("password", "another", true)]
#[case::role("username", "another", true)]
#[case::host("host", "another.example", false)]
#[case::port("port", "5433", false)]
#[case::database("dbname", "another", false)]
#[case::protection("sslmode", "require", false)]
#[case::kind_of_host("target_session_attrs", "any", false)]
fn who_connects_is_no_other_place(#[case] key: &str, #[case] value: &str, #[case] same: bool) {
    let before: Vec<_> = SINGLE
        .iter()
        .copied()
        .chain([("sslmode", "disable")])
        .collect();
    let kept = before.iter().copied().filter(|(other, _)| *other != key);
    let after: Vec<_> = kept.chain([(key, value)]).collect();
    let (before, after) = (read(&before).unwrap(), read(&after).unwrap());
    assert_ne!(before, after);
    assert_eq!(after.leads_where(&before), same);
}

#[test]
fn a_directory_is_read_again_and_changes_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), SINGLE);
    write(
        directory.path(),
        &[("sslmode", "disable\n"), ("jdbc-uri", "x")],
    );
    let reader = ParametersReader::new(directory.path());
    assert!(reader.last().is_none());

    let first = reader.read().unwrap();
    let same = reader.read().unwrap();
    assert_eq!(same.revision, first.revision);
    assert!(std::sync::Arc::ptr_eq(&same.parameters, &first.parameters));

    write(directory.path(), &[("password", "rotated")]);
    let second = reader.read().unwrap();
    assert_eq!(second.revision, first.revision + 1);
    assert_eq!(
        second.parameters.password.as_ref().unwrap().expose(),
        b"rotated"
    );

    fs::remove_file(directory.path().join("host")).unwrap();
    assert!(matches!(
        reader.read(),
        Err(ParametersError::Missing { .. })
    ));
    assert_eq!(reader.last().unwrap().revision, second.revision);

    // For a while the last ones will do.
    let kept = reader.read_or_last(Duration::from_mins(1)).unwrap();
    assert!(std::sync::Arc::ptr_eq(&kept.parameters, &second.parameters));
    let late = reader.read_or_last(Duration::ZERO);
    assert!(matches!(late, Err(ParametersError::Missing { .. })));
    write(directory.path(), &[("host", "another")]);
    let third = reader.read_or_last(Duration::ZERO).unwrap();
    assert_eq!(third.revision, second.revision + 1);
}

#[test]
fn without_a_first_reading_there_is_nothing_to_fall_back_on() {
    let directory = tempfile::tempdir().unwrap();
    let reader = ParametersReader::new(directory.path());
    let read = reader.read_or_last(Duration::from_mins(1));
    assert!(matches!(read, Err(ParametersError::Missing { .. })));
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    let error = Parameters::from_directory(&gone).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    assert!(matches!(error, ParametersError::Read { .. }));
}

/// The kubelet writes a new directory, exchanges the link `..data` and deletes the old directory.
/// A reader in between sees the one or the other, never a mixture.
#[test]
fn versions_of_a_volume_are_never_mixed() {
    let volume = tempfile::tempdir().unwrap();
    let root = volume.path().to_owned();
    let publish = move |number: usize| {
        let version = root.join(format!("..{number}"));
        fs::create_dir(&version).unwrap();
        let text = number.to_string();
        let pairs = [
            ("host", "h"),
            ("sslmode", "disable"),
            ("dbname", text.as_str()),
            ("username", text.as_str()),
            ("password", text.as_str()),
        ];
        write(&version, &pairs);
        let link = root.join("..new");
        symlink(&version, &link).unwrap();
        fs::rename(&link, root.join("..data")).unwrap();
        if let Some(before) = number.checked_sub(1) {
            fs::remove_dir_all(root.join(format!("..{before}"))).unwrap();
        }
    };
    publish(0);
    let writer = std::thread::spawn(move || (1..300).for_each(publish));
    let (mut readings, mut between) = (0, 0);
    while !writer.is_finished() || readings == 0 {
        // More exchanges during one reading than are tried again for are an error, not a mixture.
        match Parameters::from_directory(volume.path()) {
            Ok(parameters) => {
                readings += 1;
                assert_eq!(parameters.dbname, parameters.username);
                let password = parameters.password.as_ref().unwrap().expose();
                assert_eq!(parameters.dbname.as_bytes(), password);
            }
            Err(_) => between += 1,
        }
    }
    writer.join().unwrap();
    assert!(readings > between, "{readings} readings, {between} errors");
}
