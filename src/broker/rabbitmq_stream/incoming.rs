//! Takes the next frame from a connection's read buffer. The server's `Close` is answered and ends the connection.

use std::io;

use super::codec::code;
use super::codec::command;
use super::codec::frame::{Frame, decode};
use super::error::ConnectError;
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};

/// The next frame that has arrived completely; `None`: no frame is complete. It is never a `Close`.
///
/// # Errors
/// When the server closes the connection, with its reason, or the bytes are not the protocol.
#[inline]
pub fn next<'a>(
    read_buffer: &'a mut ReadBuffer,
    write_buffer: &mut WriteBuffer,
    transport: &Transport,
) -> Result<Option<Frame<'a>>, ConnectError> {
    let frame = read_buffer.next(decode)?;
    if let Some(Frame::Close { correlation, code, reason }) = frame {
        command::close_response(&mut write_buffer.bytes, correlation);
        // The server waits for it before it closes. A failed write changes nothing: the connection ends anyway.
        let _ = write_buffer.flush(transport);
        let message = format!("the server closes it: {} ({reason})", code::name(code));
        return Err(ConnectError::Io(io::Error::other(message)));
    }
    Ok(frame)
}
