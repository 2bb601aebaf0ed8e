//! OAuth 2.0 by client credentials (RFC 6749, section 4.4), as Pulsar's Java client does it (`AuthenticationOAuth2`,
//! `ClientCredentialsFlow`), and Kafka's (`ClientCredentialsJwtRetriever`): the issuer's document names the token endpoint, or the scenario does.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::issued::{Issued, lifetime};
use super::{ClientCredentials, Grant, IssuerUrl};
use crate::net::Tls;
use crate::net::http::{HttpClient, HttpRequest, percent_encoded};
use crate::net::tls::client_config;

/// Where issuers describe themselves (OpenID Connect Discovery 1.0, section 4).
const WELL_KNOWN: &str = ".well-known/openid-configuration";

/// Asks for tokens.
pub struct OAuth2 {
    grant: Grant,
    http: HttpClient,
    endpoint: OnceCell<String>,
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
struct Response {
    access_token: String,
    /// Seconds.
    #[serde(default)]
    expires_in: Value,
}

impl OAuth2 {
    /// `limit` is for each request. The authorities of the system are trusted.
    ///
    /// # Errors
    /// When these cannot be used.
    pub fn new(grant: Grant, limit: Duration) -> Result<Self, String> {
        let (IssuerUrl::Discovered(url) | IssuerUrl::TokenEndpoint(url)) = &grant.issuer;
        let tls = url.starts_with("https://").then(Tls::default);
        let http = HttpClient::new(client_config(tls.as_ref())?, limit);
        Ok(OAuth2 { grant, http, endpoint: OnceCell::new() })
    }

    /// A new token.
    ///
    /// # Errors
    /// A sentence, without a secret, when the issuer gives no token.
    pub async fn ask(&self) -> Result<Issued, String> {
        let asked = Instant::now();
        let endpoint = match &self.grant.issuer {
            IssuerUrl::TokenEndpoint(url) => url,
            IssuerUrl::Discovered(url) => self.endpoint.get_or_try_init(|| self.discover(url)).await?,
        };
        let Grant { client, audience, scope, .. } = &self.grant;
        let (id, secret) = client.reveal()?;
        let mut fields =
            vec![("grant_type", "client_credentials"), ("client_id", id.as_str()), ("client_secret", secret.as_str())];
        fields.extend(audience.as_deref().map(|audience| ("audience", audience)));
        fields.extend(scope.as_deref().map(|scope| ("scope", scope)));
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")];
        let request = HttpRequest { method: "POST", url: endpoint, headers: &headers, body: body.join("&") };
        let Response { access_token, expires_in } = self.read(&request).await?;
        if access_token.is_empty() || access_token.contains(|one: char| one.is_whitespace() || one.is_control()) {
            return Err(format!("{endpoint} responded with something else than a token"));
        }
        Ok(Issued::new(&access_token, asked, lifetime(&expires_in)))
    }

    async fn discover(&self, issuer_url: &str) -> Result<String, String> {
        let url = format!("{}/{WELL_KNOWN}", issuer_url.trim_end_matches('/'));
        let request = HttpRequest { method: "GET", url: &url, headers: &[], body: String::new() };
        let issuer: Issuer = self.read(&request).await?;
        refuse_downgrade(issuer_url, &issuer.token_endpoint)?;
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

impl ClientCredentials {
    /// The client's name and secret.
    ///
    /// # Errors
    /// When the secret cannot be read, or a key file has another form.
    fn reveal(&self) -> Result<(String, String), String> {
        match self {
            ClientCredentials::Named { id, secret } => Ok((id.clone(), secret.reveal()?)),
            ClientCredentials::KeyFile(file, key) => {
                let content = file.reveal()?;
                // Serde's own words would repeat parts of the key.
                let found: Key = serde_json::from_str(&content)
                    .map_err(|_| format!("`{key}` is not JSON with a `client_id` and a `client_secret`"))?;
                Ok((found.client_id, found.client_secret))
            }
        }
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
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    match parsed.as_ref().and_then(|parsed| parsed["error"].as_str()) {
        Some(error) => format!(" ({error})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
