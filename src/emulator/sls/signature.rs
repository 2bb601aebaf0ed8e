//! Checks the signatures of requests, in both versions of the service, from its API reference alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use jiff::Timestamp;
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

use super::decode::Refusal;
use super::options::Key;

use crate::net::http::percent_encoded;

/// How far a client's clock may be off, in seconds.
const MAX_SKEW_SECONDS: i64 = 15 * 60;

/// The only version of the interface that there is.
const API_VERSION: &str = "0.6.0";

/// How the header of a signature of version 4 begins.
const VERSION_4: &str = "SLS4-HMAC-SHA256 ";

/// Lets in one key.
pub struct SignatureCheck {
    key: Option<Key>,
}

/// The parts of a request that a signature covers: of the body, only the digests that the headers claim.
pub struct Asked<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Decoded.
    pub query: &'a [(String, String)],
    pub headers: &'a HeaderMap,
    pub has_body: bool,
}

impl Asked<'_> {
    /// A header as text; empty if the request does not have it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
    }
}

impl SignatureCheck {
    pub fn new(key: Option<Key>) -> Self {
        SignatureCheck { key }
    }

    /// Checks headers and signature, before the body is read.
    ///
    /// # Errors
    /// The code and sentence of the refusal.
    pub fn admit(&self, asked: &Asked<'_>, now: Timestamp) -> Result<(), Refusal> {
        let Some(key) = &self.key else { return Ok(()) };
        complete(asked)?;
        if asked.header("x-acs-security-token") != key.security_token.as_deref().unwrap_or_default() {
            return Err(("Unauthorized", "the security token is another one".to_owned()));
        }
        key.prove(asked, now)
    }

    /// Checks the body against the digests that the signature covers.
    ///
    /// # Errors
    /// The code and sentence of the refusal.
    pub fn admit_body(&self, asked: &Asked<'_>, body: &[u8]) -> Result<(), Refusal> {
        let md5 = asked.header("content-md5");
        if !md5.is_empty() && md5 != digits(&Md5::digest(body)) {
            return Err(("PostBodyInvalid", "Content-MD5 is not the body's, in capitals".to_owned()));
        }
        let is_of_version_4 = asked.header("authorization").starts_with(VERSION_4);
        let hash = || digits(&Sha256::digest(body)).to_lowercase();
        if self.key.is_some() && is_of_version_4 && asked.header("x-log-content-sha256") != hash() {
            return Err(mismatch());
        }
        Ok(())
    }
}

/// Checks the headers that the reference requires of every request.
fn complete(asked: &Asked<'_>) -> Result<(), Refusal> {
    let missing = |code, name: &str| Err((code, format!("{name} is missing")));
    if asked.header("host").is_empty() {
        return missing("MissingHost", "Host");
    }
    match asked.header("x-log-apiversion") {
        "" => return missing("MissingAPIVersion", "x-log-apiversion"),
        API_VERSION => {}
        other => return Err(("InvalidAPIVersion", format!("version {} is not known", other.escape_default()))),
    }
    if asked.has_body {
        match asked.header("content-type") {
            "" => return missing("MissingContentType", "Content-Type"),
            "application/x-protobuf" | "application/json" => {}
            other => return Err(("InvalidContentType", format!("{} is not accepted", other.escape_default()))),
        }
    }
    Ok(())
}

impl Key {
    /// Whether the request is signed with this key, and now.
    fn prove(&self, asked: &Asked<'_>, now: Timestamp) -> Result<(), Refusal> {
        let authorization = asked.header("authorization");
        if let Some(rest) = authorization.strip_prefix("LOG ") {
            return first(asked, rest, self, now);
        }
        if let Some(rest) = authorization.strip_prefix(VERSION_4) {
            return fourth(asked, rest, self, now);
        }
        Err(("Unauthorized", "no signature of a version that is known".to_owned()))
    }
}

fn first(asked: &Asked<'_>, rest: &str, key: &Key, now: Timestamp) -> Result<(), Refusal> {
    let md5 = asked.header("content-md5");
    if md5.is_empty() && asked.has_body {
        return Err(("MissingContentMD5", "a body without Content-MD5".to_owned()));
    }
    match asked.header("x-log-signaturemethod") {
        "" => return Err(("MissingSignatureMethod", "x-log-signaturemethod is missing".to_owned())),
        "hmac-sha1" => {}
        other => return Err(("InvalidSignatureMethod", format!("{} is not known", other.escape_default()))),
    }
    let (claimed_id, signature) = rest.split_once(':').unwrap_or((rest, ""));
    known(claimed_id, &key.id)?;
    let date = [asked.header("x-log-date"), asked.header("date")].into_iter().find(|date| !date.is_empty());
    let date = date.ok_or(("MissingDate", "Date is missing".to_owned()))?;
    timely(internet_date(date), now)?;
    // The date that is signed may be either header's: proxies change the standard one.
    let dates = [asked.header("date"), asked.header("x-log-date")];
    let matches = dates.iter().any(|date| {
        let text = first_text(asked, md5, date);
        Hmac::<Sha1>::new_from_slice(key.secret.as_bytes()).is_ok_and(|mut mac| {
            mac.update(text.as_bytes());
            STANDARD.decode(signature).is_ok_and(|given| mac.verify_slice(&given).is_ok())
        })
    });
    if matches { Ok(()) } else { Err(mismatch()) }
}

fn mismatch() -> Refusal {
    ("SignatureNotMatch", "the signature is another one".to_owned())
}

fn known(claimed: &str, id: &str) -> Result<(), Refusal> {
    if claimed == id { Ok(()) } else { Err(("Unauthorized", "the access key id is not known".to_owned())) }
}

fn timely(date: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    let date = date.ok_or(("InvalidDateFormat", "the date is missing or malformed".to_owned()))?;
    if date.as_second().abs_diff(now.as_second()) > MAX_SKEW_SECONDS as u64 {
        return Err(("RequestTimeExpired", "the request's date is more than 15 minutes off".to_owned()));
    }
    Ok(())
}

fn internet_date(text: &str) -> Option<Timestamp> {
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

fn fourth(asked: &Asked<'_>, rest: &str, key: &Key, now: Timestamp) -> Result<(), Refusal> {
    let parts = rest.strip_prefix("Credential=").and_then(|rest| rest.split_once(",Signature="));
    let (credential, signature) = parts.ok_or_else(mismatch)?;
    let (claimed_id, scope) = credential.split_once('/').ok_or_else(mismatch)?;
    known(claimed_id, &key.id)?;
    let time = asked.header("x-log-date");
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok();
    timely(date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok()).map(|date| date.timestamp()), now)?;
    let [day, region, "sls", "aliyun_v4_request"] = scope.split('/').collect::<Vec<_>>()[..] else {
        return Err(mismatch());
    };
    let hash = asked.header("x-log-content-sha256");
    if hash.is_empty() || !time.starts_with(day) || day.len() != 8 {
        return Err(mismatch());
    }
    let mut query: Vec<(&str, String)> =
        asked.query.iter().map(|(name, value)| (name.as_str(), percent_encoded(value).to_string())).collect();
    query.sort();
    let query: Vec<String> = query
        .into_iter()
        .map(|(name, value)| if value.is_empty() { name.to_owned() } else { format!("{name}={value}") })
        .collect();
    // A request does not state whether `Host` was signed: only some of the service's clients sign it.
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
        let parts = [asked.method, asked.path, &query.join("&"), &lines, &names.join(";"), hash];
        let canonical = digits(&Sha256::digest(parts.join("\n"))).to_lowercase();
        let text = ["SLS4-HMAC-SHA256", time, scope, &canonical].join("\n");
        let start = format!("aliyun_v4{}", key.secret).into_bytes();
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

#[cfg(test)]
#[path = "../../../tests/unit/emulator/sls/signature.rs"]
mod tests;
