//! HTTP/1.1 for the admin interfaces of brokers: a connection for each request, with the same rules of TLS as the brokers' own
//! connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, LOCATION};
use hyper::rt::{Read, Write};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;

use super::{connect, tcp};

/// Most bytes of a response: the statistics of a server with very many topics.
const MAX_BYTES: usize = 256 << 20;

/// Sends requests.
#[derive(Clone)]
pub struct HttpClient {
    /// For URLs that begin with `https`.
    tls: Option<Arc<ClientConfig>>,
    /// For the whole of a request.
    timeout: Duration,
}

/// A request to an absolute URL.
#[derive(Debug, Clone, Default)]
pub struct HttpRequest<'a> {
    pub method: &'static str,
    pub url: &'a str,
    pub headers: &'a [(&'static str, &'a str)],
    pub body: String,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// Where else to ask.
    pub location: Option<String>,
    pub text: String,
}

impl HttpClient {
    pub fn new(tls: Option<Arc<ClientConfig>>, timeout: Duration) -> Self {
        HttpClient { tls, timeout }
    }

    /// Sends `request` and waits for the whole response. A redirect is a response like others.
    ///
    /// # Errors
    /// A sentence, when there is no response.
    pub async fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, String> {
        let response = tokio::time::timeout(self.timeout, self.exchange(request)).await;
        response.unwrap_or_else(|_| Err(format!("no response within {:?}", self.timeout)))
    }

    async fn exchange(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, String> {
        let uri: Uri = request.url.parse().map_err(|error| format!("{} is not a URL: {error}", request.url))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(format!("{} is not a URL with http:// or https://", request.url));
        };
        let port = authority.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let address = format!("{}:{port}", authority.host());
        let stream = tcp::connect(&address).await.map_err(|error| sentence(&error))?;
        let built = build(request, &uri, authority.as_str())?;
        if scheme == "http" {
            return respond(TokioIo::new(stream), built).await;
        }
        let tls = self.tls.clone().ok_or_else(|| format!("{} needs TLS", request.url))?;
        let stream = connect::encrypt(tls, &address, stream).await.map_err(|error| sentence(&error))?;
        respond(TokioIo::new(stream), built).await
    }
}

fn build(request: &HttpRequest<'_>, uri: &Uri, host: &str) -> Result<Request<Full<Bytes>>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut built = Request::builder().method(request.method).uri(path).header(HOST, host);
    built = built.header(CONNECTION, "close").header(CONTENT_LENGTH, request.body.len());
    for (name, value) in request.headers {
        built = built.header(*name, *value);
    }
    built.body(Full::new(Bytes::from(request.body.clone()))).map_err(|error| error.to_string())
}

async fn respond(
    io: impl Read + Write + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<HttpResponse, String> {
    let (mut sender, connection) = http1::handshake(io).await.map_err(|error| sentence(&error))?;
    // The task ends with the connection; the sender returns the connection's error.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(|error| sentence(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
    let location = head.headers.get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    Ok(HttpResponse { status: head.status.as_u16(), location, text })
}

/// An error with its causes, which hyper's message omits.
pub fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
