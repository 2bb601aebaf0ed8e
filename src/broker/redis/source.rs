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
    /// The command that reads what the member was given and has not acknowledged; empty: the server keeps none of it.
    own: Vec<u8>,
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
        let claim_every = options.claim_after.map(|after| after.max(Duration::from_millis(2)) / 2);
        // A blocked read delays the claims behind it, and the acknowledgements of claimed entries, which other members would claim again.
        let block_ms = claim_every.map_or(BLOCK, |every| every.min(BLOCK)).as_millis().to_string();
        let block_s = BLOCK.as_secs().to_string();
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
            own: Vec::new(),
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
                    true => {
                        source.acknowledge = Some(prefix(&[b"XACK", topic, group]));
                        source.own = command(&[&read[..], &[&b"STREAMS"[..], topic, b"0"]].concat());
                    }
                    false => read.push(b"NOACK"),
                }
                let streams = [&b"STREAMS"[..], topic, b">"];
                source.more = command(&[&read[..], &streams].concat());
                source.request = command(&[&read[..], &[b"BLOCK", block_ms.as_bytes()], &streams].concat());
                source.claim = options.claim_after.zip(claim_every).map(|(after, every)| {
                    let idle = after.as_millis().to_string();
                    let claim: [&[u8]; 8] =
                        [b"XAUTOCLAIM", topic, group, member, idle.as_bytes(), b"0-0", b"COUNT", count.as_bytes()];
                    (command(&claim), interval(every))
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
                // The oldest message of the list, which stays in it until it is acknowledged.
                source.own = command(&[b"LMOVE", own_list, own_list, b"RIGHT", b"LEFT"]);
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
        if replies.reads_own && !self.own.is_empty() {
            if !replies.expected.contains(&Expected::Pending) {
                out.extend_from_slice(&self.own);
                replies.expected.push_back(Expected::Pending);
            }
            return;
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::super::reply::{Head, Messages};
    use super::*;

    #[test]
    fn member_whose_connection_was_lost_first_reads_what_it_was_given() {
        let entries = |left| Head::Messages(Messages { left, redelivered: true, behind: false });
        for (keys, own, empty, acknowledgement, next) in [
            (
                "",
                "XREADGROUP GROUP g m COUNT 500 STREAMS t 0",
                entries(0),
                "XACK t g 1-0",
                "XREADGROUP GROUP g m COUNT 500 BLOCK 5000 STREAMS t >",
            ),
            (
                "mode = 'list'\npop = 'blmove'",
                "LMOVE t:m t:m RIGHT LEFT",
                Head::Done,
                "LREM t:m 1 1-0",
                "BLMOVE t t:m RIGHT LEFT 5",
            ),
        ] {
            let mut source = Source::new(&toml::from_str(keys).unwrap(), "t", "g", "m");
            let mut replies = Replies::after_loss();
            assert_eq!(written(&mut source, &mut replies), own);
            assert_eq!(written(&mut source, &mut replies), "", "the reply has not come");
            replies.begin(&entries(1));
            source.took(b"1-0");
            replies.done();
            assert_eq!(written(&mut source, &mut replies), format!("{acknowledgement} {own}"));
            // Of the acknowledgement.
            replies.done();
            replies.begin(&empty);
            replies.done();
            assert_eq!(written(&mut source, &mut replies), next);
        }
    }

    #[test]
    fn member_for_whom_nothing_is_kept_goes_on_after_a_loss() {
        for (keys, next) in [
            ("acknowledge = false", "XREADGROUP GROUP g m COUNT 500 NOACK BLOCK 5000 STREAMS t >"),
            ("mode = 'list'", "BRPOP t 5"),
        ] {
            let mut source = Source::new(&toml::from_str(keys).unwrap(), "t", "g", "m");
            assert_eq!(written(&mut source, &mut Replies::after_loss()), next);
        }
    }

    #[tokio::test]
    async fn member_that_claims_waits_for_no_longer_than_until_its_next_claim() {
        for (claim_after, block) in [("2s", 1000), ("1min", 5000)] {
            let options = toml::from_str(&format!("claim_after = '{claim_after}'")).unwrap();
            let written = written(&mut Source::new(&options, "t", "g", "m"), &mut Replies::default());
            assert!(
                written.ends_with(&format!("XREADGROUP GROUP g m COUNT 500 BLOCK {block} STREAMS t >")),
                "{written}"
            );
        }
    }

    /// The words of the commands that are written.
    fn written(source: &mut Source, replies: &mut Replies) -> String {
        let mut out = Vec::new();
        source.write(&mut Context::from_waker(Waker::noop()), replies, &mut out);
        let text = String::from_utf8(out).unwrap();
        let words = text.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ")
    }
}
