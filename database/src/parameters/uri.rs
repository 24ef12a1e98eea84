//! `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTION=VALUE`, as libpq reads it.

use percent_encoding::percent_decode_str;

use super::{ParametersError, key};

/// The parts of a URI; nothing of it is checked yet.
#[derive(Default)]
pub(super) struct Uri {
    pub(super) hosts: Option<String>,
    pub(super) ports: Option<String>,
    pub(super) dbname: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Vec<u8>>,
    pub(super) ssl_mode: Option<String>,
    pub(super) target_session_attrs: Option<String>,
    pub(super) ignored: Vec<String>,
}

/// Options that are in order and that something else decides here: our own time-outs and name, TCP
/// settings, or what our TLS does in any case.
const WITHOUT_EFFECT: [&str; 18] = [
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "ssl_min_protocol_version",
    "sslcompression",
    "sslnegotiation",
    "sslsni",
    "tcp_user_timeout",
];

/// Options that name files which are not where we run, and the keys to use instead.
const FILES: [(&str, &str); 5] = [
    ("sslrootcert", key::CA),
    ("sslcert", key::CERTIFICATE),
    ("sslkey", key::CERTIFICATE_KEY),
    ("passfile", key::PASSWORD),
    ("service", key::HOST),
];

fn invalid(why: impl Into<String>) -> ParametersError {
    ParametersError::invalid(key::URI, why)
}

/// Takes a URI apart. The messages never repeat the part with the password.
pub(super) fn parse(text: &str) -> Result<Uri, ParametersError> {
    let rest = text
        .strip_prefix("postgres://")
        .or_else(|| text.strip_prefix("postgresql://"))
        .ok_or_else(|| invalid("does not begin with postgres:// or postgresql://"))?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    let mut uri = Uri::default();
    let places = match authority.rsplit_once('@') {
        Some((user, places)) => {
            credentials(&mut uri, user)?;
            places
        }
        None => authority,
    };
    locations(&mut uri, places)?;
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        uri.dbname = Some(decoded(path, "the database's name")?);
    }
    for option in query.into_iter().flat_map(|query| query.split('&')) {
        set_option(&mut uri, option)?;
    }
    Ok(uri)
}

fn credentials(uri: &mut Uri, text: &str) -> Result<(), ParametersError> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    if user.contains('@') || password.is_some_and(|password| password.contains('@')) {
        return Err(invalid("has an `@` in user or password: write it as %40"));
    }
    uri.username = Some(decoded(user, "the user's name")?).filter(|user| !user.is_empty());
    uri.password = password
        .map(|password| percent_decode_str(password).collect())
        .filter(|password: &Vec<u8>| !password.is_empty());
    Ok(())
}

/// Reads `HOST:PORT,HOST:PORT`; each part may be missing.
fn locations(uri: &mut Uri, text: &str) -> Result<(), ParametersError> {
    if text.is_empty() {
        return Ok(());
    }
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for place in text.split(',') {
        let end_of_address = place.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match place[end_of_address..].find(':') {
            Some(colon) => {
                let colon = end_of_address + colon;
                (&place[..colon], &place[colon + 1..])
            }
            None => (place, ""),
        };
        hosts.push(decoded(host, "a host")?);
        ports.push(port);
    }
    uri.hosts = Some(hosts.join(","));
    uri.ports = Some(ports.join(","));
    Ok(())
}

fn set_option(uri: &mut Uri, option: &str) -> Result<(), ParametersError> {
    if option.is_empty() {
        return Ok(());
    }
    let (name, value) = option
        .split_once('=')
        .ok_or_else(|| invalid("has an option without `=` after the `?`"))?;
    let name = decoded(name, "an option's name")?;
    if name == "password" {
        uri.password = Some(percent_decode_str(value).collect());
        return Ok(());
    }
    let value = decoded(value, "an option's value")?;
    match name.as_str() {
        "host" => uri.hosts = Some(value),
        "port" => uri.ports = Some(value),
        "dbname" => uri.dbname = Some(value),
        "user" => uri.username = Some(value),
        "sslmode" => uri.ssl_mode = Some(value),
        "target_session_attrs" => uri.target_session_attrs = Some(value),
        other => ignore(uri, other, &value)?,
    }
    Ok(())
}

fn ignore(uri: &mut Uri, name: &str, value: &str) -> Result<(), ParametersError> {
    if let Some((_, instead)) = FILES.iter().find(|(file, _)| *file == name) {
        if (name, value) == ("sslrootcert", "system") {
            return Ok(());
        }
        let why = format!("has the option `{name}`, a file that is not here: use key `{instead}`");
        return Err(invalid(why));
    }
    if !WITHOUT_EFFECT.contains(&name) {
        return Err(invalid(format!("has the unknown option `{name}`")));
    }
    uri.ignored.push(name.to_owned());
    Ok(())
}

fn decoded(text: &str, what: &str) -> Result<String, ParametersError> {
    percent_decode_str(text)
        .decode_utf8()
        .map(Into::into)
        .map_err(|_| invalid(format!("does not hold UTF-8 in {what}")))
}
