//! Requests about exchanges and queues. They have connections of their own: from one that publishes, the server reads nothing while an alarm
//! lasts.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::codec::{
    Frame, Method, TooLong, Value, append_channel_close_ok, append_channel_open, append_close, append_entry,
    append_long, append_method, append_short,
};
use super::config::Exchange;
use super::connect::{ConnectError, Connector, Opened, Role, refusal, text};
use crate::broker::{ClientError, FailureClass, Setup};
use crate::net::backoff::Backoff;
use crate::net::connect::within;
use crate::net::transport::WriteBuffer;

/// The only channel of these connections.
const CHANNEL: u16 = 1;

// Bits of declarations.
const PASSIVE: u8 = 1;
const DURABLE: u8 = 2;

/// A request. What is looked up or declared must not differ from what is there. The server accepts the deletion of what is gone.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    FindExchange(&'a str, Exchange),
    DeclareExchange(&'a str, Exchange),
    DeleteExchange(&'a str),
    FindQueue(&'a str),
    DeclareQueue(&'a str, &'a [(&'a str, Value<'a>)]),
    /// A queue, and the exchange whose messages with the exchange's name it gets.
    Bind(&'a str, &'a str),
    DeleteQueue(&'a str),
}

impl Request<'_> {
    fn append(self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let mut table = Vec::new();
        if let Request::DeclareQueue(_, arguments) = self {
            for (name, value) in arguments {
                append_entry(&mut table, name, *value)?;
            }
        }
        // Names, bits, and whether there is a table: `amqp0-9-1.extended.xml` of RabbitMQ.
        let (method, names, bits, has_table): (_, &[&str], _, _) = match self {
            Request::FindExchange(exchange, kind) => ((40, 10), &[exchange, kind.name()], PASSIVE | DURABLE, true),
            Request::DeclareExchange(exchange, kind) => ((40, 10), &[exchange, kind.name()], DURABLE, true),
            Request::DeleteExchange(exchange) => ((40, 20), &[exchange], 0, false),
            Request::FindQueue(queue) => ((50, 10), &[queue], PASSIVE, true),
            Request::DeclareQueue(queue, _) => ((50, 10), &[queue], DURABLE, true),
            Request::Bind(queue, exchange) => ((50, 20), &[queue, exchange, exchange], 0, true),
            Request::DeleteQueue(queue) => ((50, 40), &[queue], 0, false),
        };
        // Two bytes that are not used any more.
        let mut arguments = vec![0, 0];
        for name in names {
            append_short(&mut arguments, name)?;
        }
        arguments.push(bits);
        if has_table {
            append_long(&mut arguments, &table);
        }
        append_method(out, CHANNEL, method, &arguments);
        Ok(())
    }
}

/// The connections of requests.
pub struct Admin {
    connector: Arc<Connector>,
    /// Those that wait for their next request.
    idle: Mutex<Vec<Opened>>,
}

impl Admin {
    pub fn new(connector: Arc<Connector>) -> Self {
        Admin { connector, idle: Mutex::default() }
    }

    /// Makes requests in their order, up to the first one that is refused. Returns the number of messages that the last response tells. A lost
    /// connection is opened again, and all of them are made again.
    ///
    /// # Errors
    /// When the server refuses one, or no connection opens within `broker.rabbitmq.reconnect`.
    pub async fn ask(&self, requests: &[Request<'_>]) -> Result<u64, ClientError> {
        let until = Instant::now() + self.connector.setup.options.reconnect;
        let mut backoff = Backoff::RECONNECT;
        loop {
            match self.ask_once(requests).await {
                Err(error) if error.class == FailureClass::ConnectionLost && Instant::now() < until => {
                    // The others were lost with it, most likely.
                    self.idle.lock().clear();
                    backoff.pause().await;
                }
                answer => return answer,
            }
        }
    }

    async fn ask_once(&self, requests: &[Request<'_>]) -> Result<u64, ClientError> {
        let Setup { timeout, .. } = &*self.connector.setup;
        let mut out = WriteBuffer::default();
        let idle = self.idle.lock().pop();
        let mut opened = match idle {
            Some(opened) => opened,
            None => {
                append_channel_open(&mut out.bytes, CHANNEL, false);
                self.connector.connect(Role::Admin, 0).await?.0
            }
        };
        let asking = async {
            requests.iter().try_for_each(|request| request.append(&mut out.bytes))?;
            let mut unanswered = requests.len();
            let answer = |frame: Frame<'_>| {
                Ok(match frame {
                    Frame::Method(CHANNEL, Method::Done { messages }) => {
                        unanswered = unanswered.saturating_sub(1);
                        (unanswered == 0).then_some(Ok(messages.into()))
                    }
                    Frame::Method(CHANNEL, Method::Close { code, text }) => Some(Err(refusal(code, self::text(text)))),
                    _ => None,
                })
            };
            let answer = opened.ask(&mut out, answer).await?;
            if answer.is_err() {
                append_channel_close_ok(&mut out.bytes, CHANNEL);
                append_channel_open(&mut out.bytes, CHANNEL, false);
                out.flush_all(&opened.transport).await?;
            }
            Ok::<_, ConnectError>(answer)
        };
        let answer = within(*timeout, asking).await?;
        self.idle.lock().push(opened);
        answer
    }

    /// Ends the connections.
    pub fn close(&self) {
        for Opened { transport, .. } in self.idle.lock().drain(..) {
            let mut out = WriteBuffer::default();
            append_close(&mut out.bytes);
            // It may have been lost.
            let _ = out.flush(&transport);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq/admin.rs"]
mod tests;
