//! Who sends requests: the credentials, which are read again now and then, since temporary ones (STS) are renewed in their files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::config::Credentials;

/// How old credentials may be when a request is signed.
const MAX: Duration = Duration::from_secs(5);

type Read = Box<dyn Fn() -> Option<Credentials> + Send + Sync>;

/// Credentials as they are now.
pub struct CredentialSource {
    read: Read,
    longest: Duration,
    last: Mutex<(Instant, Arc<Credentials>)>,
}

impl CredentialSource {
    /// `first` were read now; `read` reads them again.
    pub fn new(first: Credentials, read: Read) -> Self {
        CredentialSource { read, longest: MAX, last: Mutex::new((Instant::now(), Arc::new(first))) }
    }

    /// The credentials; the last ones while they cannot be read.
    pub fn current(&self) -> Arc<Credentials> {
        let mut last = self.last.lock();
        if last.0.elapsed() >= self.longest {
            last.0 = Instant::now();
            if let Some(credentials) = (self.read)() {
                last.1 = Arc::new(credentials);
            }
        }
        last.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn credentials(token: usize) -> Credentials {
        Credentials {
            key_id: "id".to_owned(),
            key_secret: "secret".to_owned(),
            security_token: Some(token.to_string()),
        }
    }

    #[test]
    fn they_are_read_again_after_a_while_and_kept_while_they_cannot_be_read() {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = reads.clone();
        let read = move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            (number != 2).then(|| credentials(number))
        };
        let mut source = CredentialSource::new(credentials(0), Box::new(read));
        source.longest = Duration::from_secs(3600);
        let token = |source: &CredentialSource| source.current().security_token.clone().unwrap();
        assert_eq!((token(&source), reads.load(Ordering::SeqCst)), ("0".to_owned(), 0), "it is fresh");
        source.longest = Duration::ZERO;
        assert_eq!([(); 3].map(|()| token(&source)), ["1", "1", "3"]);
    }
}
