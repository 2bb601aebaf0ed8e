//! Keeps a token, and gets another one before its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::issued::Issued;
use super::oauth2::OAuth2;
use super::{TokenSource, command};
use crate::secrets::Secret;

/// A token, which is got again when it is needed and nears its end.
pub struct Token {
    source: Source,
    /// Locked while another one is got, so that all who need one wait for the same.
    last: Mutex<Option<Issued>>,
}

enum Source {
    Secret(Secret),
    Command { words: Vec<String>, limit: Duration },
    Issuer(Box<OAuth2>),
}

impl Token {
    /// `limit` is for each command and each request to an issuer.
    ///
    /// # Errors
    /// When the authorities that the system trusts cannot be used for an issuer.
    pub fn new(source: TokenSource, limit: Duration) -> Result<Self, String> {
        let source = match source {
            TokenSource::Secret(secret) => Source::Secret(secret),
            TokenSource::Command(words) => Source::Command { words, limit },
            TokenSource::Issuer(grant) => Source::Issuer(Box::new(OAuth2::new(*grant, limit)?)),
        };
        Ok(Token { source, last: Mutex::new(None) })
    }

    /// The token as it is now. While its source gives none, it is the last one, if that has not ended: a file that is being replaced may be
    /// missing or empty for a moment, and an issuer away.
    ///
    /// # Errors
    /// A sentence without a secret: the source gives no token, and no other one is valid.
    pub async fn current(&self) -> Result<Arc<str>, String> {
        let mut last = self.last.lock().await;
        if let Some(issued) = last.as_ref().filter(|issued| Instant::now() < issued.fresh_until) {
            return Ok(issued.text.clone());
        }
        match (self.issue().await, last.as_ref().filter(|issued| !issued.has_ended())) {
            (Ok(issued), _) => Ok(last.insert(issued).text.clone()),
            (Err(_), Some(valid)) => Ok(valid.text.clone()),
            (Err(reason), None) => Err(reason),
        }
    }

    async fn issue(&self) -> Result<Issued, String> {
        match &self.source {
            Source::Secret(secret) => {
                let text = secret.reveal()?;
                if text.is_empty() {
                    return Err("the token is empty".to_owned());
                }
                // It is read again each time, and the server knows when it ends.
                Ok(Issued { text: text.into(), fresh_until: Instant::now(), ends: None })
            }
            Source::Command { words, limit } => {
                command::run(words, *limit).await.map_err(|reason| format!("`token_command` ({}): {reason}", words[0]))
            }
            Source::Issuer(issuer) => issuer.ask().await.map_err(|reason| format!("OAuth 2.0: {reason}")),
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/net/token.rs"]
mod tests;
