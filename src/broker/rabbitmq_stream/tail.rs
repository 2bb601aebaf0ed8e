//! The offset of `last` and `next` at the moment of the subscription.
//!
//! Both move with the stream. A subscription that is repeated on a new connection must continue where the first one was, so
//! they are resolved to an offset once.

use super::codec::chunk::Chunk;
use super::codec::command::{self, Offset, Request, read_numbers};
use super::codec::frame::Frame;
use super::connect::{Connector, Session};
use super::error::ConnectError;

/// The id of the temporary subscription.
const SUBSCRIPTION: u8 = 0;

/// The offset that `from` means now; `None`: it means the same at any time.
///
/// The session must have no subscriptions.
///
/// # Errors
/// When the server does not respond in time or refuses a request.
pub async fn locate(
    connector: &Connector,
    session: &mut Session,
    stream: &str,
    from: Offset,
) -> Result<Option<u64>, ConnectError> {
    if !matches!(from, Offset::Last | Offset::Next) {
        return Ok(None);
    }
    let stats = connector.within(session.request(&Request::stream_stats(stream), "the stream's figures")).await?;
    let committed = read_numbers(&stats)?.into_iter().find(|(name, _)| name == "committed_chunk_id");
    // Of an empty stream it is -1.
    let Some(committed) = committed.and_then(|(_, offset)| u64::try_from(offset).ok()) else { return Ok(Some(0)) };
    // Only the chunk itself has the count of its messages, which gives the next offset.
    let subscribe = Request::subscribe(SUBSCRIPTION, stream, Offset::Last, 0);
    connector.within(session.request(&subscribe, "the subscription")).await?;
    command::credit(&mut session.write_buffer.bytes, SUBSCRIPTION, 1);
    let located = match connector.within(last_chunk(session, from)).await {
        // The last chunk is the server's own and has no messages: those there were have expired.
        Err(ConnectError::Timeout(_)) => committed,
        located => located?,
    };
    connector.within(session.request(&Request::unsubscribe(SUBSCRIPTION), "the end of a subscription")).await?;
    Ok(Some(located))
}

async fn last_chunk(session: &mut Session, from: Offset) -> Result<u64, ConnectError> {
    session.flush().await?;
    loop {
        if let Frame::Deliver { chunk, .. } = session.next().await? {
            let chunk = Chunk::parse(chunk)?;
            return Ok(match from {
                Offset::Next => chunk.first_offset + u64::from(chunk.records),
                _ => chunk.first_offset,
            });
        }
    }
}
