//! The token that connections and requests log in with: from the scenario, or issued by OAuth 2.0.
//!
//! OAuth 2.0 by client credentials (RFC 6749, section 4.4), as Pulsar's Java client does it (`AuthenticationOAuth2`,
//! `ClientCredentialsFlow`): the issuer's document names the token endpoint, a key file holds the client's name and secret.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{self, OnceCell};

use crate::net::http::{HttpClient, HttpRequest, percent_encoded};
use crate::secrets::Secret;

/// A token, which is read again whenever it is needed: a file may hold a new one when the old one expires, and an issuer is asked
/// for one.
pub struct Token {
    source: Source,
    last: Mutex<Arc<str>>,
}

enum Source {
    Secret(Secret),
    Issuer(Box<OAuth2>),
}

impl Token {
    /// # Errors
    /// When it cannot be read.
    pub fn read(secret: Secret) -> Result<Self, String> {
        let first = Mutex::new(secret.reveal()?.into());
        Ok(Token { source: Source::Secret(secret), last: first })
    }

    /// Asks an issuer.
    ///
    /// # Errors
    /// When it gives none.
    pub async fn issued(issuer: OAuth2) -> Result<Self, String> {
        let first = Mutex::new(issuer.renewed().await?.unwrap_or_default().into());
        Ok(Token { source: Source::Issuer(Box::new(issuer)), last: first })
    }

    /// The token as it is now. A file that is being replaced may be missing or empty for a moment, and an issuer away: then, the
    /// last one.
    pub async fn current(&self) -> Arc<str> {
        let newer = match &self.source {
            Source::Secret(secret) => secret.reveal().ok().filter(|text| !text.is_empty()),
            Source::Issuer(issuer) => issuer.renewed().await.ok().flatten(),
        };
        let mut last = self.last.lock();
        if let Some(text) = newer {
            *last = text.into();
        }
        last.clone()
    }
}

/// Where issuers describe themselves (OpenID Connect Discovery 1.0, section 4).
const WELL_KNOWN: &str = ".well-known/openid-configuration";

/// How much of its lifetime a token is used for: then there is time to get another one.
const USED: f64 = 0.9;

/// A year, in seconds: what an issuer claims beyond it is not believed.
const MAX: u64 = 365 * 24 * 3600;

/// Whom tokens are asked for, and of whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    pub issuer_url: String,
    /// The content of a key file: JSON with `client_id` and `client_secret`.
    pub private_key: Secret,
    pub audience: Option<String>,
    pub scope: Option<String>,
}

/// Asks for tokens, and keeps one until it nears its end.
pub struct OAuth2 {
    grant: Grant,
    http: HttpClient,
    endpoint: OnceCell<String>,
    /// The last token's end. Locked while another one is asked for, so that all who need one wait for the same.
    fresh_until: sync::Mutex<Option<Instant>>,
}

#[derive(Deserialize)]
struct Issuer {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Key {
    client_id: String,
    client_secret: String,
}

#[derive(Deserialize)]
struct Issued {
    access_token: String,
    /// Seconds. Without it, every connection asks for a token of its own.
    #[serde(default)]
    expires_in: u64,
}

impl OAuth2 {
    pub fn new(grant: Grant, http: HttpClient) -> Self {
        OAuth2 { grant, http, endpoint: OnceCell::new(), fresh_until: sync::Mutex::new(None) }
    }

    /// A new token, if the last one nears its end.
    ///
    /// # Errors
    /// A sentence, without a secret, when the issuer gives no token.
    pub async fn renewed(&self) -> Result<Option<String>, String> {
        let mut fresh_until = self.fresh_until.lock().await;
        if fresh_until.is_some_and(|end| Instant::now() < end) {
            return Ok(None);
        }
        let asked = Instant::now();
        let issued = self.ask().await?;
        *fresh_until = Some(asked + Duration::from_secs(issued.expires_in.min(MAX)).mul_f64(USED));
        Ok(Some(issued.access_token))
    }

    async fn ask(&self) -> Result<Issued, String> {
        let endpoint = self.endpoint.get_or_try_init(|| self.discover()).await?;
        let Grant { private_key, audience, scope, .. } = &self.grant;
        let key = private_key.reveal()?;
        // Serde's own words would repeat parts of the key.
        let key: Key = serde_json::from_str(&key).map_err(|_| {
            "`broker.pulsar.oauth2_private_key` is not JSON with a `client_id` and a `client_secret`".to_owned()
        })?;
        let mut fields = vec![
            ("grant_type", "client_credentials"),
            ("client_id", &key.client_id),
            ("client_secret", &key.client_secret),
        ];
        fields.extend(audience.as_deref().map(|audience| ("audience", audience)));
        fields.extend(scope.as_deref().map(|scope| ("scope", scope)));
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")];
        let request = HttpRequest { method: "POST", url: endpoint, headers: &headers, body: body.join("&") };
        self.read(&request).await
    }

    async fn discover(&self) -> Result<String, String> {
        let url = format!("{}/{WELL_KNOWN}", self.grant.issuer_url.trim_end_matches('/'));
        let request = HttpRequest { method: "GET", url: &url, headers: &[], body: String::new() };
        let issuer: Issuer = self.read(&request).await?;
        refuse_downgrade(&self.grant.issuer_url, &issuer.token_endpoint)?;
        Ok(issuer.token_endpoint)
    }

    async fn read<T: for<'de> Deserialize<'de>>(&self, request: &HttpRequest<'_>) -> Result<T, String> {
        let url = request.url;
        let response = self.http.send(request).await.map_err(|reason| format!("{url}: {reason}"))?;
        if response.status != 200 {
            return Err(format!("{url} responded with HTTP status {}{}", response.status, refusal(&response.text)));
        }
        // The response may hold a token, so serde's words are not repeated.
        serde_json::from_str(&response.text).map_err(|_| format!("{url} responded with something else than expected"))
    }
}

/// The client's secret goes to the endpoint: an issuer that is asked over TLS cannot send it elsewhere in clear.
fn refuse_downgrade(issuer_url: &str, endpoint: &str) -> Result<(), String> {
    let is_encrypted = |url: &str| url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    if is_encrypted(issuer_url) && !is_encrypted(endpoint) {
        return Err(format!("{issuer_url} names a token endpoint without TLS, to which no secret is sent"));
    }
    Ok(())
}

/// The reason in an error response (RFC 6749, section 5.2), in brackets.
fn refusal(text: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    match parsed.as_ref().and_then(|parsed| parsed["error"].as_str()) {
        Some(error) => format!(" ({error})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn token_file_is_read_again_and_may_be_missing_meanwhile() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let token = Token::read(Secret::File(file.path().to_owned())).unwrap();
        assert_eq!(&*token.current().await, "first");
        std::fs::write(file.path(), "second\n").unwrap();
        assert_eq!(&*token.current().await, "second");
        std::fs::write(file.path(), "").unwrap();
        assert_eq!(&*token.current().await, "second");
        std::fs::remove_file(file.path()).unwrap();
        assert_eq!(&*token.current().await, "second");
        assert!(Token::read(Secret::File("/does/not/exist".into())).is_err());
    }

    #[test]
    fn a_secret_does_not_leave_tls() {
        let refused = |issuer, endpoint| refuse_downgrade(issuer, endpoint).is_err();
        assert!(refused("https://issuer", "http://issuer/token"));
        assert!(refused("HTTPS://issuer", "other"));
        assert!(!refused("https://issuer", "https://other/token") && !refused("http://issuer", "http://issuer/token"));
    }

    #[test]
    fn refusals_are_repeated_without_the_rest() {
        assert_eq!(refusal("{\"error\": \"invalid_client\", \"error_description\": \"s3cret\"}"), " (invalid_client)");
        assert_eq!(refusal("<html>"), "");
    }
}
