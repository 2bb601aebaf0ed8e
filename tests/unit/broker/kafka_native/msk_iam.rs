//! What AWS's own client signs in the same way. The signatures of whole logins are those of `SigV4QueryAuth` of botocore 1.43.11, made with the
//! same credentials, host and time.

use std::time::Duration;

use kafka_protocol::messages::{
    RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::*;
use crate::broker::kafka_native::net::control::read_frame;

const HOST: &str = "b-1.orders.abcdef.c2.kafka.eu-west-1.amazonaws.com";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn credentials(session_token: Option<&str>) -> Credentials {
    Credentials {
        region: "eu-west-1".to_owned(),
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: SECRET.to_owned(),
        session_token: session_token.map(str::to_owned),
    }
}

fn time() -> Timestamp {
    "2026-03-01T12:00:05Z".parse().unwrap()
}

/// The example of AWS's reference ("Create a signed AWS API request": `ListUsers` of IAM, 2015-08-30), with its text to sign.
#[test]
fn the_signature_is_that_of_the_published_example() {
    let text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
                f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
    assert_eq!(
        sign(SECRET, &["20150830", "us-east-1", "iam"], text),
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    );
}

#[test]
fn the_login_is_signed_as_another_implementation_signs_it() {
    let login = payload(&credentials(None), HOST, time());
    let expected = serde_json::json!({
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": format!("brokermark/{}", env!("CARGO_PKG_VERSION")),
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIDEXAMPLE/20260301/eu-west-1/kafka-cluster/aws4_request",
        "x-amz-date": "20260301T120005Z",
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-signature": "525397b30c351865c4042609f5f822b6dad3de07efde80cbf063105717a9844c",
    });
    assert_eq!(login, expected);
    let temporary = payload(&credentials(Some("IQoJb3JpZ2luX2VjE/==+token")), HOST, time());
    assert_eq!(temporary["x-amz-security-token"], "IQoJb3JpZ2luX2VjE/==+token");
    assert_eq!(temporary["x-amz-signature"], "09dfb76a133e97edc50b51c4a9f4638ec14c69d1d2e34a6586a07166a4ebdb4c");
}

#[test]
fn credentials_are_of_the_scenario_or_of_the_environment() {
    let environment = |name: &str| {
        let value = match name {
            "AWS_ACCESS_KEY_ID" => "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY" => SECRET,
            "AWS_SESSION_TOKEN" => "session",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let none = AwsTable::default();
    assert_eq!(Credentials::find(&none, HOST, environment), Ok(credentials(Some("session"))));
    let written = AwsTable {
        access_key_id: Some(Secret::Inline("OTHER".to_owned())),
        secret_access_key: Some(Secret::Inline("s3cret".to_owned())),
        region: Some("eu-north-1".to_owned()),
        ..AwsTable::default()
    };
    let found = Credentials::find(&written, HOST, environment).unwrap();
    assert_eq!((found.region.as_str(), found.access_key_id.as_str()), ("eu-north-1", "OTHER"));
    assert_eq!((found.secret_access_key.as_str(), found.session_token), ("s3cret", None));

    let missing = |host: &str, variable: &str| {
        let without = |name: &str| environment(name).filter(|_| name != variable);
        Credentials::find(&none, host, without).unwrap_err()
    };
    assert!(missing(HOST, "AWS_ACCESS_KEY_ID").contains("set AWS_ACCESS_KEY_ID"));
    assert!(missing(HOST, "AWS_SECRET_ACCESS_KEY").contains("`broker.security.sasl.aws.secret_access_key`"));
    assert!(missing("127.0.0.1", "").contains("AWS_REGION"));
}

#[test]
fn the_region_is_in_the_names_of_nodes() {
    assert_eq!(region_of(HOST).as_deref(), Some("eu-west-1"));
    let serverless = "boot-abc.c1.kafka-serverless.us-east-2.amazonaws.com";
    assert_eq!(region_of(serverless).as_deref(), Some("us-east-2"));
    assert_eq!(region_of("b-1.orders.c2.kafka.cn-north-1.amazonaws.com.cn").as_deref(), Some("cn-north-1"));
    assert_eq!(["kafka.example.com", "kafka", "10.0.0.5"].map(region_of), [None, None, None]);
}

/// Reads a request, without its length.
async fn asked<R: Decodable + HeaderVersion>(stream: &mut (impl AsyncRead + Unpin), version: i16) -> (i32, R) {
    let mut frame = read_frame(stream).await.unwrap();
    let header = RequestHeader::decode(&mut frame, R::header_version(version)).unwrap();
    (header.correlation_id, R::decode(&mut frame, version).unwrap())
}

async fn answer<R: Encodable + HeaderVersion>(
    stream: &mut (impl AsyncWrite + Unpin),
    correlation: i32,
    response: R,
    version: i16,
) {
    let mut frame = bytes::BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(correlation);
    header.encode(&mut frame, R::header_version(version)).unwrap();
    response.encode(&mut frame, version).unwrap();
    stream.write_u32(frame.len() as u32).await.unwrap();
    stream.write_all(&frame).await.unwrap();
}

/// A node that takes one login, and answers it so.
async fn login_answered_by(answered: &'static str) -> (String, serde_json::Value, Result<(), CallError>) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let limit = Duration::from_secs(20);
    let mut connection = ControlConnection::new(Box::new(reader), Box::new(writer), "test".to_owned(), limit);
    connection.versions.requests = vec![(17, 0, 1), (36, 0, 2)];
    let node = tokio::spawn(async move {
        let (correlation, handshake) = asked::<SaslHandshakeRequest>(&mut theirs, 1).await;
        answer(&mut theirs, correlation, SaslHandshakeResponse::default(), 1).await;
        let (correlation, login) = asked::<SaslAuthenticateRequest>(&mut theirs, 2).await;
        let confirmed = SaslAuthenticateResponse::default().with_auth_bytes(answered.as_bytes().to_vec().into());
        answer(&mut theirs, correlation, confirmed, 2).await;
        (handshake.mechanism.to_string(), serde_json::from_slice(&login.auth_bytes).unwrap())
    });
    let aws = AwsTable {
        access_key_id: Some(Secret::Inline("AKIDEXAMPLE".to_owned())),
        secret_access_key: Some(Secret::Inline(SECRET.to_owned())),
        ..AwsTable::default()
    };
    let ended = log_in(&mut connection, &aws, &format!("{HOST}:9098")).await;
    let (mechanism, login) = node.await.unwrap();
    (mechanism, login, ended)
}

#[tokio::test]
async fn a_node_is_sent_the_login_and_confirms_it() {
    let (mechanism, login, ended) = login_answered_by(r#"{"version":"2020_10_22","request-id":"1"}"#).await;
    ended.unwrap();
    assert_eq!(mechanism, "AWS_MSK_IAM");
    assert_eq!(login["host"], HOST);
    assert!(!login.to_string().contains(SECRET), "{login}");
    // It is the signature of this moment.
    let sent: Timestamp =
        Timestamp::strptime("%Y%m%dT%H%M%S%z", login["x-amz-date"].as_str().unwrap().replace('Z', "+0000")).unwrap();
    assert_eq!(login["x-amz-signature"], payload(&credentials(None), HOST, sent)["x-amz-signature"]);

    let (_, _, refused) = login_answered_by("").await;
    assert!(matches!(refused, Err(CallError::Authorisation(_))), "{refused:?}");
}
