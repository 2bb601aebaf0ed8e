//! Several messages as one entry with one publishing id, built before a connection is locked.

use std::io;

use super::body::Writer;
use super::codec::compression::compress;
use super::codec::publish::{Publish, SUB_ENTRY_BYTES, record};
use super::connection::Writing;
use super::topic_publishers::TopicPublishers;
use crate::broker::Outgoing;
use crate::broker::compression::Compression;
use crate::measure::SendTag;

/// The sub-entries of a batch.
pub struct SubEntries {
    most: usize,
    compression: Compression,
    plain: Vec<u8>,
    /// All contents, one behind the other.
    content: Vec<u8>,
    entries: Vec<SubEntry>,
    members: Vec<(SendTag, usize)>,
    /// Those of them that are in no entry yet.
    open: usize,
}

struct SubEntry {
    stream: usize,
    messages: u16,
    uncompressed: usize,
    compressed: usize,
}

impl SubEntries {
    /// Of `most` messages each.
    pub fn new(most: u16, compression: Compression) -> Self {
        SubEntries {
            most: usize::from(most),
            compression,
            plain: Vec::new(),
            content: Vec::new(),
            entries: Vec::new(),
            members: Vec::new(),
            open: 0,
        }
    }

    pub fn clear(&mut self) {
        self.plain.clear();
        self.content.clear();
        self.entries.clear();
        self.members.clear();
        self.open = 0;
    }

    /// Adds a message to the entries of its stream, which [`SubEntries::finish`] ends.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn add(
        &mut self,
        stream: usize,
        outgoing: &Outgoing<'_>,
        writer: &Writer,
        most_bytes: usize,
    ) -> io::Result<()> {
        let length = writer.length(outgoing);
        if self.open == self.most || self.plain.len() + 4 + length > most_bytes {
            self.finish(stream)?;
        }
        record(&mut self.plain, length, |out| writer.write(outgoing, out));
        self.members.push((outgoing.send_tag, outgoing.payload.len()));
        self.open += 1;
        Ok(())
    }

    /// Compresses what was added since the last time.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn finish(&mut self, stream: usize) -> io::Result<()> {
        let messages = std::mem::take(&mut self.open) as u16;
        if messages > 0 {
            let begin = self.content.len();
            compress(self.compression, &self.plain, &mut self.content)?;
            let (uncompressed, compressed) = (self.plain.len(), self.content.len() - begin);
            self.entries.push(SubEntry { stream, messages, uncompressed, compressed });
            self.plain.clear();
        }
        Ok(())
    }

    /// Writes those for one connection.
    pub fn write(&self, topic: &TopicPublishers, connection: usize, writing: &mut Writing<'_>) {
        let own = self.entries.iter().filter(|entry| topic.connection_of(entry.stream) == connection);
        let total = own.map(|entry| usize::from(entry.messages)).sum();
        let frame_max = writing.frame_max();
        let (mut members, mut content) = (&self.members[..], &self.content[..]);
        let mut entries = self.entries.iter().peekable();
        while let Some(&&SubEntry { stream, messages, compressed, .. }) = entries.peek() {
            if topic.connection_of(stream) != connection {
                entries.next();
                (members, content) = (&members[usize::from(messages)..], &content[compressed..]);
                continue;
            }
            let (out, pending) = writing.parts(topic.publisher(stream));
            let mut publish = Publish::begin(out, topic.publisher(stream));
            let mut empty = true;
            while let Some(entry) = entries.next_if(|entry| {
                entry.stream == stream
                    && (empty || publish.bytes(out) + SUB_ENTRY_BYTES + entry.compressed <= frame_max)
            }) {
                empty = false;
                let (of_entry, rest) = members.split_at(usize::from(entry.messages));
                members = rest;
                for (number, (send_tag, bytes)) in of_entry.iter().enumerate() {
                    pending.push(*send_tag, *bytes, number + 1 < of_entry.len());
                }
                let (of_entry, rest) = content.split_at(entry.compressed);
                content = rest;
                let (id, number) = (pending.next_id() - 1, self.compression as u8);
                publish.sub_entry(out, id, number, entry.messages, entry.uncompressed, of_entry);
            }
            pending.keep(publish.end(out));
        }
        writing.taken(total);
    }
}
