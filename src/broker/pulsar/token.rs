//! The token that connections and requests log in with.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::secrets::Secret;

/// A token, which is read again whenever it is needed: a file may hold a new one when the old one expires.
pub struct Token {
    secret: Secret,
    last: Mutex<Arc<str>>,
}

impl Token {
    /// # Errors
    /// When it cannot be read.
    pub fn read(secret: Secret) -> Result<Self, String> {
        let first = Mutex::new(secret.reveal()?.into());
        Ok(Token { secret, last: first })
    }

    /// The token as it is now. A file that is being replaced may be missing or empty for a moment: then, the last one.
    pub fn current(&self) -> Arc<str> {
        let mut last = self.last.lock();
        if let Some(text) = self.secret.reveal().ok().filter(|text| !text.is_empty()) {
            *last = text.into();
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_and_the_last_token_is_kept_while_it_is_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let token = Token::read(Secret::File(file.path().to_owned())).unwrap();
        assert_eq!(&*token.current(), "first");
        std::fs::write(file.path(), "second\n").unwrap();
        assert_eq!(&*token.current(), "second");
        std::fs::write(file.path(), "").unwrap();
        assert_eq!(&*token.current(), "second");
        std::fs::remove_file(file.path()).unwrap();
        assert_eq!(&*token.current(), "second");
        assert!(Token::read(Secret::File("/does/not/exist".into())).is_err());
    }
}
