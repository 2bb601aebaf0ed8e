//! The token that connections and requests log in with.

use std::sync::Arc;

use parking_lot::Mutex;

use super::oauth2::OAuth2;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_again_and_the_last_token_is_kept_while_it_is_replaced() {
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
}
