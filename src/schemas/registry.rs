//! A schema registry, by the REST interface of Confluent's, which Apicurio, Karapace and Redpanda have as well (Confluent Platform
//! documentation, "Schema Registry API Reference").

use crate::net::Tls;
use crate::net::token::TokenSource;
use crate::secrets::Secret;

/// Which registry knows a schema, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    /// Begins with `http://` or `https://`, and does not end with a slash.
    pub url: String,
    /// The name of the schema's versions.
    pub subject: String,
    /// Whether the schema is registered if it is not yet.
    pub register: bool,
    pub login: Login,
    /// Of a URL with `https://`.
    pub tls: Tls,
}

/// How requests log in.
#[derive(Debug, Clone, PartialEq)]
pub enum Login {
    None,
    /// RFC 7617.
    Basic {
        username: String,
        password: Secret,
    },
    /// RFC 6750.
    Bearer(TokenSource),
}

#[cfg(not(feature = "schemas"))]
impl Registry {
    /// No schema was read without the feature, so none is asked for.
    ///
    /// # Errors
    /// Always.
    pub async fn find(&self, _: &super::Codec) -> Result<super::PayloadSchema, String> {
        Err("this build has no schemas: build brokermark with `--features schemas`".to_owned())
    }
}

#[cfg(feature = "schemas")]
mod client {
    use std::time::Duration;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::super::{Codec, PayloadSchema, SchemaType};
    use super::{Login, Registry};
    use crate::net::http::{HttpClient, HttpRequest, HttpResponse, percent_encoded};
    use crate::net::tls::client_config;
    use crate::net::token::Token;
    use crate::printable::printable;

    /// Time limit for each request.
    const LIMIT: Duration = Duration::from_secs(10);
    const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";

    impl Registry {
        /// Registers the schema, or looks it up by its text, as the scenario says. A schema that is registered already keeps its id.
        ///
        /// # Errors
        /// A sentence without a secret: what the registry says, and what to do.
        pub async fn find(&self, codec: &Codec) -> Result<PayloadSchema, String> {
            let mut body = json!({ "schema": codec.text });
            // Avro is what registries assume, and older ones know no other.
            match codec.schema_type {
                SchemaType::Avro => {}
                SchemaType::Json => body["schemaType"] = "JSON".into(),
                SchemaType::Protobuf => body["schemaType"] = "PROTOBUF".into(),
            }
            let versions = if self.register { "/versions" } else { "" };
            let url = format!("{}/subjects/{}{versions}", self.url, percent_encoded(&self.subject));
            let response = self.post(&url, body.to_string()).await.map_err(|reason| {
                format!("{reason}; is `payload.schema.registry.url` right, and does the registry run?")
            })?;
            if !(200..300).contains(&response.status) {
                return Err(self.refusal(&url, &response));
            }
            let found: Value = serde_json::from_str(&response.text).unwrap_or_default();
            let number = |key: &str| found[key].as_u64().and_then(|number| u32::try_from(number).ok());
            let id = number("id").ok_or_else(|| {
                format!(
                    "{url} responded without the id of a schema; is `payload.schema.registry.url` that of a registry?"
                )
            })?;
            let (schema_type, subject) = (codec.schema_type, Some(self.subject.clone()));
            Ok(PayloadSchema { schema_type, id, subject, version: number("version") })
        }

        async fn post(&self, url: &str, body: String) -> Result<HttpResponse, String> {
            let authorization = match &self.login {
                Login::None => None,
                Login::Basic { username, password } => {
                    Some(format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.reveal()?))))
                }
                Login::Bearer(source) => {
                    Some(format!("Bearer {}", Token::new(source.clone(), LIMIT)?.current().await?))
                }
            };
            let mut headers = vec![("Content-Type", MEDIA_TYPE), ("Accept", MEDIA_TYPE)];
            headers.extend(authorization.as_deref().map(|value| ("Authorization", value)));
            let tls = url.starts_with("https://").then_some(&self.tls);
            let http = HttpClient::new(client_config(tls)?, LIMIT);
            let request = HttpRequest { method: "POST", url, headers: &headers, body };
            http.send(&request).await.map_err(|reason| format!("{url}: {reason}"))
        }

        /// The message of a response that failed, and what to do (sections "Errors" of the API reference).
        fn refusal(&self, url: &str, response: &HttpResponse) -> String {
            let body: Value = serde_json::from_str(&response.text).unwrap_or_default();
            let said = body["message"].as_str().map(|text| format!(" ({})", printable(text))).unwrap_or_default();
            let subject = &self.subject;
            let advice = match (response.status, body["error_code"].as_u64()) {
                (401, _) => "the registry wants other credentials: set `username` and `password`, or `token`, of `[payload.schema.registry]`".to_owned(),
                (403, _) => format!("the user may not {} the subject `{subject}`", if self.register { "write" } else { "read" }),
                (404, Some(40401)) => format!(
                    "the registry has no subject `{subject}`: correct `payload.schema.registry.subject`, or set `register = true`"
                ),
                (404, Some(40403)) => format!(
                    "the subject `{subject}` has other schemas only: correct `payload.schema.file`, or set `register = true`"
                ),
                (404, _) => "this is not the URL of a registry: correct `payload.schema.registry.url`".to_owned(),
                (409, _) => format!(
                    "the schema is not compatible with those of the subject `{subject}`: correct it, or choose another `subject`"
                ),
                (422, _) => "the registry cannot use the schema: correct `payload.schema.file` and `payload.schema.type`".to_owned(),
                _ => "look into the registry's log".to_owned(),
            };
            format!("{url} responded with HTTP status {}{said}: {advice}", response.status)
        }
    }
}
