//! The token that connections and requests log in with: written in the scenario, printed by a command, or issued by OAuth 2.0.
//!
//! - [`TokenSource`]: where a scenario says that it is from.
//! - [`Token`]: keeps one, and gets another one before its end.
//! - `command`: a program that prints it. `oauth2`: an issuer.

#[cfg(any(feature = "kafka-native", feature = "pulsar", feature = "schemas"))]
mod command;
#[cfg(any(feature = "kafka-native", feature = "pulsar", feature = "schemas"))]
mod issued;
#[cfg(any(feature = "kafka-native", feature = "pulsar", feature = "schemas"))]
mod kept;
#[cfg(any(feature = "kafka-native", feature = "pulsar", feature = "schemas"))]
mod oauth2;

#[cfg(any(feature = "kafka-native", feature = "pulsar", feature = "schemas"))]
pub use kept::Token;

use crate::secrets::Secret;

/// Where a token is from.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenSource {
    Secret(Secret),
    /// A program that prints it, and its arguments. There is a program.
    Command(Vec<String>),
    Issuer(Box<Grant>),
}

/// Client credentials of OAuth 2.0 (RFC 6749, section 4.4): which issuer is asked, and who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    pub issuer: IssuerUrl,
    pub client: ClientCredentials,
    pub audience: Option<String>,
    pub scope: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum IssuerUrl {
    /// The issuer, whose document names the token endpoint (OpenID Connect Discovery 1.0, section 4).
    Discovered(String),
    TokenEndpoint(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum ClientCredentials {
    /// The content of a key file as Pulsar's Java client has it, JSON with `client_id` and `client_secret`, and the scenario's key for it.
    KeyFile(Secret, &'static str),
    Named {
        id: String,
        secret: Secret,
    },
}

/// How a command is written in a scenario.
pub const TOKEN_COMMAND: &str = "write the program and its arguments: `token_command = [\"program\", \"argument\"]`";

/// Why a service cannot be asked at this URL of a scenario; `None`: it can.
pub fn problem_of_url(key: &str, url: &str) -> Option<String> {
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Some(format!("`{key}` begins with http:// or https://"));
    }
    // Errors repeat it, and a name in it is not sent as a login.
    let has_login = url.contains('@') || url.contains(char::is_whitespace);
    has_login.then(|| format!("`{key}`: a URL has no name and no password"))
}

/// Why this cannot be a command; `None`: it can.
pub fn problem_of_command(command: &[String]) -> Option<String> {
    let has_program = command.first().is_some_and(|program| !program.trim().is_empty());
    (!has_program).then(|| format!("`token_command` names no program: {TOKEN_COMMAND}"))
}
