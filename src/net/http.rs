//! HTTP/1.1 as a client. [`HttpClient`] has a connection for each request: for the admin interfaces and the metrics of servers, with
//! the same rules of addresses and TLS as the brokers' own connections. SLS keeps connections for many requests; it opens them and
//! reads responses by [`handshake`] and [`read_body`].

#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, LOCATION};
use hyper::rt::{Read, Write};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
#[cfg(feature = "tls")]
use rustls::ClientConfig;
use tokio::net::TcpStream;

#[cfg(feature = "tls")]
use super::connect;
use super::tcp;

/// Most bytes of a response: the statistics of a server with very many topics.
const MAX_BYTES: usize = 256 << 20;

/// Sends requests.
#[derive(Clone)]
pub struct HttpClient {
    /// The TLS of URLs that begin with `https`.
    #[cfg(feature = "tls")]
    tls: Option<Arc<ClientConfig>>,
    /// Time limit for the whole of a request.
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
    /// The URL of a redirect.
    pub location: Option<String>,
    pub text: String,
}

impl HttpClient {
    /// A client of `http://` URLs only.
    pub fn without_tls(timeout: Duration) -> Self {
        HttpClient {
            #[cfg(feature = "tls")]
            tls: None,
            timeout,
        }
    }

    #[cfg(feature = "tls")]
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
            respond(TokioIo::new(stream), built).await
        } else {
            self.respond_encrypted(&address, stream, built).await
        }
    }

    #[cfg(feature = "tls")]
    async fn respond_encrypted(
        &self,
        address: &str,
        stream: TcpStream,
        request: Request<Full<Bytes>>,
    ) -> Result<HttpResponse, String> {
        let tls = self.tls.clone().ok_or_else(|| format!("https://{address} needs TLS"))?;
        let stream = connect::encrypt(tls, address, stream).await.map_err(|error| sentence(&error))?;
        respond(TokioIo::new(stream), request).await
    }

    #[cfg(not(feature = "tls"))]
    async fn respond_encrypted(
        &self,
        address: &str,
        _: TcpStream,
        _: Request<Full<Bytes>>,
    ) -> Result<HttpResponse, String> {
        Err(format!("https://{address} needs TLS, which this build does not have"))
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
    let mut sender = handshake(io).await.map_err(|error| sentence(&error))?;
    let response = sender.send_request(request).await.map_err(|error| sentence(&error))?;
    let (head, body) = response.into_parts();
    let body = read_body(body, MAX_BYTES).await?;
    let location = head.headers.get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
    Ok(HttpResponse { status: head.status.as_u16(), location, text: String::from_utf8_lossy(&body).into_owned() })
}

/// Starts HTTP/1.1 on a connection.
///
/// # Errors
/// When the connection fails.
pub async fn handshake(io: impl Read + Write + Unpin + Send + 'static) -> hyper::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(io).await?;
    // The task ends with the connection or with its sender. The sender returns the connection's error.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Reads the whole body of a response.
///
/// # Errors
/// A sentence, when the connection fails or the body has more than `max_bytes`.
pub async fn read_body(body: Incoming, max_bytes: usize) -> Result<Bytes, String> {
    let body = Limited::new(body, max_bytes).collect().await.map_err(|error| error.to_string())?;
    Ok(body.to_bytes())
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

/// A value as it stands in a URL or a form: everything but the unreserved characters of RFC 3986, section 2.3, as `%` and two digits.
pub fn percent_encoded(value: &str) -> PercentEncode<'_> {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(value, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_keeps_unreserved_characters() {
        assert_eq!(percent_encoded("a-Z.9_~").to_string(), "a-Z.9_~");
        assert_eq!(percent_encoded("https://x/?ü=").to_string(), "https%3A%2F%2Fx%2F%3F%C3%BC%3D");
        assert_eq!(percent_encoded("orders-1.a_b#ephemeral").to_string(), "orders-1.a_b%23ephemeral");
    }

    #[tokio::test]
    async fn https_without_tls_is_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let request = HttpRequest { method: "GET", url: &url, ..HttpRequest::default() };
        let refused = HttpClient::without_tls(Duration::from_secs(5)).send(&request).await;
        assert!(refused.is_err_and(|reason| reason.contains("needs TLS")));
    }
}
