//! Frames as a server writes them.

pub fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes(), content].concat()
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

/// An array of strings.
pub fn strings(mut rest: &[u8]) -> Vec<String> {
    let count = u32::from_be_bytes(rest.split_off(..4).unwrap().try_into().unwrap());
    let mut next = |_| {
        let length = u16::from_be_bytes(rest.split_off(..2).unwrap().try_into().unwrap());
        String::from_utf8(rest.split_off(..usize::from(length)).unwrap().to_vec()).unwrap()
    };
    (0..count).map(&mut next).collect()
}

/// `PublishConfirm` of a publisher.
pub fn confirm_of(publisher: u8, ids: &[u64]) -> Vec<u8> {
    let mut content = vec![0, 3, 0, 1, publisher];
    content.extend((ids.len() as u32).to_be_bytes());
    ids.iter().for_each(|id| content.extend(id.to_be_bytes()));
    framed(&content)
}

/// `PublishConfirm` of publisher 0.
pub fn confirm(ids: &[u64]) -> Vec<u8> {
    confirm_of(0, ids)
}

/// `PublishError` of publisher 0.
pub fn error(ids: &[u64], code: u16) -> Vec<u8> {
    let mut content = vec![0, 4, 0, 1, 0];
    content.extend((ids.len() as u32).to_be_bytes());
    for id in ids {
        content.extend(id.to_be_bytes());
        content.extend(code.to_be_bytes());
    }
    framed(&content)
}

/// `Close`.
pub fn close(code: u16, reason: &str) -> Vec<u8> {
    let mut content = vec![0, 22, 0, 1, 0, 0, 0, 1];
    content.extend(code.to_be_bytes());
    content.extend(string(reason));
    framed(&content)
}

/// `MetadataUpdate` about a stream.
pub fn metadata_update(code: u16, stream: &str) -> Vec<u8> {
    let mut content = vec![0, 16, 0, 1];
    content.extend(code.to_be_bytes());
    content.extend(string(stream));
    framed(&content)
}

/// A map of strings: keys and values in turn.
pub fn pairs(mut rest: Vec<u8>) -> Vec<String> {
    let count = u32::from_be_bytes(rest[..4].try_into().unwrap());
    rest[..4].copy_from_slice(&(2 * count).to_be_bytes());
    strings(&rest)
}

/// The protocol's number for the kind of place, and the offset, or 0.
pub fn offset_specification(rest: &[u8]) -> (u16, u64) {
    let kind = u16::from_be_bytes([rest[0], rest[1]]);
    let offset = rest.get(2..10).filter(|_| kind > 3);
    (kind, offset.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap())))
}

/// The stream and the offset of a `StoreOffset`, behind its version.
pub fn store_offset(rest: &[u8]) -> (String, u64) {
    let (names, offset) = rest.split_at(rest.len() - 8);
    let counted = [&2u32.to_be_bytes(), names].concat();
    (strings(&counted).remove(1), u64::from_be_bytes(offset.try_into().unwrap()))
}

/// `ConsumerUpdate` of a subscription.
pub fn consumer_update(correlation: u32, subscription: u8, active: bool) -> Vec<u8> {
    framed(&[&[0, 26, 0, 1][..], &correlation.to_be_bytes(), &[subscription, u8::from(active)]].concat())
}

/// `Deliver` of a subscription: a chunk of such messages, which begins at an offset.
pub fn deliver(subscription: u8, first_offset: u64, messages: &[&[u8]]) -> Vec<u8> {
    let count = messages.len() as u16;
    let data: Vec<u8> =
        messages.iter().flat_map(|message| [&(message.len() as u32).to_be_bytes(), *message].concat()).collect();
    let mut content = vec![0, 8, 0, 1, subscription, 0x50, 0];
    content.extend(count.to_be_bytes());
    content.extend(u32::from(count).to_be_bytes());
    // The time and the epoch.
    content.extend([0; 16]);
    content.extend(first_offset.to_be_bytes());
    content.extend(crc32fast::hash(&data).to_be_bytes());
    content.extend((data.len() as u32).to_be_bytes());
    content.extend([0; 8]);
    content.extend(data);
    framed(&content)
}
