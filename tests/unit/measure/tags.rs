use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn every_field_comes_back(
        producer_index in 0..MAX_PRODUCERS, sequence in 0..UNKNOWN_SEQUENCE, sent in 0..1u64 << 54,
        delay in 0..400_000_000_000u64, measured: bool, service in 0..1u64 << 53,
        later in 0..TURN_NS - TICK_NS,
    ) {
        let sent = sent / TICK_NS * TICK_NS;
        let send_tag = SendTag::new(producer_index, sequence, sent, delay, measured);
        prop_assert_eq!(send_tag.producer_index(), producer_index);
        prop_assert_eq!(send_tag.sequence(), sequence);
        prop_assert_eq!(send_tag.measured(), measured);
        prop_assert_eq!(send_tag.service_ns(sent + service), service / TICK_NS * TICK_NS);
        let told = send_tag.schedule_delay_ns();
        prop_assert!(told <= delay && delay - told <= delay / 4096 + TICK_NS, "{told} for {delay}");
        let restored = SendTag::from_word(send_tag.to_word(), sequence, sent + later);
        prop_assert_eq!(restored, send_tag);
    }
}

#[test]
fn a_service_time_of_any_length_is_told_whole() {
    let sent_ns = 5_000_000_000;
    for seconds in [0, 429, 430, 480, 2_000, 86_400] {
        let service_ns = seconds * 1_000_000_000;
        let send_tag = SendTag::new(7, 3, sent_ns, 0, true);
        assert_eq!(send_tag.service_ns(sent_ns + service_ns), service_ns);
    }
    assert_eq!(SendTag::new(7, 3, sent_ns, 0, true).service_ns(sent_ns - 100), 0, "a clock read a little before");
}

#[test]
fn answer_just_before_its_sending_has_no_service_time() {
    let send_tag = SendTag::new(0, 0, 5_000, 0, true);
    assert_eq!(SendTag::from_word(send_tag.to_word(), 0, 4_000).service_ns(4_000), 0);
}

#[test]
fn short_delays_are_exact_and_endless_ones_saturate() {
    for delay in [0, 100, 819_100] {
        assert_eq!(SendTag::new(0, 0, 0, delay, true).schedule_delay_ns(), delay);
    }
    let endless = SendTag::new(0, 0, 0, u64::MAX, true).schedule_delay_ns();
    assert!(endless > 400_000_000_000, "{endless}");
}

proptest! {
    /// Producers that send a few messages at a time, in any order, some of them measured, with payloads of any size.
    #[test]
    fn every_message_comes_back(sent in proptest::collection::vec((0..3_usize, 1..5_u64, 0..3_u64, any::<bool>(), 0..=u32::MAX / 2), 0..40)) {
        let mut next = [0; 3];
        let (mut runs, mut all, mut bytes) = (SendRuns::default(), Vec::new(), 0);
        for (producer, messages, moment, measured, payload_bytes) in sent {
            for _ in 0..messages {
                let send_tag = SendTag::new(producer, next[producer], moment * 1_000, 0, measured);
                next[producer] += 1;
                runs.push(send_tag, payload_bytes);
                all.push(send_tag);
                bytes += u64::from(payload_bytes);
            }
        }
        prop_assert_eq!(runs.messages(), all.len());
        prop_assert_eq!(runs.runs().iter().map(|run| u64::from(run.payload_bytes)).sum::<u64>(), bytes);
        prop_assert_eq!(runs.send_tags().collect::<Vec<_>>(), all);
    }
}

#[test]
fn messages_that_were_sent_together_take_one_entry() {
    let mut runs = SendRuns::default();
    (0..500).for_each(|number| runs.push(SendTag::new(1, number, 100, 0, true), 10));
    (500..700).for_each(|number| runs.push(SendTag::new(1, number, 200, 0, true), 10));
    let entries: Vec<_> = runs.runs().iter().map(|run| (run.messages, run.payload_bytes)).collect();
    assert_eq!(entries, [(500, 5_000), (200, 2_000)]);
}

proptest! {
    #[test]
    fn what_was_sealed_is_opened_and_any_flipped_bit_is_noticed(
        producer in 0..1u32 << 14, sequence: u64, intended_ns: u64, measured: bool, run_tag: u32,
        content in proptest::collection::vec(any::<u8>(), 0..100), flip in 0..8 * 132usize,
    ) {
        let trace_header = TraceHeader { run_tag, producer, measured, sequence, intended_ns };
        let mut message = vec![0; TRACE_HEADER_BYTES];
        message.extend(&content);
        trace_header.seal(&mut message, crc32fast::hash(&content));
        prop_assert_eq!(TraceHeader::open(&message, &message[TRACE_HEADER_BYTES..], run_tag), Opened::Intact(trace_header));
        prop_assert_eq!(TraceHeader::open(&message, &content, run_tag ^ 1), Opened::Foreign);
        prop_assert_eq!(TraceHeader::sequence_of(&message), Some(sequence));
        let flip = flip % (message.len() * 8);
        message[flip / 8] ^= 1 << (flip % 8);
        let expected = if flip < 64 { Opened::Foreign } else { Opened::Corrupt };
        prop_assert_eq!(TraceHeader::open(&message, &message[TRACE_HEADER_BYTES..], run_tag), expected);
    }
}

#[test]
fn a_short_message_is_foreign() {
    assert_eq!(TraceHeader::open(b"BMK1", b"", 0), Opened::Foreign);
    assert_eq!(TraceHeader::sequence_of(b"BMK1"), None);
}
