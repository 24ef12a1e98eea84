//! An attempt to connect to one address.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;

use super::ConnectOptions;
use super::error::{Reason, Role};
use crate::parameters::{Endpoint, Host, Parameters, Password, SslMode};
use crate::session::{self, Unsuitable};
use crate::{Connection, ServerVersion, Session};

/// The address of an attempt.
pub(super) struct Target<'a> {
    /// The endpoint among the parameters.
    pub(super) endpoint: &'a Endpoint,
    /// Port of the connection, which may differ from that of the endpoint.
    pub(super) port: u16,
    /// IP address; none for a Unix socket.
    pub(super) address: Option<IpAddr>,
}

/// Connects to one address and checks that the session will do, within the time for one attempt.
pub(super) async fn attempt(
    parameters: &Parameters,
    options: &ConnectOptions,
    target: &Target<'_>,
) -> Result<Session, Reason> {
    let attempt = Attempt {
        parameters,
        options,
        target,
    };
    timeout(options.attempt_timeout, attempt.run())
        .await
        .unwrap_or(Err(Reason::TimedOut(options.attempt_timeout)))
}

struct Attempt<'a> {
    parameters: &'a Parameters,
    options: &'a ConnectOptions,
    target: &'a Target<'a>,
}

impl Attempt<'_> {
    async fn run(&self) -> Result<Session, Reason> {
        let (client, mut connection, settings_in_force) = self.greet().await?;
        let version = self.version(&connection)?;
        let wanted = self.parameters.target_session_attrs;
        let unsuitable = session::unsuitable(&client, &mut connection, wanted)
            .await
            .map_err(|error| self.refused(error))?;
        match unsuitable {
            Some(Unsuitable::Standby) => return Err(Reason::Standby),
            Some(Unsuitable::ReadOnly) => return Err(Reason::ReadOnly),
            None => {}
        }
        Ok(Session {
            client,
            connection,
            endpoint: self.target.endpoint.clone(),
            version,
            settings_in_force,
        })
    }

    /// Connects with the settings, and without them where a pooler refuses them.
    async fn greet(&self) -> Result<(tokio_postgres::Client, Connection, bool), Reason> {
        let mut config = self.config();
        let settings = self.options.startup_options();
        if let Some(settings) = &settings {
            config.options(settings);
        }
        match config.connect(self.parameters.tls()).await {
            Ok((client, connection)) => Ok((client, connection, true)),
            Err(error) if settings.is_some() && refuses_settings(&error) => {
                let (client, connection) = self
                    .config()
                    .connect(self.parameters.tls())
                    .await
                    .map_err(|error| self.refused(error))?;
                Ok((client, connection, false))
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    fn config(&self) -> Config {
        let Parameters {
            dbname, username, ..
        } = self.parameters;
        let mut config = Config::new();
        config
            .user(username)
            .dbname(dbname)
            .application_name(&self.options.application_name)
            .port(self.target.port)
            .connect_timeout(self.options.attempt_timeout)
            .tcp_user_timeout(self.options.tcp_user_timeout)
            .keepalives(true)
            .keepalives_idle(self.options.keepalive_idle)
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3);
        match &self.target.endpoint.host {
            Host::Tcp(host) => config.host(host).ssl_mode(self.ssl_mode()),
            Host::Unix(directory) => config
                .host_path(directory)
                .ssl_mode(tokio_postgres::config::SslMode::Disable),
        };
        if let Some(address) = self.target.address {
            config.hostaddr(address);
        }
        if let Some(password) = &self.parameters.password {
            config.password(Password::expose(password));
        }
        config
    }

    fn ssl_mode(&self) -> tokio_postgres::config::SslMode {
        match self.parameters.ssl_mode {
            SslMode::Disable => tokio_postgres::config::SslMode::Disable,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                tokio_postgres::config::SslMode::Require
            }
        }
    }

    fn version(&self, connection: &Connection) -> Result<ServerVersion, Reason> {
        let version = connection
            .parameter("server_version")
            .and_then(ServerVersion::parse)
            .ok_or(Reason::UnknownVersion)?;
        let minimum = self.options.minimum_major;
        if version.major < minimum {
            return Err(Reason::TooOld { version, minimum });
        }
        Ok(version)
    }

    fn refused(&self, error: tokio_postgres::Error) -> Reason {
        let Parameters {
            dbname,
            username,
            password,
            ssl_mode,
            ..
        } = self.parameters;
        Reason::Refused {
            error,
            role: Role {
                username: username.clone(),
                dbname: dbname.clone(),
                has_password: password.is_some(),
            },
            ssl_mode: *ssl_mode,
        }
    }
}

/// Returns whether a pooler refuses settings in the greeting, as pgbouncer does unless it is told
/// to ignore them.
fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|answer| {
        *answer.code() == SqlState::PROTOCOL_VIOLATION
            && answer.message().contains("startup parameter")
    })
}
