//! SASL AWS_MSK_IAM: the login of Amazon's MSK, a request `kafka-cluster:Connect` that is signed as AWS wants it (Signature Version 4, by query
//! parameters) and sent as JSON.
//!
//! Source: "Details" of aws/aws-msk-iam-auth's README, and its `AWS4SignedPayloadGenerator`; "Signature Version 4" of AWS's reference.

use std::collections::BTreeMap;
use std::env;

use jiff::Timestamp;

use super::super::error::CallError;
use super::control::ControlConnection;
use super::scram::Hash;
use crate::net::http::percent_encoded;
use crate::scenario::{AwsTable, SaslMechanism, Secret};

const ACTION: &str = "kafka-cluster:Connect";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kafka-cluster";

/// Seconds for which the signature is valid.
const EXPIRES: &str = "900";

/// Who asks, and where.
#[derive(Debug, PartialEq)]
struct Credentials {
    region: String,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
}

/// Logs in at the node at `address` (`host:port`).
///
/// # Errors
/// When credentials are missing, or the node refuses them.
pub async fn log_in(connection: &mut ControlConnection, aws: &AwsTable, address: &str) -> Result<(), CallError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let credentials = Credentials::find(aws, host, variable).map_err(CallError::Unsupported)?;
    connection.sasl_handshake(SaslMechanism::AwsMskIam.name()).await?;
    let payload = payload(&credentials, host, Timestamp::now());
    let answer = connection.sasl_authenticate(payload.to_string().into_bytes()).await?;
    match answer.is_empty() {
        false => Ok(()),
        true => Err(CallError::Authorisation("the broker has not confirmed the login by AWS_MSK_IAM".to_owned())),
    }
}

impl Credentials {
    /// Of the scenario, and of the environment where it has none.
    fn find(aws: &AwsTable, host: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let missing = |name: &str, key: &str| {
            format!("AWS_MSK_IAM needs credentials of AWS: set {name}, or `broker.security.sasl.aws.{key}`")
        };
        let region = aws.region.clone().or_else(|| variable("AWS_REGION")).or_else(|| region_of(host));
        let reveal = |secret: &Option<Secret>| secret.as_ref().map(Secret::reveal).transpose();
        let of_scenario = aws.access_key_id.is_some();
        // A key of the scenario is not completed by the token of another one.
        let or_variable = |written: Option<String>, name: &str| match of_scenario {
            true => written,
            false => variable(name),
        };
        let (id_name, secret_name) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let id = or_variable(reveal(&aws.access_key_id)?, id_name);
        let secret = or_variable(reveal(&aws.secret_access_key)?, secret_name);
        Ok(Credentials {
            region: region.ok_or_else(|| format!("{}: {host} names no region", missing("AWS_REGION", "region")))?,
            access_key_id: id.ok_or_else(|| missing(id_name, "access_key_id"))?,
            secret_access_key: secret.ok_or_else(|| missing(secret_name, "secret_access_key"))?,
            session_token: or_variable(reveal(&aws.session_token)?, "AWS_SESSION_TOKEN"),
        })
    }
}

/// The region in the name of a node of MSK: `b-1.name.id.c2.kafka.eu-west-1.amazonaws.com`, of a serverless cluster
/// `boot-id.c1.kafka-serverless.eu-west-1.amazonaws.com`.
fn region_of(host: &str) -> Option<String> {
    let labels: Vec<&str> = host.split('.').collect();
    let service = labels.iter().rposition(|label| matches!(*label, "kafka" | "kafka-serverless"))?;
    let is_aws = labels.get(service + 2).is_some_and(|label| *label == "amazonaws");
    is_aws.then(|| labels[service + 1].to_owned())
}

/// What is sent to the node.
fn payload(credentials: &Credentials, host: &str, now: Timestamp) -> serde_json::Value {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let scope = format!("{date}/{}/{SERVICE}/aws4_request", credentials.region);
    let mut query = BTreeMap::from([
        ("Action", ACTION.to_owned()),
        ("X-Amz-Algorithm", ALGORITHM.to_owned()),
        ("X-Amz-Credential", format!("{}/{scope}", credentials.access_key_id)),
        ("X-Amz-Date", time.clone()),
        ("X-Amz-Expires", EXPIRES.to_owned()),
        ("X-Amz-SignedHeaders", "host".to_owned()),
    ]);
    query.extend(credentials.session_token.clone().map(|token| ("X-Amz-Security-Token", token)));
    let canonical: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
    let empty = hex(&Hash::Sha256.digest(b""));
    let request = format!("GET\n/\n{}\nhost:{host}\n\nhost\n{empty}", canonical.join("&"));
    let to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(&Hash::Sha256.digest(request.as_bytes())));
    let signature = sign(&credentials.secret_access_key, &[date, &credentials.region, SERVICE], &to_sign);
    let agent = format!("brokermark/{}", env!("CARGO_PKG_VERSION"));
    let own = [("version", "2020_10_22".to_owned()), ("host", host.to_owned()), ("user-agent", agent)];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let signed = query.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let fields = own.chain(signed).chain([("x-amz-signature".to_owned(), signature)]);
    fields.map(|(name, value)| (name, value.into())).collect::<serde_json::Map<_, _>>().into()
}

/// The signature of a text by a key that is derived from the secret for this date, region and service.
fn sign(secret: &str, scope: &[&str; 3], text: &str) -> String {
    let first = format!("AWS4{secret}").into_bytes();
    let parts = scope.iter().copied().chain(["aws4_request", text]);
    hex(&parts.fold(first, |key, part| Hash::Sha256.mac(&key, &[part.as_bytes()])))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/msk_iam.rs"]
mod tests;
