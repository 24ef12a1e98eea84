//! Names of the files of the directory, and of the keys of the map.

/// A whole `postgres://` URI. Where one of the single keys is there as well, the single key counts.
pub const URI: &str = "uri";
/// Host, or several separated by commas. One that begins with `/` is the directory of a Unix
/// socket.
pub const HOST: &str = "host";
/// Port, or one for each host, separated by commas.
pub const PORT: &str = "port";
/// Database.
pub const DBNAME: &str = "dbname";
/// Role.
pub const USERNAME: &str = "username";
/// Password. Not needed where a client certificate is enough.
pub const PASSWORD: &str = "password";
/// TLS mode: `disable`, `require`, `verify-ca` or `verify-full` (the default).
pub const SSLMODE: &str = "sslmode";
/// Kind of host that will do: `read-write` (the default), `primary` or `any`.
pub const TARGET_SESSION_ATTRS: &str = "target_session_attrs";
/// CAs that sign the database's certificate, PEM.
pub const CA: &str = "ca.crt";
/// Client certificate with its chain, PEM.
pub const CERTIFICATE: &str = "tls.crt";
/// Key of the client certificate, PEM.
pub const CERTIFICATE_KEY: &str = "tls.key";

/// All keys. Other files and keys beside them are ignored.
pub const ALL: [&str; 11] = [
    URI,
    HOST,
    PORT,
    DBNAME,
    USERNAME,
    PASSWORD,
    SSLMODE,
    TARGET_SESSION_ATTRS,
    CA,
    CERTIFICATE,
    CERTIFICATE_KEY,
];
