//! HTTP/1.1 over one connection that is kept alive, to one address, in the name of one host.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_LENGTH, HOST};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::sign::{Signer, Unsigned};
use crate::broker::FailureClass;
use crate::measure::ConditionKind;
use crate::net::connect;
use crate::net::http::{handshake, percent_encoded, read_body, sentence};
use crate::net::tls::{self, Tls, TlsIdentity};
use crate::net::{address, tcp};
use crate::printable::printable;

/// The server of requests, and the host that they name.
pub struct Endpoint {
    /// What is connected to, `host:port`.
    pub address: String,
    /// `{project}.{endpoint}`, with its port where that is not the protocol's own.
    host: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Endpoint {
    /// `address` is the scenario's; `endpoint` the host name of the service, where it is not the address's host. A name is
    /// resolved with the project before it, as the service's names are. An IP address is used as it is.
    ///
    /// # Errors
    /// A sentence about files or names that cannot be used.
    pub fn new(address: &str, endpoint: Option<&str>, project: &str, tls: Option<&Tls>) -> Result<Self, String> {
        let (name, port) = address::split(address).ok_or_else(|| format!("the address \"{address}\" has no port"))?;
        let is_number = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let name = format!("{project}.{}", endpoint.unwrap_or(name));
        let usual = if tls.is_some() { 443 } else { 80 };
        let host = if endpoint.is_some() || port == usual { name.clone() } else { format!("{name}:{port}") };
        if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte)) {
            return Err(format!("\"{host}\" is not the name of a host"));
        }
        let connected = if is_number || endpoint.is_some() { address.to_owned() } else { format!("{name}:{port}") };
        let tls = tls.map(|tls| tls::connector(TlsIdentity::read(tls)?.client_config()?, &name)).transpose()?;
        Ok(Endpoint { address: connected, host, tls })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let failed = |error: &dyn std::error::Error| HttpError::Unreachable(sentence(error));
        let stream = tcp::connect(&self.address).await.map_err(|error| failed(&error))?;
        let opened = match &self.tls {
            None => handshake(TokioIo::new(stream)).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| failed(&connect::explained(error)))?;
                handshake(TokioIo::new(stream)).await
            }
        };
        opened.map_err(|error| failed(&error))
    }
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("cannot connect: {0}")]
    Unreachable(String),
    #[error("the connection broke before the response: {0}")]
    Lost(String),
    #[error("no response within {0:?}")]
    Timeout(Duration),
}

/// A response.
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl HttpResponse {
    /// A header as text; empty if the response does not have it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A request.
#[derive(Default)]
pub struct HttpRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Sorted by name.
    pub query: &'a [(&'a str, &'a str)],
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    /// Most bytes of the response's body.
    pub max_response_bytes: usize,
}

/// Sends requests one after another, over one connection for as long as it lasts.
pub struct Client {
    endpoint: Arc<Endpoint>,
    signer: Arc<Signer>,
    timeout: Duration,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub fn new(endpoint: Arc<Endpoint>, signer: Arc<Signer>, timeout: Duration) -> Self {
        Client { endpoint, signer, timeout, sender: None }
    }

    /// Signs and sends a request, and waits for the whole response.
    ///
    /// # Errors
    /// When there is no response. The request may have arrived nevertheless.
    pub async fn send(&mut self, request: HttpRequest<'_>) -> Result<HttpResponse, HttpError> {
        // Taken out, so that a connection with an outstanding response is never used again.
        let mut sender = self.sender.take().filter(|sender| !sender.is_closed());
        let signed = self.sign(&request);
        let exchange = async {
            let mut open = match sender.take() {
                Some(open) => open,
                None => self.endpoint.connect().await?,
            };
            let lost = |error: hyper::Error| HttpError::Lost(sentence(&error));
            open.ready().await.map_err(lost)?;
            let (head, body) = open.send_request(signed).await.map_err(lost)?.into_parts();
            let body = read_body(body, request.max_response_bytes).await.map_err(HttpError::Lost)?;
            Ok((HttpResponse { status: head.status.as_u16(), headers: head.headers, body }, open))
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(Ok((response, open))) => {
                self.sender = Some(open);
                Ok(response)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(HttpError::Timeout(self.timeout)),
        }
    }

    fn sign(&self, request: &HttpRequest<'_>) -> Request<Full<Bytes>> {
        let mut unsigned = Unsigned {
            method: request.method,
            path: request.path,
            query: request.query,
            headers: request.headers.clone(),
            body: &request.body,
        };
        unsigned.headers.push(("host", self.endpoint.host.clone()));
        self.signer.sign(&mut unsigned, SystemTime::now());
        let pairs: Vec<String> =
            request.query.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let target =
            if pairs.is_empty() { request.path.to_owned() } else { format!("{}?{}", request.path, pairs.join("&")) };
        let mut signed = Request::builder().method(request.method).uri(target);
        for (name, value) in unsigned.headers {
            signed = if name == "host" { signed.header(HOST, value) } else { signed.header(name, value) };
        }
        signed.header(CONTENT_LENGTH, request.body.len()).body(Full::new(request.body.clone())).expect(
            "names are checked when the scenario is read, and everything else is hexadecimal, base64 or a number",
        )
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ServiceError {
    /// The service's own code, or one of the client's: `SocketTimeout`, `NetworkError`, `BadResponse`.
    pub code: String,
    pub message: String,
}

/// Errors after which the service's own producers send again, besides network errors.
const RETRIABLE: [&str; 11] = [
    "unauthorized",
    "writequotaexceed",
    "shardwritequotaexceed",
    "exceedquota",
    "internalservererror",
    "serverbusy",
    "badresponse",
    "projectnotexist",
    "logstorenotexist",
    "sockettimeout",
    "signaturenotmatch",
];

impl ServiceError {
    fn new(code: &str, message: impl Into<String>) -> Self {
        ServiceError { code: printable(code).into_owned(), message: printable(&message.into()).into_owned() }
    }

    /// Ignores case and a final `s`, in which documentation and servers differ (`ProjectNotExist`).
    fn is(&self, codes: &[&str]) -> bool {
        let code = self.code.to_ascii_lowercase();
        codes.iter().any(|known| code == *known || code.strip_suffix('s') == Some(known))
    }

    /// Whether another attempt may succeed.
    pub fn is_retriable(&self) -> bool {
        self.is(&RETRIABLE) || self.is(&["networkerror"])
    }

    /// Whether a quota is exceeded.
    pub fn is_quota(&self) -> bool {
        self.is(&["writequotaexceed", "shardwritequotaexceed", "exceedquota"])
    }

    /// Whether the store, or its project, does not exist.
    pub fn is_unknown_store(&self) -> bool {
        self.is(&["logstorenotexist", "projectnotexist"])
    }

    /// Whether the service knows the credentials, and they lack the right to do this:
    /// <https://github.com/aliyun/aliyun-log-go-sdk/issues/38> shows its words.
    pub fn is_denied(&self) -> bool {
        self.is(&["unauthorized"]) && self.message.contains("denied by sts or ram")
    }

    /// Whether the service refuses the time that a request carries: it is more than 15 minutes off.
    pub fn is_of_the_clock(&self) -> bool {
        self.is(&["requesttimeexpired", "requesttimetooskewed"])
    }

    /// Whether the service refuses the credentials.
    pub fn is_authorisation(&self) -> bool {
        self.is(&["unauthorized", "signaturenotmatch"])
    }

    pub fn class(&self) -> FailureClass {
        match () {
            () if self.is_authorisation() => FailureClass::Authorisation,
            () if self.is_unknown_store() => FailureClass::UnknownTopic,
            () if self.is(&["sockettimeout"]) => FailureClass::Timeout,
            () if self.is(&["networkerror"]) => FailureClass::ConnectionLost,
            () if self.is(&["postbodytoolarge", "invalidlogsize"]) => FailureClass::TooLarge,
            () => FailureClass::Refused,
        }
    }
}

impl ServiceError {
    /// The condition that it shows.
    pub fn condition(&self) -> ConditionKind {
        if self.is_quota() { ConditionKind::Throttled } else { ConditionKind::from_failure(self.class()) }
    }
}

impl From<HttpError> for ServiceError {
    fn from(error: HttpError) -> Self {
        let code = match &error {
            HttpError::Unreachable(_) | HttpError::Lost(_) => "NetworkError",
            HttpError::Timeout(_) => "SocketTimeout",
        };
        ServiceError::new(code, error.to_string())
    }
}

/// The response, if the request succeeded. A response without a request id is not from the service.
///
/// # Errors
/// The service's code and message, or `BadResponse`.
pub fn accepted(response: HttpResponse) -> Result<HttpResponse, ServiceError> {
    let identified = !response.header("x-log-requestid").is_empty();
    if response.status == 200 {
        return match identified {
            true => Ok(response),
            false => Err(ServiceError::new("BadResponse", "status 200, but without the service's request id")),
        };
    }
    #[derive(serde::Deserialize)]
    struct ErrorBody {
        #[serde(rename = "errorCode")]
        code: String,
        #[serde(rename = "errorMessage", default)]
        message: String,
    }
    match serde_json::from_slice::<ErrorBody>(&response.body) {
        Ok(body) => Err(ServiceError { code: body.code, message: body.message }),
        Err(_) => {
            Err(ServiceError::new("BadResponse", format!("status {} without the service's error", response.status)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_the_project_and_the_services_name() {
        let host = |address, endpoint| {
            let endpoint = Endpoint::new(address, endpoint, "p", None).unwrap();
            (endpoint.address, endpoint.host)
        };
        let text = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(host("cn.example:80", None), text("p.cn.example:80", "p.cn.example"));
        assert_eq!(host("127.0.0.1:8080", None), text("127.0.0.1:8080", "p.127.0.0.1:8080"));
        assert_eq!(host("127.0.0.1:8080", Some("cn.example")), text("127.0.0.1:8080", "p.cn.example"));
        assert!(Endpoint::new("127.0.0.1:1", Some("a b"), "p", None).is_err());
    }

    #[test]
    fn each_code_is_of_its_class() {
        for (code, retriable, class) in [
            ("WriteQuotaExceed", true, FailureClass::Refused),
            ("ProjectNotExist", true, FailureClass::UnknownTopic),
            ("LogstoreNotExists", true, FailureClass::UnknownTopic),
            ("LogStoreNotExist", true, FailureClass::UnknownTopic),
            ("Unauthorized", true, FailureClass::Authorisation),
            ("SocketTimeout", true, FailureClass::Timeout),
            ("NetworkError", true, FailureClass::ConnectionLost),
            ("PostBodyTooLarge", false, FailureClass::TooLarge),
            ("PostBodyInvalid", false, FailureClass::Refused),
        ] {
            let error = ServiceError::new(code, "");
            assert_eq!((error.is_retriable(), error.class()), (retriable, class), "{code}");
        }
    }
}
