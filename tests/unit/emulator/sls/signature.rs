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
    let asked = Asked { method: "POST", path: "/logstores/test-logstore", query: &[], headers: &post, has_body: true };
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
