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
    Credentials { key_id: "id".to_owned(), key_secret: "secret".to_owned(), security_token: Some(token.to_string()) }
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
