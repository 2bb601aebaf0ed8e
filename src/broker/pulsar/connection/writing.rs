//! The task that writes: everything that has been added since the last write goes out in one.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{Shared, WRITE_BUFFER_BYTES};
use crate::broker::pulsar::error::RequestError;

/// Writes until the connection breaks.
pub async fn write(shared: Arc<Shared>, mut writer: Box<dyn AsyncWrite + Send + Unpin>) {
    let mut frames = Vec::new();
    loop {
        shared.outgoing.notified().await;
        // Producers that were woken together get to add theirs before the first write.
        tokio::task::yield_now().await;
        loop {
            if !shared.swap_write_buffer(&mut frames) {
                return;
            }
            if frames.is_empty() {
                break;
            }
            if frames.len() >= WRITE_BUFFER_BYTES {
                shared.capacity.notify_waiters();
            }
            let written = match writer.write_all(&frames).await {
                Ok(()) => writer.flush().await,
                failed => failed,
            };
            if let Err(error) = written {
                shared.lose(RequestError::lost(format!("the connection broke while sending: {error}")));
                return;
            }
            frames.clear();
            // One huge message must not hold its memory for ever.
            frames.shrink_to(WRITE_BUFFER_BYTES);
        }
    }
}
