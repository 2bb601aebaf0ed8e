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
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The key of the examples in the reference's page on signatures.
    fn example_key() -> Key {
        Key {
            id: "bq2sjzesjmo86kq35behupbq".to_owned(),
            secret: "4fdO2fTDDnZPU/L7CHNdemB2Nsk=".to_owned(),
            security_token: None,
        }
    }

    /// Both examples of the reference's page on signatures.
    #[test]
    fn version_1_is_what_the_reference_says() {
        let get = headers(&[
            ("date", "Mon, 09 Nov 2015 06:11:16 GMT"),
            ("x-log-apiversion", "0.6.0"),
            ("x-log-signaturemethod", "hmac-sha1"),
            ("authorization", "LOG bq2sjzesjmo86kq35behupbq:jEYOTCJs2e88o+y5F4/S5IsnBJQ="),
        ]);
        let offsets = query(&[("logstoreName", ""), ("offset", "0"), ("size", "1000")]);
        let mut asked = Asked { method: "GET", path: "/logstores", query: &offsets, headers: &get, has_body: false };
        let then: Timestamp = "2015-11-09T06:11:16Z".parse().unwrap();
        assert_eq!(example_key().prove(&asked, then), Ok(()));
        let later = then + jiff::SignedDuration::from_mins(16);
        assert_eq!(example_key().prove(&asked, later).unwrap_err().0, "RequestTimeExpired");
        asked.path = "/logstore";
        assert_eq!(example_key().prove(&asked, then).unwrap_err().0, "SignatureNotMatch");

        let post = headers(&[
            ("date", "Mon, 09 Nov 2015 06:03:03 GMT"),
            ("x-log-apiversion", "0.6.0"),
            ("x-log-signaturemethod", "hmac-sha1"),
            ("x-log-bodyrawsize", "50"),
            ("x-log-compresstype", "lz4"),
            ("content-md5", "1DD45FA4A70A9300CC9FE7305AF2C494"),
            ("content-type", "application/x-protobuf"),
            ("authorization", "LOG bq2sjzesjmo86kq35behupbq:XWLGYHGg2F2hcfxWxMLiNkGki6g="),
        ]);
        // The page does not show the body itself.
        let asked =
            Asked { method: "POST", path: "/logstores/test-logstore", query: &[], headers: &post, has_body: true };
        assert_eq!(example_key().prove(&asked, then), Ok(()));
        let signature = SignatureCheck::new(Some(example_key()));
        assert_eq!(signature.admit_body(&asked, b"?").unwrap_err().0, "PostBodyInvalid");
    }

    /// A figure of the tests that the vendor's Go, Java and Python clients share.
    #[test]
    fn version_4_is_what_the_vendors_clients_sign() {
        let key = Key { id: "acsddda21dsd".to_owned(), secret: "zxasdasdasw2".to_owned(), security_token: None };
        let signature = "d92741852500791d662a8d469ff61627c0559ecd86c3f59b7bf6772b6c62666a";
        let credential = "acsddda21dsd/20220808/cn-hangzhou/sls/aliyun_v4_request";
        let authorization = format!("SLS4-HMAC-SHA256 Credential={credential},Signature={signature}");
        let headers = headers(&[
            ("x-log-date", "20220808T032330Z"),
            ("x-log-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("x-log-test", "het123"),
            ("x-acs-ppp", "dds"),
            ("authorization", &authorization),
        ]);
        let query = query(&[("", "efg"), (" abc", "efg"), (" agc ", ""), ("A-bc", "eFg")]);
        let mut asked = Asked { method: "GET", path: "/logstores", query: &query, headers: &headers, has_body: false };
        let then: Timestamp = "2022-08-08T03:23:30Z".parse().unwrap();
        assert_eq!(key.prove(&asked, then), Ok(()));
        let signature = SignatureCheck::new(Some(key.clone()));
        assert_eq!(signature.admit_body(&asked, b""), Ok(()));
        assert_eq!(signature.admit_body(&asked, b"?").unwrap_err().0, "SignatureNotMatch");
        asked.method = "POST";
        assert_eq!(key.prove(&asked, then).unwrap_err().0, "SignatureNotMatch");
    }

    #[test]
    fn what_the_reference_requires_is_missed() {
        let all = [
            ("host", "p.example"),
            ("x-log-apiversion", "0.6.0"),
            ("x-log-signaturemethod", "hmac-sha1"),
            ("content-type", "application/x-protobuf"),
            ("content-md5", "0CC175B9C0F1B6A831C399E269772661"),
            ("date", "Mon, 09 Nov 2015 06:11:16 GMT"),
            ("authorization", "LOG bq2sjzesjmo86kq35behupbq:AAAA"),
        ];
        let signature = SignatureCheck::new(Some(example_key()));
        let then: Timestamp = "2015-11-09T06:11:16Z".parse().unwrap();
        let refused = |pairs: &[(&'static str, &str)]| {
            let headers = headers(pairs);
            let asked = Asked { method: "POST", path: "/", query: &[], headers: &headers, has_body: true };
            signature.admit(&asked, then).unwrap_err().0
        };
        assert_eq!(refused(&all), "SignatureNotMatch");
        for (name, code) in [
            ("host", "MissingHost"),
            ("x-log-apiversion", "MissingAPIVersion"),
            ("x-log-signaturemethod", "MissingSignatureMethod"),
            ("content-type", "MissingContentType"),
            ("content-md5", "MissingContentMD5"),
            ("date", "MissingDate"),
            ("authorization", "Unauthorized"),
        ] {
            let rest: Vec<_> = all.into_iter().filter(|(known, _)| *known != name).collect();
            assert_eq!(refused(&rest), code, "without {name}");
        }
        for (name, value, code) in [
            ("x-log-apiversion", "0.5.0", "InvalidAPIVersion"),
            ("x-log-signaturemethod", "md5", "InvalidSignatureMethod"),
            ("content-type", "text/plain", "InvalidContentType"),
            ("date", "yesterday", "InvalidDateFormat"),
            ("authorization", "LOG somebody:AAAA", "Unauthorized"),
        ] {
            let changed = all.map(|(known, old)| (known, if known == name { value } else { old }));
            assert_eq!(refused(&changed), code, "{name}: {value}");
        }
        let token = [&all[..], &[("x-acs-security-token", "unknown")]].concat();
        assert_eq!(refused(&token), "Unauthorized");
    }
}
