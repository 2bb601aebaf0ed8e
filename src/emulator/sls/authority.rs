//! Whether a request is who it says it is: both versions of the service's signatures, from its API reference alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

use super::decode::Refusal;

/// How far a client's clock may be off, in seconds.
const MOST_SKEW_SECONDS: i64 = 15 * 60;

/// Lets in one key.
pub struct Authority {
    key: Option<(String, String)>,
}

/// The parts of a request that a signature covers.
pub struct Asked<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Decoded.
    pub query: &'a [(String, String)],
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

impl Asked<'_> {
    /// A header as text; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
    }
}

impl Authority {
    pub fn new(key: Option<(String, String)>) -> Self {
        Authority { key }
    }

    /// # Errors
    /// The code and sentence of the refusal.
    pub fn admit(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let md5 = asked.header("content-md5");
        let computed = digits(&Md5::digest(asked.body));
        if !md5.is_empty() && !md5.eq_ignore_ascii_case(&computed) {
            return Err(("PostBodyInvalid", "Content-MD5 is not the body's".to_owned()));
        }
        let Some((id, secret)) = &self.key else { return Ok(()) };
        let authorization = asked.header("authorization");
        if let Some(rest) = authorization.strip_prefix("LOG ") {
            if md5.is_empty() && !asked.body.is_empty() {
                return Err(("MissingContentMD5", "a body without Content-MD5".to_owned()));
            }
            let (claimed_id, signature) = rest.split_once(':').unwrap_or((rest, ""));
            known(claimed_id, id)?;
            let date = [asked.header("x-log-date"), asked.header("date")].into_iter().find(|date| !date.is_empty());
            timely(date.and_then(internet_date))?;
            // The date that is signed may be either header's: proxies change the standard one.
            let dates = [asked.header("date"), asked.header("x-log-date")];
            let matches = dates.iter().any(|date| {
                let text = first_text(asked, md5, date);
                Hmac::<Sha1>::new_from_slice(secret.as_bytes()).is_ok_and(|mut mac| {
                    mac.update(text.as_bytes());
                    STANDARD.decode(signature).is_ok_and(|given| mac.verify_slice(&given).is_ok())
                })
            });
            return if matches { Ok(()) } else { Err(mismatch()) };
        }
        if let Some(rest) = authorization.strip_prefix("SLS4-HMAC-SHA256 ") {
            return fourth(asked, rest, id, secret);
        }
        Err(("Unauthorized", "no signature of a version that is known".to_owned()))
    }
}

fn mismatch() -> Refusal {
    ("SignatureNotMatch", "the signature is another one".to_owned())
}

fn known(claimed: &str, id: &str) -> Result<(), Refusal> {
    if claimed == id { Ok(()) } else { Err(("Unauthorized", "the access key id is not known".to_owned())) }
}

fn timely(date: Option<jiff::Timestamp>) -> Result<(), Refusal> {
    let date = date.ok_or(("InvalidDateFormat", "no date, or none that can be read".to_owned()))?;
    if date.as_second().abs_diff(jiff::Timestamp::now().as_second()) > MOST_SKEW_SECONDS as u64 {
        return Err(("RequestTimeExpired", "the request's date is more than 15 minutes off".to_owned()));
    }
    Ok(())
}

fn internet_date(text: &str) -> Option<jiff::Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp())
}

/// What version 1 signs.
fn first_text(asked: &Asked<'_>, md5: &str, date: &str) -> String {
    let mut lines =
        vec![asked.method.to_owned(), md5.to_owned(), asked.header("content-type").to_owned(), date.to_owned()];
    let mut own: Vec<String> = asked
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default().trim()))
        .filter(|(name, _)| name.starts_with("x-log-") || name.starts_with("x-acs-"))
        // Sent beside `Date` for proxies, by clients that sign the latter.
        .filter(|(name, value)| !(*name == "x-log-date" && *value == date))
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    own.sort();
    lines.append(&mut own);
    let mut query: Vec<String> = asked.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    query.sort();
    let resource = if query.is_empty() { asked.path.to_owned() } else { format!("{}?{}", asked.path, query.join("&")) };
    lines.push(resource);
    lines.join("\n")
}

fn fourth(asked: &Asked<'_>, rest: &str, id: &str, secret: &str) -> Result<(), Refusal> {
    let parts = rest.strip_prefix("Credential=").and_then(|rest| rest.split_once(",Signature="));
    let (credential, signature) = parts.ok_or_else(mismatch)?;
    let (claimed_id, scope) = credential.split_once('/').ok_or_else(mismatch)?;
    known(claimed_id, id)?;
    let time = asked.header("x-log-date");
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok();
    timely(date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok()).map(|date| date.timestamp()))?;
    let [day, region, "sls", "aliyun_v4_request"] = scope.split('/').collect::<Vec<_>>()[..] else {
        return Err(mismatch());
    };
    let hash = digits(&Sha256::digest(asked.body)).to_lowercase();
    if asked.header("x-log-content-sha256") != hash || !time.starts_with(day) || day.len() != 8 {
        return Err(mismatch());
    }
    let mut query: Vec<(&str, String)> =
        asked.query.iter().map(|(name, value)| (name.as_str(), escaped(value))).collect();
    query.sort();
    let query: Vec<String> = query
        .into_iter()
        .map(|(name, value)| if value.is_empty() { name.to_owned() } else { format!("{name}={value}") })
        .collect();
    // Nothing says whether `Host` was signed: some of the service's clients do, others do not.
    let matches = [true, false].into_iter().any(|host| {
        let mut headers: Vec<(&str, &str)> = asked
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default().trim()))
            .filter(|(name, _)| {
                let own = name.starts_with("x-log-") || name.starts_with("x-acs-");
                own || *name == "content-type" || (host && *name == "host")
            })
            .collect();
        headers.sort_unstable();
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let parts = [asked.method, asked.path, &query.join("&"), &lines, &names.join(";"), &hash];
        let canonical = digits(&Sha256::digest(parts.join("\n"))).to_lowercase();
        let text = ["SLS4-HMAC-SHA256", time, scope, &canonical].join("\n");
        let start = format!("aliyun_v4{secret}").into_bytes();
        let key = [day, region, "sls", "aliyun_v4_request"].iter().fold(start, |key, part| keyed(&key, part));
        digits(&keyed(&key, &text)).eq_ignore_ascii_case(signature)
    });
    if matches { Ok(()) } else { Err(mismatch()) }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(text).finalize().into_bytes().to_vec(),
        // No length of a key is refused.
        Err(_) => Vec::new(),
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let escape = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}
