//! The endpoint of Aliyun's log service, as far as writing logs and reading them back go: it can be had offline, it refuses
//! on request, and it accounts for every log it accepted.
//!
//! It shares no code with the producer it is there to judge: signatures, protobuf and compression are read here in their own
//! way, from the service's documentation.
//!
//! - `options`: its settings.
//! - `server`: connections, with bounds on all that a client may cost.
//! - `patient`: a connection whose client must take what it is sent.
//! - `request`: the response to a request.
//! - `management`: requests that manage log stores. `signature`: signatures.
//! - `decode`: bodies of logs.
//! - `stores`: log stores, their shards and their quota.
//! - `faults`: errors on purpose.
//! - `account`: what happened, to be read over HTTP.

mod account;
pub mod decode;
mod faults;
mod management;
mod options;
mod patient;
mod request;
mod server;
mod signature;
mod stores;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

pub use self::faults::{FaultKind, FaultRule};
pub use self::options::{Basis, EmulatorOptions, Entrance, Key, parse_shard_rate};
use self::request::Endpoint;
use crate::net::tls::server_config;
use crate::notices::notice;

/// A running endpoint; it ends when it is dropped.
pub struct Emulator {
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Emulator {
    /// Listens at the entrance.
    ///
    /// # Errors
    /// A sentence, when the address cannot be listened at or a certificate cannot be used.
    pub fn start(options: &EmulatorOptions, entrance: Entrance) -> Result<Self, String> {
        let tls = entrance.tls.as_ref().map(|(certificate, key)| server_config(certificate, key)).transpose()?;
        let tls = tls.map(TlsAcceptor::from);
        let listen = &entrance.listen;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("sls-emulator")
            .enable_all()
            .build()
            .map_err(|error| format!("the emulated endpoint gets no threads: {error}"))?;
        let refused = |error: std::io::Error| format!("the emulated endpoint cannot listen at {listen}: {error}");
        let socket = std::net::TcpListener::bind(listen).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let patience = options.patience;
        let endpoint = Arc::new(Endpoint::new(options, entrance.key));
        runtime.spawn(async move {
            match tokio::net::TcpListener::from_std(socket) {
                Ok(listener) => server::serve(listener, tls, endpoint, patience).await,
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
