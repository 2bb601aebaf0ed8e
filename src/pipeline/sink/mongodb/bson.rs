//! Writes BSON as it goes, without a document in between: <https://bsonspec.org/spec.html>.

pub(super) const FLOAT: u8 = 0x01;
pub(super) const TEXT: u8 = 0x02;
pub(super) const DOCUMENT: u8 = 0x03;
pub(super) const ARRAY: u8 = 0x04;
pub(super) const BOOLEAN: u8 = 0x08;
pub(super) const NULL: u8 = 0x0a;
pub(super) const INTEGER: u8 = 0x12;

/// Appends elements to a document.
pub(super) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    /// A key ends at a zero byte, so it cannot have one.
    pub fn key(&mut self, kind: u8, name: &str) {
        self.bytes.push(kind);
        self.bytes.extend(name.bytes().filter(|byte| *byte != 0));
        self.bytes.push(0);
    }

    pub fn document(&mut self, content: impl FnOnce(&mut Writer)) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        content(self);
        self.bytes.push(0);
        let length = (self.bytes.len() - begin) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    pub fn nested(&mut self, kind: u8, name: &str, content: impl FnOnce(&mut Writer)) {
        self.key(kind, name);
        self.document(content);
    }

    /// A text's bytes, led by their number and followed by a zero, which counts.
    pub fn measured(&mut self, content: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        content(&mut self.bytes);
        self.bytes.push(0);
        let length = (self.bytes.len() - begin - 4) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    pub fn text(&mut self, name: &str, text: &str) {
        self.key(TEXT, name);
        self.measured(|bytes| bytes.extend_from_slice(text.as_bytes()));
    }

    pub fn integer(&mut self, name: &str, number: i64) {
        self.key(INTEGER, name);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub fn float(&mut self, name: &str, number: f64) {
        self.key(FLOAT, name);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub fn boolean(&mut self, name: &str, value: bool) {
        self.key(BOOLEAN, name);
        self.bytes.push(u8::from(value));
    }
}
