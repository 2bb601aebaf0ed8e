//! The offsets of `last` and `next` at the moment of the subscription.
//!
//! Both move with the stream. A subscription that is repeated on a new connection must continue where the first one was, so
//! they are resolved to offsets once, for all streams of a connection together.

use std::time::Duration;

use super::codec::chunk::Chunk;
use super::codec::command::{self, Offset, Request};
use super::codec::frame::Frame;
use super::codec::response::read_numbers;
use super::connect::Session;
use super::error::ConnectError;
use super::stream_progress::Numbered;
use crate::net::connect::within;

/// How long the last chunks may take to arrive, all together.
const LAST_CHUNKS: Duration = Duration::from_secs(5);

/// Gives each place of the group the offset that it means now, unless it means the same at any time. Each request takes
/// `limit` at most.
///
/// The session must have no subscriptions.
///
/// # Errors
/// When the server does not respond in time or refuses a request.
pub async fn locate(session: &mut Session, group: &mut [Numbered], limit: Duration) -> Result<(), ConnectError> {
    let mut awaited = Vec::new();
    for (id, (_, place)) in group.iter_mut().enumerate() {
        if place.next.is_some() || !matches!(place.from, Offset::Last | Offset::Next) {
            continue;
        }
        let request = Request::stream_stats(&place.stream);
        let stats = within(limit, session.request(&request, "the stream's figures")).await?;
        let committed = read_numbers(&stats)?.into_iter().find(|(name, _)| name == "committed_chunk_id");
        // Of an empty stream it is -1.
        match committed.and_then(|(_, offset)| u64::try_from(offset).ok()) {
            None => place.next = Some(0),
            // Only the chunk itself has the count of its messages, which gives the next offset.
            Some(committed) => {
                let subscribe = Request::subscribe(id as u8, &place.stream, Offset::Last, 0, &[]);
                within(limit, session.request(&subscribe, "the subscription")).await?;
                awaited.push((id, committed));
            }
        }
    }
    if awaited.is_empty() {
        return Ok(());
    }
    let mut located = vec![None; group.len()];
    for (id, _) in &awaited {
        command::credit(&mut session.write_buffer.bytes, *id as u8, 1);
    }
    match within(LAST_CHUNKS, last_chunks(session, group, awaited.len(), &mut located)).await {
        Ok(()) | Err(ConnectError::Timeout(_)) => {}
        Err(error) => return Err(error),
    }
    for (id, committed) in awaited {
        // Without a delivery, the last chunk is the server's own and has no messages: those there were have expired.
        group[id].1.next = Some(located[id].unwrap_or(committed));
        within(limit, session.request(&Request::unsubscribe(id as u8), "the end of a subscription")).await?;
    }
    Ok(())
}

/// Waits until `count` last chunks have arrived.
async fn last_chunks(
    session: &mut Session,
    group: &[Numbered],
    count: usize,
    located: &mut [Option<u64>],
) -> Result<(), ConnectError> {
    session.flush().await?;
    while located.iter().flatten().count() < count {
        if let Frame::Deliver { subscription, chunk } = session.next().await?
            && let Some((_, place)) = group.get(usize::from(subscription))
        {
            let chunk = Chunk::parse(chunk)?;
            located[usize::from(subscription)] = Some(match place.from {
                Offset::Next => chunk.next_offset()?,
                _ => chunk.first_offset,
            });
        }
    }
    Ok(())
}
