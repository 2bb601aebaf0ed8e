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
