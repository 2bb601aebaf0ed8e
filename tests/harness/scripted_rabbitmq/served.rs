//! A connection of a scripted server: what it answers, and what it notes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::frames::{close, framed, metadata_update, offset_specification, pairs, store_offset, string, strings};
use super::{
    CLOSE, CLOSE_RESPONSE, CONSUMER_UPDATE_RESPONSE, HEARTBEAT, Layout, PARTITIONS_OF_A_NODE, Published, Reaction,
    SUPER_STREAM, Seen, Tuning, UpdateResponse,
};

/// A connection as a node sees it.
pub struct Served {
    pub stream: TcpStream,
    pub node: usize,
    pub number: usize,
    /// The number of the publisher that was declared last.
    pub publisher: usize,
    pub tuning: Tuning,
    pub layout: Arc<Layout>,
    pub seen: Arc<Seen>,
}

impl Served {
    pub fn serve(&mut self, react: &dyn Fn(Published) -> Reaction) -> io::Result<()> {
        loop {
            let mut size = [0; 4];
            self.stream.read_exact(&mut size)?;
            let mut frame = vec![0; u32::from_be_bytes(size) as usize];
            self.stream.read_exact(&mut frame)?;
            while self.layout.silent.lock().unwrap().contains(&self.node) {
                thread::park();
            }
            let key = u16::from_be_bytes([frame[0], frame[1]]);
            self.seen.frames.lock().unwrap().push((self.number, key));
            match key {
                // Publish
                2 => {
                    let reaction = react(self.published(&frame[4..]));
                    if let Some(leader) = reaction.leader {
                        self.layout.leader.store(leader, Ordering::SeqCst);
                    }
                    for frame in reaction.frames {
                        self.stream.write_all(&frame)?;
                    }
                    if reaction.hang_up {
                        // Reads on to the end, so that what was written arrives and is not reset away.
                        self.stream.shutdown(Shutdown::Write)?;
                        return io::copy(&mut self.stream, &mut io::sink()).map(drop);
                    }
                }
                // Credit, Tune, Heartbeat and responses do not ask for an answer.
                9 | 20 | HEARTBEAT | CLOSE_RESPONSE => {}
                // StoreOffset
                10 => self.seen.stored.lock().unwrap().push(store_offset(&frame[4..])),
                CONSUMER_UPDATE_RESPONSE => self.note_update(&frame[4..]),
                _ => self.answer(key, &frame[4..])?,
            }
        }
    }

    fn published(&self, rest: &[u8]) -> Published {
        let mut ids = Vec::new();
        let mut at = 5;
        while at < rest.len() {
            ids.push(u64::from_be_bytes(rest[at..at + 8].try_into().unwrap()));
            // A sub-entry has its compression, its count and its uncompressed size before its length.
            at += if rest[at + 8] & 0x80 == 0 { 8 } else { 15 };
            at += 4 + u32::from_be_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        }
        Published { node: self.node, connection: self.publisher, publisher: rest[0], ids }
    }

    /// `rest` begins with the correlation.
    fn answer(&mut self, key: u16, rest: &[u8]) -> io::Result<()> {
        let content = match key {
            // DeclarePublisher
            1 => {
                self.publisher = self.seen.publishers.fetch_add(1, Ordering::SeqCst);
                vec![0, 1]
            }
            // QueryPublisherSequence: there is none.
            5 => [&[0, 1][..], &[0; 8]].concat(),
            // QueryOffset
            11 => self.query_offset(),
            // Subscribe
            7 => {
                let name = usize::from(u16::from_be_bytes([rest[5], rest[6]]));
                let place = &rest[7 + name..];
                let (kind, offset) = offset_specification(place);
                let properties = if kind > 3 { &place[12..] } else { &place[4..] };
                self.seen.properties.lock().unwrap().extend(pairs(properties.to_vec()));
                self.seen.subscribers.lock().unwrap().push(self.stream.try_clone()?);
                self.seen.subscriptions.lock().unwrap().push((kind, offset));
                vec![0, 1]
            }
            // Metadata
            15 => self.metadata(&strings(&rest[4..])),
            // PeerProperties
            17 => vec![0, 1, 0, 0, 0, 0],
            // SaslHandshake
            18 => b"\0\x01\0\0\0\x01\0\x05PLAIN".to_vec(),
            // Open: the node's own address.
            21 => {
                let port = self.layout.ports.lock().unwrap()[self.node].to_string();
                let pairs = [("advertised_host", "127.0.0.1"), ("advertised_port", &port)];
                let pairs = pairs.into_iter().flat_map(|(key, value)| [string(key), string(value)].concat());
                [0, 1, 0, 0, 0, 2].into_iter().chain(pairs).collect()
            }
            // Partitions
            25 => {
                let count = PARTITIONS_OF_A_NODE * self.nodes();
                let names = (0..count).flat_map(|number| string(&format!("{SUPER_STREAM}-{number}")));
                [0, 1].into_iter().chain((count as u32).to_be_bytes()).chain(names).collect()
            }
            // ExchangeCommandVersions: the first version of Publish and, but for an old server, of StreamStats.
            27 if self.tuning.is_old => vec![0, 1, 0, 0, 0, 1, 0, 2, 0, 1, 0, 1],
            27 => vec![0, 1, 0, 0, 0, 2, 0, 2, 0, 1, 0, 1, 0, 28, 0, 1, 0, 1],
            // StreamStats: an empty stream's last chunk is -1.
            28 => {
                let last: i64 = if self.tuning.withholds_chunks { 7 } else { -1 };
                [&[0, 1, 0, 0, 0, 1][..], b"\0\x12committed_chunk_id", &last.to_be_bytes()].concat()
            }
            _ => vec![0, 1],
        };
        let content = match self.tuning.refuses {
            Some(refusing) if refusing.key == key && self.asked(key) > refusing.after => {
                refusing.code.to_be_bytes().to_vec()
            }
            _ => content,
        };
        let mut answer = framed(&[&(key | 0x8000).to_be_bytes(), &[0, 1][..], &rest[..4], &content].concat());
        match key {
            // Tune follows SaslAuthenticate.
            19 if content == [0, 1] => {
                let Tuning { frame_max, heartbeat, .. } = self.tuning;
                answer
                    .extend(framed(&[&[0, 20, 0, 1][..], &frame_max.to_be_bytes(), &heartbeat.to_be_bytes()].concat()));
            }
            // Open
            21 if self.tuning.closes_at_login => answer = close(1, "maintenance"),
            7 if self.tuning.removes_first_subscription && self.seen.subscriptions.lock().unwrap().len() == 1 => {
                let name = usize::from(u16::from_be_bytes([rest[5], rest[6]]));
                answer.extend(metadata_update(6, std::str::from_utf8(&rest[7..7 + name]).unwrap()));
            }
            _ => {}
        }
        self.stream.write_all(&answer)?;
        match key {
            CLOSE => self.stream.shutdown(Shutdown::Both),
            _ => Ok(()),
        }
    }

    /// A response to `ConsumerUpdate`; `rest` begins with the correlation.
    fn note_update(&self, rest: &[u8]) {
        assert_eq!(rest[4..6], [0, 1]);
        let from = offset_specification(&rest[6..]);
        let correlation = u32::from_be_bytes(rest[..4].try_into().unwrap());
        let stored = self.seen.stored.lock().unwrap().last().map(|(_, offset)| *offset);
        self.seen.updates.lock().unwrap().push(UpdateResponse { correlation, from, stored });
    }

    /// What is stored: the last command that was not lost.
    fn query_offset(&self) -> Vec<u8> {
        let stored = self.seen.stored.lock().unwrap();
        let stored = stored.iter().skip(self.tuning.loses_stored).last().map(|(_, offset)| *offset);
        match stored.or(self.tuning.has_stored.then_some(4)) {
            Some(offset) => [&[0, 1][..], &offset.to_be_bytes()].concat(),
            None => [&[0, 0x13][..], &[0; 8]].concat(),
        }
    }

    /// How often a command has come, this time included.
    fn asked(&self, key: u16) -> usize {
        self.seen.frames.lock().unwrap().iter().filter(|(_, asked)| *asked == key).count()
    }

    fn nodes(&self) -> usize {
        self.layout.ports.lock().unwrap().len()
    }

    /// Every stream exists, and every node has it.
    fn metadata(&self, streams: &[String]) -> Vec<u8> {
        let ports = self.layout.ports.lock().unwrap();
        let mut content = (ports.len() as u32).to_be_bytes().to_vec();
        for (node, port) in ports.iter().enumerate() {
            content.extend((node as u16).to_be_bytes());
            content.extend(string("127.0.0.1"));
            content.extend(u32::from(*port).to_be_bytes());
        }
        content.extend((streams.len() as u32).to_be_bytes());
        for stream in streams {
            let partition =
                stream.strip_prefix(&format!("{SUPER_STREAM}-")).map(|number| number.parse::<usize>().unwrap());
            let leader = partition.map_or(self.layout.leader.load(Ordering::SeqCst), |number| number % ports.len());
            content.extend(string(stream));
            content.extend([0, if stream == SUPER_STREAM { 2 } else { 1 }]);
            content.extend((leader as u16).to_be_bytes());
            content.extend((ports.len() as u32 - 1).to_be_bytes());
            let replicas = (0..ports.len()).filter(|node| *node != leader);
            replicas.for_each(|node| content.extend((node as u16).to_be_bytes()));
        }
        content
    }
}
