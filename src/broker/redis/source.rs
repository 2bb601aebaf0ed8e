//! What a member of a group asks the server for, as commands, and what it acknowledges.

use std::task::Context;
use std::time::Duration;

use tokio::time::{Interval, interval};

use super::codec::{append_bulk, append_command, append_count};
use super::config::{Mode, Pop, RedisOptions, Subscribe};
use super::reply::{Expected, Replies};

/// How long a server waits for messages before it replies that there are none.
pub const BLOCK: Duration = Duration::from_secs(5);

/// What is asked for, and what is acknowledged.
pub struct Source {
    pub mode: Mode,
    /// The commands that make a connection listen to a channel, and those that ask for messages otherwise.
    pub subscribe: Vec<u8>,
    pub request: Vec<u8>,
    /// The command that asks for more messages without waiting for any, where a reply had as many as it could have.
    pub more: Vec<u8>,
    pub count: usize,
    /// The command that takes over entries of other members, and when it is due.
    claim: Option<(Vec<u8>, Interval)>,
    /// What an acknowledgement begins with, if there are any, and how many arguments that are.
    acknowledge: Option<(Vec<u8>, usize)>,
    /// The ids, or the messages, that were taken and not acknowledged, as arguments, and how many these are.
    pub taken: Vec<u8>,
    pub taken_count: usize,
}

impl Source {
    /// `group` and `member` are names.
    pub fn new(options: &RedisOptions, topic: &str, group: &str, member: &str) -> Self {
        let own_list = own_list(topic, member);
        let (topic, group, member, own_list) =
            (topic.as_bytes(), group.as_bytes(), member.as_bytes(), own_list.as_bytes());
        let count = options.count.to_string();
        let (block_ms, block_s) = (BLOCK.as_millis().to_string(), BLOCK.as_secs().to_string());
        let command = |arguments: &[&[u8]]| {
            let mut command = Vec::new();
            append_command(&mut command, arguments);
            command
        };
        let prefix = |arguments: &[&[u8]]| {
            let mut prefix = Vec::new();
            arguments.iter().for_each(|argument| append_bulk(&mut prefix, argument));
            (prefix, arguments.len())
        };
        let mut source = Source {
            mode: options.mode,
            subscribe: Vec::new(),
            request: Vec::new(),
            more: Vec::new(),
            count: options.count.get() as usize,
            claim: None,
            acknowledge: None,
            taken: Vec::new(),
            taken_count: 0,
        };
        match (options.mode, options.pop) {
            (Mode::Streams, _) => {
                let mut read: Vec<&[u8]> = vec![b"XREADGROUP", b"GROUP", group, member, b"COUNT", count.as_bytes()];
                match options.acknowledge {
                    true => source.acknowledge = Some(prefix(&[b"XACK", topic, group])),
                    false => read.push(b"NOACK"),
                }
                let streams = [&b"STREAMS"[..], topic, b">"];
                source.more = command(&[&read[..], &streams].concat());
                source.request = command(&[&read[..], &[b"BLOCK", block_ms.as_bytes()], &streams].concat());
                source.claim = options.claim_after.map(|after| {
                    let idle = after.as_millis().to_string();
                    let claim: [&[u8]; 8] =
                        [b"XAUTOCLAIM", topic, group, member, idle.as_bytes(), b"0-0", b"COUNT", count.as_bytes()];
                    (command(&claim), interval(after.max(Duration::from_millis(2)) / 2))
                });
            }
            (Mode::Pubsub, _) => {
                source.subscribe = match options.subscribe {
                    Subscribe::Channel => command(&[b"SUBSCRIBE", topic]),
                    Subscribe::Pattern => command(&[b"PSUBSCRIBE", &pattern(topic)]),
                    Subscribe::Sharded => command(&[b"SSUBSCRIBE", topic]),
                };
                source.request = command(&[b"PING"]);
            }
            (Mode::List, Pop::Brpop) => source.request = command(&[b"BRPOP", topic, block_s.as_bytes()]),
            (Mode::List, Pop::Blmpop) => {
                let pop: [&[u8]; 5] = [b"1", topic, b"RIGHT", b"COUNT", count.as_bytes()];
                let (at_once, blocking): ([&[u8]; 1], [&[u8]; 2]) = ([b"LMPOP"], [b"BLMPOP", block_s.as_bytes()]);
                source.more = command(&[&at_once[..], &pop].concat());
                source.request = command(&[&blocking[..], &pop].concat());
            }
            (Mode::List, Pop::Blmove) => {
                source.request = command(&[b"BLMOVE", topic, own_list, b"RIGHT", b"LEFT", block_s.as_bytes()]);
                source.acknowledge = Some(prefix(&[b"LREM", own_list, b"1"]));
            }
        }
        source
    }

    /// Appends acknowledgements of what was taken, and the next request when the last one is answered.
    pub fn write(&mut self, context: &mut Context<'_>, replies: &mut Replies, out: &mut Vec<u8>) {
        self.write_acknowledgements(replies, out);
        if self.mode == Mode::Pubsub {
            return;
        }
        if let Some((claim, due)) = &mut self.claim
            && due.poll_tick(context).is_ready()
        {
            out.extend_from_slice(claim);
            replies.expected.push_back(Expected::Claimed);
        }
        if replies.expected.contains(&Expected::Messages) && !replies.is_full {
            return;
        }
        // A command that waits would hold up the acknowledgements of messages that are not taken yet.
        out.extend_from_slice(if replies.is_full { &self.more } else { &self.request });
        replies.expected.push_back(Expected::Messages);
        replies.is_full = false;
    }

    pub fn write_acknowledgements(&mut self, replies: &mut Replies, out: &mut Vec<u8>) {
        let Some((prefix, arguments)) = self.acknowledge.as_ref().filter(|_| self.taken_count > 0) else { return };
        append_count(out, b'*', arguments + self.taken_count);
        out.extend_from_slice(prefix);
        out.append(&mut self.taken);
        self.taken_count = 0;
        replies.expected.push_back(Expected::Done);
    }

    #[inline]
    pub fn took(&mut self, acknowledged: &[u8]) {
        if self.acknowledge.is_some() {
            append_bulk(&mut self.taken, acknowledged);
            self.taken_count += 1;
        }
    }
}

/// The list in which a member keeps the message that it works on.
pub fn own_list(topic: &str, member: &str) -> String {
    format!("{topic}:{member}")
}

/// The pattern that only this channel matches (redis.io, `KEYS`).
fn pattern(channel: &[u8]) -> Vec<u8> {
    channel.iter().flat_map(|byte| if b"*?[]^\\".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] }).collect()
}
