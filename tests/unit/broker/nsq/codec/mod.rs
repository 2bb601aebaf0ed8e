use super::*;

/// Written by go-nsq 1.1.0 and answered by nsqd 1.3.0: a name and hexadecimal digits each.
const CAPTURED: &str = include_str!("../../../../../src/broker/nsq/codec/captured.txt");

fn captured(name: &str) -> Vec<u8> {
    let line = CAPTURED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn commands_are_what_go_nsq_writes() {
    let id = b"0123456789abcdef";
    let messages = [&b"one"[..], b"twelve", b"3"];
    let check = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut written = Vec::new();
        write(&mut written);
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&captured(name)), "{name}");
        assert_eq!(written, captured(name));
    };
    assert_eq!(MAGIC.to_vec(), captured("magic"));
    check("identify", &|out| command::identify(out, b"{\"client_id\":\"a\"}"));
    check("auth", &|out| command::auth(out, b"open sesame"));
    check("pub", &|out| command::publish(out, "orders", b"one"));
    check("dpub", &|out| command::publish_deferred(out, "orders", 1500, b"one"));
    check("mpub", &|out| command::publish_many(out, "orders", messages.iter().copied()));
    check("sub", &|out| command::subscribe(out, "orders", "ch"));
    check("rdy", &|out| command::ready(out, 2500));
    check("fin", &|out| command::finish(out, id));
    check("req", &|out| command::requeue(out, id, 250));
    check("touch", &|out| command::touch(out, id));
    check("nop", &|out| command::nothing(out));
    check("cls", &|out| command::close(out));
}

/// What `tests/fuzz/fuzz_targets/nsq_frames.rs` asserts, of the inputs that are kept for it.
#[test]
fn fuzzing_corpus_is_refused_or_encodes_to_itself() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/nsq_frames");
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let mut rest = &bytes[..];
        while let Ok(Some((frame, length))) = decode(rest, 1 << 16) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            assert_eq!(again, rest[..length]);
            rest = &rest[length..];
        }
        inputs += 1;
    }
    assert!(inputs >= 10, "{inputs}");
}

#[test]
fn nsqd_s_answers_read_as_go_nsq_reads_them() {
    let bytes = captured("answers");
    let mut read = Vec::new();
    let mut rest = &bytes[..];
    while let Some((frame, length)) = decode(rest, 1 << 20).unwrap() {
        read.push(match frame {
            Frame::Response(data) => format!("# frame 0 {:?}", String::from_utf8_lossy(data)),
            Frame::Error(data) => format!("# frame 1 {:?}", String::from_utf8_lossy(data)),
            Frame::Message(Message { timestamp_ns, attempts, id, body }) => {
                let text = |bytes| String::from_utf8_lossy(bytes);
                format!("# message {} {timestamp_ns} {attempts} {:?}", text(id), text(body))
            }
        });
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    let expected: Vec<&str> = CAPTURED.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(read, expected);
}
