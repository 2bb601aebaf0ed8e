//! Signs requests: version 1 (HMAC-SHA1) and version 4 (HMAC-SHA256), as the service's API reference describes them.
//!
//! The vendor's own crate supports version 1 only, and depends on a calendar library. The credentials are read again now and then, since
//! temporary ones (STS) are renewed in their files.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use parking_lot::Mutex;
use sha1::Sha1;
use sha2::Sha256;

use super::config::{Credentials, SignatureVersion};
use crate::net::http::percent_encoded;

/// Signs all requests of a broker.
pub struct Signer {
    pub credentials: CredentialSource,
    pub version: SignatureVersion,
    pub region: String,
}

/// A request about to be sent. Header names are lower case.
pub struct Unsigned<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Sorted by name; names and values that need no encoding.
    pub query: &'a [(&'a str, &'a str)],
    pub headers: Vec<(&'static str, String)>,
    pub body: &'a [u8],
}

impl Signer {
    /// Adds the headers that identify the sender and the time, and the signature.
    pub fn sign(&self, request: &mut Unsigned<'_>, now: SystemTime) {
        let credentials = &*self.credentials.current();
        if let Some(token) = &credentials.security_token {
            request.headers.push(("x-acs-security-token", token.clone()));
        }
        request.headers.push(("x-log-apiversion", "0.6.0".to_owned()));
        let authorization = match self.version {
            SignatureVersion::V1 => Self::version_1(credentials, request, now),
            SignatureVersion::V4 => self.version_4(credentials, request, now),
        };
        request.headers.push(("authorization", authorization));
    }

    fn version_1(credentials: &Credentials, request: &mut Unsigned<'_>, now: SystemTime) -> String {
        let date = rfc_1123(now);
        request.headers.push(("x-log-signaturemethod", "hmac-sha1".to_owned()));
        let md5 = if request.body.is_empty() { String::new() } else { hex(&Md5::digest(request.body)).to_uppercase() };
        let kind = header(request, "content-type");
        let mut text = format!("{}\n{md5}\n{kind}\n{date}\n", request.method);
        for (name, value) in signed(request, |name| name.starts_with("x-log-") || name.starts_with("x-acs-")) {
            let _ = writeln!(text, "{name}:{value}");
        }
        text.push_str(request.path);
        for (index, (name, value)) in request.query.iter().enumerate() {
            let _ = write!(text, "{}{name}={value}", if index == 0 { '?' } else { '&' });
        }
        if !md5.is_empty() {
            request.headers.push(("content-md5", md5));
        }
        request.headers.push(("date", date));
        let mut mac = Hmac::<Sha1>::new_from_slice(credentials.key_secret.as_bytes()).expect("any length is a key");
        mac.update(text.as_bytes());
        format!("LOG {}:{}", credentials.key_id, STANDARD.encode(mac.finalize().into_bytes()))
    }

    fn version_4(&self, credentials: &Credentials, request: &mut Unsigned<'_>, now: SystemTime) -> String {
        let time = iso_8601_basic(now);
        let date = &time[..8];
        let hash = hex(&Sha256::digest(request.body));
        request.headers.push(("x-log-content-sha256", hash.clone()));
        request.headers.push(("x-log-date", time.clone()));
        let mut canonical = format!("{}\n{}\n", request.method, request.path);
        for (index, (name, value)) in request.query.iter().enumerate() {
            let mark = if index == 0 { "" } else { "&" };
            let _ = match value.is_empty() {
                true => write!(canonical, "{mark}{name}"),
                false => write!(canonical, "{mark}{name}={}", percent_encoded(value)),
            };
        }
        canonical.push('\n');
        let mut names = Vec::new();
        let is_signed = |name: &str| {
            name == "content-type" || name == "host" || name.starts_with("x-log-") || name.starts_with("x-acs-")
        };
        for (name, value) in signed(request, is_signed) {
            let _ = writeln!(canonical, "{name}:{}", value.trim());
            names.push(name);
        }
        let _ = write!(canonical, "\n{}\n{hash}", names.join(";"));
        let scope = format!("{date}/{}/sls/aliyun_v4_request", self.region);
        let text = format!("SLS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
        let mut key = format!("aliyun_v4{}", credentials.key_secret).into_bytes();
        for part in [date, &self.region, "sls", "aliyun_v4_request", &text] {
            key = sha256_mac(&key, part);
        }
        format!("SLS4-HMAC-SHA256 Credential={}/{scope},Signature={}", credentials.key_id, hex(&key))
    }
}

fn sha256_mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn header<'a>(request: &'a Unsigned<'_>, wanted: &str) -> &'a str {
    request.headers.iter().find(|(name, _)| *name == wanted).map_or("", |(_, value)| value)
}

/// The headers a signature covers, in the order of their names.
fn signed<'a>(request: &'a Unsigned<'_>, is_signed: impl Fn(&str) -> bool) -> Vec<(&'static str, &'a str)> {
    let chosen = request.headers.iter().filter(|(name, _)| is_signed(name));
    let mut chosen: Vec<(&'static str, &str)> = chosen.map(|(name, value)| (*name, value.as_str())).collect();
    chosen.sort_unstable();
    chosen
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn zoned(time: SystemTime) -> jiff::Zoned {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let second = i64::try_from(since.as_secs()).unwrap_or(0);
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_zoned(jiff::tz::TimeZone::UTC)
}

fn rfc_1123(time: SystemTime) -> String {
    zoned(time).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn iso_8601_basic(time: SystemTime) -> String {
    zoned(time).strftime("%Y%m%dT%H%M%SZ").to_string()
}

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
#[path = "../../../tests/unit/broker/sls/sign.rs"]
mod tests;
