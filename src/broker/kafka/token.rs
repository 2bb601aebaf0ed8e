//! The token of SASL OAUTHBEARER. librdkafka asks for one at first, and again before it expires.

use std::error::Error;
use std::ffi::{CString, c_char};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rdkafka::admin::AdminClient;
use rdkafka::bindings::rd_kafka_oauthbearer_set_token;
use rdkafka::client::{DefaultClientContext, OAuthToken};
use serde::Deserialize;

use crate::scenario::Secret;

/// After so long, a token that does not say when it expires is read again.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(3600);

/// A token as it is now: a file or variable may hold another one later.
pub struct Token {
    pub value: String,
    /// When it expires, in milliseconds since 1970. librdkafka asks for another one when four fifths of the time are over.
    pub expires_unix_ms: i64,
    /// Whom it names.
    pub principal: String,
}

/// What a JSON Web Token says of itself (RFC 7519, section 4.1).
#[derive(Debug, Default, Deserialize)]
struct Claims {
    sub: Option<String>,
    /// Seconds since 1970.
    exp: Option<f64>,
}

impl Token {
    /// Reads the token from where the scenario keeps it.
    ///
    /// # Errors
    /// A sentence that does not contain it.
    pub fn read(secret: &Secret) -> Result<Self, String> {
        let value = secret.reveal()?;
        if value.is_empty() || value.contains(char::is_whitespace) || value.contains('\0') {
            return Err("the token of `broker.security.sasl` is empty or contains a space".to_owned());
        }
        let Claims { sub, exp } = claims(&value).unwrap_or_default();
        let otherwise = SystemTime::now() + UNKNOWN_LIFETIME;
        let otherwise = otherwise.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        Ok(Token {
            value,
            expires_unix_ms: exp.map_or(otherwise, |seconds| (seconds * 1e3) as i64),
            principal: sub.unwrap_or_else(|| "brokermark".to_owned()),
        })
    }
}

/// The answer to rdkafka, which asks for a token whenever librdkafka needs one.
///
/// # Errors
/// When the scenario has no token, or it cannot be read. librdkafka asks again later.
pub fn oauth_token(secret: Option<&Secret>) -> Result<OAuthToken, Box<dyn Error>> {
    let Token { value, principal, expires_unix_ms } = Token::read(secret.ok_or("the scenario has no token")?)?;
    Ok(OAuthToken { token: value, principal_name: principal, lifetime_ms: expires_unix_ms })
}

/// Gives rdkafka's administrator a token, before its requests: rdkafka 0.39 does not poll the queue in which librdkafka asks for it, and
/// has no other way to set it. Without a valid token the requests fail, and say so.
pub fn set_admin_token(admin: &AdminClient<DefaultClientContext>, secret: &Secret) {
    let Ok(token) = Token::read(secret) else { return };
    let (Ok(value), Ok(principal)) = (CString::new(token.value), CString::new(token.principal)) else { return };
    let mut reason = [0 as c_char; 512];
    // SAFETY: the administrator's client is valid as long as the administrator is. The strings are terminated, there are no
    // extensions, and the buffer is as long as it says. librdkafka keeps none of the pointers.
    unsafe {
        rd_kafka_oauthbearer_set_token(
            admin.inner().native_ptr(),
            value.as_ptr(),
            token.expires_unix_ms,
            principal.as_ptr(),
            std::ptr::null_mut(),
            0,
            reason.as_mut_ptr(),
            reason.len(),
        );
    }
}

/// `None`: it is not a JSON Web Token.
fn claims(token: &str) -> Option<Claims> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Token, String> {
        Token::read(&Secret::Inline(text.to_owned()))
    }

    #[test]
    fn a_web_token_says_whom_it_names_and_when_it_expires() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"load","exp":1767225600.5,"scope":["a"]}"#);
        let token = read(&format!("eyJhbGciOiJub25lIn0.{claims}.")).unwrap();
        assert_eq!((token.principal.as_str(), token.expires_unix_ms), ("load", 1_767_225_600_500));
    }

    #[test]
    fn another_token_is_taken_as_it_is_and_none_is_repeated_in_an_error() {
        let token = read("opaque").unwrap();
        assert_eq!((token.value.as_str(), token.principal.as_str()), ("opaque", "brokermark"));
        let error = read("hunter 2").err().unwrap();
        assert!(error.contains("broker.security.sasl") && !error.contains("hunter"), "{error}");
    }
}
