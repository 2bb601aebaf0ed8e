//! Connections: how many, and how long each may take for what.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::request::Endpoint;

/// Connections at the same time; more wait to be accepted.
const MOST_CONNECTIONS: usize = 4096;

/// For the head of a request, from its first byte, and between two requests.
const HEAD_TIME: Duration = Duration::from_secs(60);

/// After an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for ever.
pub async fn serve(listener: TcpListener, endpoint: Arc<Endpoint>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else {
            // Nobody closes it.
            std::future::pending::<()>().await;
            continue;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // A small latency gain that no answer depends on.
        let _ = stream.set_nodelay(true);
        let endpoint = endpoint.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let endpoint = endpoint.clone();
                async move { endpoint.answer(request).await }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(stream), answer);
            // However it ends, it is the client's to find out.
            let _ = connection.await;
            drop(place);
        });
    }
}
