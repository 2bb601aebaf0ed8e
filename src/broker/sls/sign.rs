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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn signer(key: (&str, &str), token: Option<&str>, version: SignatureVersion, region: &str) -> Signer {
        let credentials = Credentials {
            key_id: key.0.to_owned(),
            key_secret: key.1.to_owned(),
            security_token: token.map(str::to_owned),
        };
        let credentials = CredentialSource::new(credentials, Box::new(|| None));
        Signer { credentials, version, region: region.to_owned() }
    }

    fn authorization(signer: &Signer, mut request: Unsigned<'_>, now: SystemTime) -> String {
        signer.sign(&mut request, now);
        header(&request, "authorization").to_owned()
    }

    /// From the tests of the vendor's own crate, `aliyun-log-sdk-sign` 0.2.2.
    #[test]
    fn version_1_as_the_vendors_rust_client_signs() {
        let body = b"\n            {\"key\": \"value\"}\n        ";
        let query = [("line", "100"), ("offset", "0"), ("type", "log")];
        let pull = [("count", "1000"), ("cursor", "MTczNzY2OTAzNjAxNzIxODQ1NA=="), ("type", "log")];
        for (token, path, query, expected) in [
            (None, "/logstores/test-logstore", query, "4pL2xZJERC3tPKtRiHh9+nMG3tI="),
            (Some("test-security-token"), "/logstores/test-logstore", query, "ZQt+0wIvpd+O9yIJKeKxZTJ2hv0="),
            (Some("test-security-token"), "/logstores/test/shards/2", pull, "K3rw5WXRe77aZ/meSyEa8NNUYFc="),
        ] {
            let signer = signer(("test-access-key-id", "test-access-key"), token, SignatureVersion::V1, "");
            let headers = vec![("content-type", "application/json".to_owned())];
            let request = Unsigned { method: "POST", path, query: &query, headers, body };
            assert_eq!(authorization(&signer, request, UNIX_EPOCH), format!("LOG test-access-key-id:{expected}"));
        }
        let anonymous = signer(("", ""), None, SignatureVersion::V1, "");
        let request = Unsigned { method: "GET", path: "/", query: &[], headers: Vec::new(), body: b"" };
        assert_eq!(authorization(&anonymous, request, UNIX_EPOCH), "LOG :SApFTtfTFKHmzdEdaMe5TjNn+RQ=");
    }

    /// The figures of the tests that the vendor's Go, Java and Python clients share. Those clients sign the headers they
    /// are given; ours adds the API version to them, which has to be undone here.
    #[test]
    fn version_4_as_the_vendors_other_clients_sign() {
        let now = UNIX_EPOCH + Duration::from_secs(1_659_929_010);
        assert_eq!(iso_8601_basic(now), "20220808T032330Z");
        let test_headers = || vec![("x-log-test", "het123".to_owned()), ("x-acs-ppp", "dds".to_owned())];
        let query = [("", "efg"), (" abc", "efg"), (" agc ", ""), ("A-bc", "eFg")];
        let body: &[u8] = b"adasd= -asd zcas";
        for (region, method, query, headers, body, expected) in [
            (
                "cn-hangzhou",
                "POST",
                &query[..],
                test_headers(),
                body,
                "a98f5632e93836e63839cd836a54055f480020a9364ca944e2d34f2eb9bf1bed",
            ),
            (
                "cn-shanghai",
                "POST",
                &[],
                Vec::new(),
                body,
                "8a10a5e723cb2e75964816de660b2c16a58af8bc0261f7f0722d832468c76ce8",
            ),
            (
                "cn-hangzhou",
                "POST",
                &query,
                test_headers(),
                b"",
                "5a66d8f8051983e0e9d08e0f960ef9252ef971eead5bb5c7acec8617a2eb2701",
            ),
            (
                "cn-hangzhou",
                "GET",
                &query,
                test_headers(),
                b"",
                "d92741852500791d662a8d469ff61627c0559ecd86c3f59b7bf6772b6c62666a",
            ),
        ] {
            let signer = signer(("acsddda21dsd", "zxasdasdasw2"), None, SignatureVersion::V4, region);
            let mut request = Unsigned { method, path: "/logstores", query, headers, body };
            let scope = format!("20220808/{region}/sls/aliyun_v4_request");
            let expected = format!("SLS4-HMAC-SHA256 Credential=acsddda21dsd/{scope},Signature={expected}");
            assert_eq!(signer.version_4(&signer.credentials.current(), &mut request, now), expected);
        }
    }

    #[test]
    fn values_are_encoded_as_the_vendors_clients_do() {
        assert_eq!(
            percent_encoded("123abc!@#$%^&*()-=_+ ~|\\/").to_string(),
            "123abc%21%40%23%24%25%5E%26%2A%28%29-%3D_%2B%20~%7C%5C%2F"
        );
    }

    fn credentials(token: usize) -> Credentials {
        Credentials {
            key_id: "id".to_owned(),
            key_secret: "secret".to_owned(),
            security_token: Some(token.to_string()),
        }
    }

    #[test]
    fn credentials_are_read_again_and_kept_while_unreadable() {
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
