use super::*;

#[test]
fn zeros_share_one_stretch() {
    let draft = zeros(&Size::Choices(vec![(10, 1.0), (1000, 1.0)]), 64, 1).unwrap();
    assert_eq!(draft.bytes, vec![0; 1000]);
    assert_eq!(draft.ranges.len(), 64);
}

#[test]
fn the_stated_share_of_every_payload_repeats_one_byte() {
    let draft = random(&Size::Fixed(1000), 0.75, 8, 1).unwrap();
    for range in draft.ranges {
        let payload = &draft.bytes[range];
        let last = payload[999];
        let run = payload.iter().rev().take_while(|byte| **byte == last).count();
        assert!((750..755).contains(&run), "{run}");
    }
}

#[test]
fn random_bytes_are_spread_evenly() {
    let draft = random(&Size::Fixed(256_000), 0.0, 1, 1).unwrap();
    let mut counts = [0_i64; 256];
    draft.bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    // Chi-squared with 255 degrees of freedom: beyond 330.5 with probability 0.001.
    let chi_squared: f64 = counts.iter().map(|count| ((count - 1000) * (count - 1000)) as f64 / 1000.0).sum();
    assert!(chi_squared < 330.5, "{chi_squared}");
}

#[test]
fn too_large_a_pool_is_refused_before_it_is_made() {
    for make in [zeros(&Size::Fixed(usize::MAX), 2, 1), random(&Size::Fixed(usize::MAX), 0.0, 2, 1)] {
        assert!(matches!(make, Err(LoadError::PoolTooLarge { .. })));
    }
    assert!(zeros(&Size::Fixed(1), usize::MAX, 1).is_err());
}

#[test]
fn floats_are_little_endian_and_uniform() {
    let draft = vectors(1 << 15, 2, 1).unwrap();
    assert_eq!(draft.ranges, [0..1 << 17, 1 << 17..1 << 18]);
    let floats = draft.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    assert!(floats.clone().all(|float| (0.0..1.0).contains(&float)));
    let mean = floats.map(f64::from).sum::<f64>() / f64::from(1 << 16);
    // The mean of 65,536 has a standard deviation of 0.0011.
    assert!((mean - 0.5).abs() < 0.0045, "{mean}");
}

/// The heads of the MessagePack specification: `bin 8`, `bin 16` and `bin 32`, with big-endian lengths.
#[test]
fn each_payload_is_one_value_of_bytes() {
    for (size, head) in [(10, &[0xc4, 10][..]), (300, &[0xc5, 1, 44]), (70_000, &[0xc6, 0, 1, 0x11, 0x70])] {
        let draft = message_pack(&Size::Fixed(size), 4, 1).unwrap();
        let mut bodies = Vec::new();
        for range in draft.ranges {
            let body = draft.bytes[range].strip_prefix(head).expect("the head");
            assert_eq!(body.len(), size);
            bodies.push(body);
        }
        assert!(bodies.windows(2).all(|two| two[0] != two[1]), "random");
    }
}
