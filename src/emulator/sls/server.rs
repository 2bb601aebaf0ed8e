//! Connections: how many, and how long each may take for what.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::patient::Patient;
use super::request::Endpoint;

/// Connections at the same time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// After an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for ever. `patience` is for a handshake, for the head of a request, between two
/// requests, and for a response that the client does not take.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, endpoint: Arc<Endpoint>, patience: Duration) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else {
            // The semaphore is never closed.
            std::future::pending::<()>().await;
            continue;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // It only lowers latency, so a failure is ignored.
        let _ = stream.set_nodelay(true);
        let (endpoint, tls) = (endpoint.clone(), tls.clone());
        tokio::spawn(async move {
            connection(stream, tls, endpoint, patience).await;
            drop(permit);
        });
    }
}

/// However it ends, it is the client's to find out.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, endpoint: Arc<Endpoint>, patience: Duration) {
    match tls {
        None => exchange(TokioIo::new(stream), endpoint, patience).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(patience, tls.accept(stream)).await {
                exchange(TokioIo::new(stream), endpoint, patience).await;
            }
        }
    }
}

async fn exchange<I>(io: I, endpoint: Arc<Endpoint>, patience: Duration)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let answer = service_fn(|request| {
        let endpoint = endpoint.clone();
        async move { endpoint.respond(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(64 << 10)
        .serve_connection(Patient::new(io, patience), answer);
    let _ = served.await;
}
