//! A token as its source has given it, and what is known of its end.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

/// How much of its lifetime a token is used for; then there is time to get another one. Kafka's own client does the same
/// (`sasl.login.refresh.window.factor`).
const USED: f64 = 0.8;

/// A token that does not say when it ends is used for so long.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(60);

/// A longer lifetime is not believed.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// A token as its source has given it.
pub struct Issued {
    pub text: Arc<str>,
    /// It is used until then.
    pub fresh_until: Instant,
    /// `None`: it is not known to end.
    pub ends: Option<Instant>,
}

impl Issued {
    /// A token that was asked for at `asked` and lasts for `lifetime`, or for as long as it says itself.
    pub fn new(text: &str, asked: Instant, lifetime: Option<Duration>) -> Self {
        let lifetime = lifetime.or_else(|| remaining(text)).map(|lifetime| lifetime.min(MAX_LIFETIME));
        let used = lifetime.map_or(UNKNOWN_LIFETIME, |lifetime| lifetime.mul_f64(USED));
        Issued { text: text.into(), fresh_until: asked + used, ends: lifetime.map(|lifetime| asked + lifetime) }
    }

    /// Whether it has ended already.
    pub fn has_ended(&self) -> bool {
        self.ends.is_some_and(|end| end <= Instant::now())
    }
}

/// How long a JSON Web Token is valid from now on (RFC 7519, section 4.1.4); `None`: it does not say so, or is another token.
fn remaining(token: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let Claims { exp } = serde_json::from_slice(&payload).ok()?;
    Some(until_unix(exp))
}

/// A number, which some write as text.
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// A lifetime in seconds.
pub fn lifetime(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(number(value)?.max(0.0)).ok()
}

/// How long it is until a time in seconds since 1970; zero if it is past.
pub fn until_unix(seconds: f64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::try_from_secs_f64(seconds).map_or(Duration::ZERO, |end| end.saturating_sub(now))
}
