//! The endpoint of Aliyun's log service, as far as writing logs and reading them back go: it can be had offline, it refuses
//! on request, and it accounts for every log it accepted.
//!
//! It shares no code with the producer it is there to judge: signatures, protobuf and compression are read here in their own
//! way, from the service's documentation.
//!
//! - `options`: its settings, and errors on purpose.
//! - `request`: the response to a request. `signature`: signatures. `decode`: bodies of logs.
//! - `stores`: log stores, their shards and quotas, and the account of what happened.
//!
//! This file has the listener and its connections, with bounds on what a client may cost.

pub mod decode;
mod options;
mod request;
mod signature;
mod stores;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

pub use self::options::{Basis, EmulatorOptions, FaultKind, FaultRule, Key, ListenOptions, parse_shard_rate};
use self::request::Endpoint;
use crate::net::tls::server_config;
use crate::notices::notice;

/// Connections at the same time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// The pause after an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// A running endpoint; it ends when it is dropped.
pub struct Emulator {
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Emulator {
    /// Listens as `listen_options` says.
    ///
    /// # Errors
    /// A sentence, when the options cannot be, the address cannot be listened at or a certificate cannot be used.
    pub fn start(options: &EmulatorOptions, listen_options: ListenOptions) -> Result<Self, String> {
        options.check()?;
        let tls = listen_options.tls.as_ref().map(|(certificate, key)| server_config(certificate, key)).transpose()?;
        let tls = tls.map(TlsAcceptor::from);
        let listen = &listen_options.listen;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("sls-emulator")
            .enable_all()
            .build()
            .map_err(|error| format!("the emulated endpoint gets no threads: {error}"))?;
        let refused = |error: io::Error| format!("the emulated endpoint cannot listen at {listen}: {error}");
        let socket = std::net::TcpListener::bind(listen).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let patience = options.patience;
        let endpoint = Arc::new(Endpoint::new(options, listen_options.key));
        runtime.spawn(async move {
            match TcpListener::from_std(socket) {
                Ok(listener) => serve(listener, tls, endpoint, patience).await,
                Err(error) => notice!("brokermark: the emulated endpoint cannot listen: {error}"),
            }
        });
        Ok(Emulator { address, runtime: Some(runtime) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // May happen on a thread that must not wait.
            runtime.shutdown_background();
        }
    }
}

/// Accepts connections without end. `patience` is the limit for a handshake, for the head of a request, between two
/// requests, and for a response that the client does not take.
async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, endpoint: Arc<Endpoint>, patience: Duration) {
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

/// Errors are not reported: the client notices them.
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
    I: Read + Write + Unpin + Send + 'static,
{
    let answer = service_fn(|request| {
        let endpoint = endpoint.clone();
        async move { endpoint.respond(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(64 << 10)
        .serve_connection(WriteTimeout::new(io, patience), answer);
    let _ = served.await;
}

/// A connection whose writes fail after `patience` without progress: a client that reads nothing must not keep its connection for
/// ever.
struct WriteTimeout<I> {
    io: I,
    patience: Duration,
    /// The end of the time that a waiting write has.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<I: Unpin> WriteTimeout<I> {
    fn new(io: I, patience: Duration) -> Self {
        WriteTimeout { io, patience, deadline: None }
    }

    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut I>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.io), context) {
            self.deadline = None;
            return Poll::Ready(done);
        }
        let patience = self.patience;
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: Read + Unpin> Read for WriteTimeout<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: Write + Unpin> Write for WriteTimeout<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.bounded(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, |io, context| io.poll_shutdown(context))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.bounded(context, |io, context| io.poll_write_vectored(context, parts))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn write_fails_only_while_the_client_reads_nothing() {
        let (here, mut there) = tokio::io::duplex(10);
        let mut connection = WriteTimeout::new(TokioIo::new(here), Duration::from_millis(50));
        let mut write = async || poll_fn(|context| Pin::new(&mut connection).poll_write(context, &[0; 20])).await;
        assert_eq!(write().await.unwrap(), 10);
        let reading = tokio::spawn(async move {
            there.read_exact(&mut [0; 10]).await.unwrap();
            there
        });
        let mut there = reading.await.unwrap();
        assert_eq!(write().await.unwrap(), 10, "there is space again");
        assert_eq!(write().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        there.read_exact(&mut [0; 10]).await.unwrap();
    }
}
