//! Bytes of another implementation: what Apache Pulsar 4.0.6 sent to its own Java clients, taken from the wire. The messages
//! are those of `pulsar-client produce` (the first) and of `pulsar-perf produce -bm 3`, with each kind of compression.

use prost::Message as _;
use rand::{RngExt, SeedableRng};

use super::entry;
use super::frame::Frame;
use super::proto::{FromBroker, Kind, LookupType};

/// `CommandConnected`.
const CONNECTED: &str = "\
    0000002b0000002708031a230a1250756c73617220536572766572342e302e361015188080c0022206200128013001";

/// `CommandLookupTopicResponse`.
const LOOKUP_RESPONSE: &str = "\
    000000510000004d0818c201480a1870756c7361723a2f2f3132372e302e302e313a3136363539121c70756c7361722b73736c3a\
    2f2f3132372e302e302e313a3136363531180120fec9869bc192ebd13928014001";

/// `CommandProducerSuccess`.
const PRODUCER_SUCCESS: &str = "\
    000000350000003108118a012c08ffc9869bc192ebd13912117374616e64616c6f6e652d35332d34303918ffffffffffffffffff\
    0122003001";

/// `CommandSendReceipt`.
const SEND_RECEIPT: &str = "\
    0000001e0000001a08073a16080010001a05088f03100020ffffffffffffffffff01";

/// A message sent alone, with a key and a property.
const ALONE: &str = "\
    000000630000001a08094a1608001210088f03100018ffffffffffffffffff0128000e017db9a839000000360a117374616e6461\
    6c6f6e652d35332d343039100018c8fcd3e69f34220c0a057472616365120361626332056b65792d314805880100616c6f6e65";

/// A batch of three, not compressed.
const BATCH: &str = "\
    000000f70000001a08094a1608001210088f03100118ffffffffffffffffff0128000e01a5ba1b90000000210a117374616e6461\
    6c6f6e652d35332d343130100018d8acd4e69f345803c0010200000004183240007468652073616d6520616761696e20616e6420\
    616761696e20616e6420616761696e2c207468652073616d6520616761696e00000004183240017468652073616d652061676169\
    6e20616e6420616761696e20616e6420616761696e2c207468652073616d6520616761696e00000004183240027468652073616d\
    6520616761696e20616e6420616761696e20616e6420616761696e2c207468652073616d6520616761696e";

/// A batch of three, compressed with LZ4.
const LZ4: &str = "\
    000000870000001a08094a1608001210088f03101418ffffffffffffffffff0128000e016894234c000000260a117374616e6461\
    6c6f6e652d35332d343131100018ed95d5e69f34400148ae015803c00102fc0b00000004183240007468652073616d6520616761\
    696e20616e640a002a2c202400033a001a0116000f3a00181f023a001a50616761696e";

/// A batch of three, compressed with zlib.
const ZLIB: &str = "\
    000000800000001a08094a1608001210088f03101d18ffffffffffffffffff0128000e01c2ae17e1000000260a117374616e6461\
    6c6f6e652d35332d343132100018b7ffd5e69f34400248ae015803c00102789c626060609130726028c94855284ecc4d55484c4f\
    cccc5348cc4b4167e928a0aa6180e864245b2713e93a01000000ffff";

/// A batch of three, compressed with Zstandard.
const ZSTD: &str = "\
    000000890000001a08094a1608001210088f03102618ffffffffffffffffff0128000e01d718c3ce000000260a117374616e6461\
    6c6f6e652d35332d343133100018eae0d6e69f34400348ae015803c0010228b52ffd24ae750100f0000000041832400074686520\
    73616d6520616761696e20616e642c200102050083480cce75e586a3646c913206b638e707";

/// A batch of three, compressed with Snappy.
const SNAPPY: &str = "\
    000000850000001a08094a1608001210088f03102918ffffffffffffffffff0128000e01af194688000000260a117374616e6461\
    6c6f6e652d35332d343134100018bac3d7e69f34400448ae015803c00102ae016400000004183240007468652073616d65206167\
    61696e20616e643e0a00042c203624000000093a0001361600aa3a000002c63a00";

/// What the batches say, three times.
const TEXT: &str = "the same again and again and again, the same again";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn command(hex: &str) -> FromBroker {
    let bytes = bytes(hex);
    let (frame, taken) = Frame::first(&bytes, 5 << 20).unwrap().unwrap();
    assert_eq!((taken, frame.rest.len()), (bytes.len(), 0));
    FromBroker::decode(frame.command).unwrap()
}

/// The payloads of a `CommandMessage`.
fn payloads(hex: &str) -> Vec<String> {
    let bytes = bytes(hex);
    let (frame, taken) = Frame::first(&bytes, 5 << 20).unwrap().unwrap();
    assert_eq!(taken, bytes.len());
    let command = FromBroker::decode(frame.command).unwrap();
    assert_eq!(command.kind, i32::from(Kind::Message));
    assert_eq!(command.message.unwrap().consumer_id, 0);
    let mut payloads = Vec::new();
    let count = entry::read(frame.rest, 0, false, &mut Vec::new(), &mut |message| {
        payloads.push(String::from_utf8(message.payload.to_vec()).unwrap());
    });
    assert_eq!((count, entry::count(frame.rest)), (Ok(payloads.len()), payloads.len()), "{hex}");
    payloads
}

#[test]
fn what_a_broker_says_to_a_producer_is_understood() {
    let connected = command(CONNECTED).connected.unwrap();
    assert_eq!(connected.server_version, "Pulsar Server4.0.6");
    assert_eq!((connected.protocol_version, connected.max_message_size), (Some(21), Some(5 << 20)));
    let lookup = command(LOOKUP_RESPONSE).lookup_response.unwrap();
    assert_eq!((lookup.response(), lookup.authoritative()), (LookupType::Connect, true));
    // The capturing relay's own port stands in it.
    assert_eq!(lookup.broker_service_url(), "pulsar://127.0.0.1:16659");
    assert_eq!(lookup.broker_service_url_tls(), "pulsar+ssl://127.0.0.1:16651");
    let producer = command(PRODUCER_SUCCESS).producer_success.unwrap();
    assert!(producer.producer_name.starts_with("standalone-"));
    assert_eq!((producer.last_sequence_id, producer.producer_ready), (Some(-1), Some(true)));
    let receipt = command(SEND_RECEIPT).send_receipt.unwrap();
    assert_eq!((receipt.producer_id, receipt.sequence_id), (0, 0));
}

#[test]
fn messages_of_the_java_client_are_read() {
    assert_eq!(payloads(ALONE), ["alone"]);
    for batch in [BATCH, LZ4, ZLIB, ZSTD, SNAPPY] {
        assert_eq!(payloads(batch), [TEXT; 3], "{batch}");
    }
}

/// What `tests/fuzz/fuzz_targets/pulsar_frames.rs` does, of the inputs that are kept for it, whole and with some bytes changed.
#[test]
fn fuzzing_corpus_is_read_or_refused_after_any_change() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/pulsar_frames");
    let mut random = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(17);
    let (mut inputs, mut messages) = (0, 0);
    for file in std::fs::read_dir(corpus).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        inputs += 1;
        for round in 0..500 {
            let mut changed = input.clone();
            for _ in 0..round.min(4) {
                let place = random.random_range(0..changed.len());
                changed[place] = random.random();
            }
            let Ok(Some((frame, _))) = Frame::first(&changed, 1 << 16) else { continue };
            let _ = FromBroker::decode(frame.command);
            let mut handed_over = 0;
            let read = entry::read(frame.rest, 0, false, &mut Vec::new(), &mut |message| {
                handed_over += 1;
                let _ = (message.details.key(), message.details.headers(), message.details.timestamp_unix_ns());
            });
            assert!(read.is_err() || read == Ok(handed_over));
            messages += handed_over;
        }
    }
    assert!(inputs >= 10 && messages > 1000, "{inputs} {messages}");
}
