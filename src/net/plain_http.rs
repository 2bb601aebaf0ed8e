//! One GET over HTTP/1.1 without TLS: for the metrics of servers.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;

use super::tcp;

/// Most bytes of a response: metrics of a server with many thousands of topics.
const MAX_BYTES: usize = 64 << 20;

/// The text at a URL that begins with `http://`.
///
/// # Errors
/// A sentence, when there is no response within `limit`, or one of another status than 200.
pub async fn get(url: &str, limit: Duration) -> Result<String, String> {
    let response = tokio::time::timeout(limit, exchange(url)).await;
    response.unwrap_or_else(|_| Err(format!("no response within {limit:?}")))
}

async fn exchange(url: &str) -> Result<String, String> {
    let uri: Uri = url.parse().map_err(|error| format!("this is not a URL: {error}"))?;
    let authority = uri.authority().ok_or("the URL has no host")?;
    let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
    let stream = tcp::connect(&address);
    let io = TokioIo::new(stream.await.map_err(|error| error.to_string())?);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header(HOST, authority.as_str()).header(ACCEPT, "text/plain");
    let request = request.header(CONNECTION, "close").body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(io).await.map_err(|error| error.to_string())?;
    // The task ends with the connection; the sender returns the connection's error.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if response.status() != hyper::StatusCode::OK {
        return Err(format!("it answered with status {}", response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}
