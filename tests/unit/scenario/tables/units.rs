use super::*;
use proptest::prelude::*;

#[test]
fn what_people_write() {
    assert_eq!(parse_size("100B"), Ok(100));
    assert_eq!(parse_size(" 1.5KiB "), Ok(1536));
    assert_eq!(parse_size("1.1GB"), Ok(1_100_000_000));
    assert_eq!(parse_size("64 kB"), Ok(64_000));
    assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
    assert_eq!(parse_duration("0.5us"), Ok(Duration::from_nanos(500)));
    assert_eq!(parse_duration("2min"), parse_duration("120s"));
    assert_eq!(parse_duration("2m"), parse_duration("120s"));
    assert_eq!(parse_count("20M"), Ok(20_000_000));
    assert_eq!(parse_count("1_000_000"), Ok(1_000_000));
    assert_eq!(parse_rate("100k/s"), Ok(Rate::MessagesPerSecond(100_000.0)));
    assert_eq!(parse_rate("0.5/s"), Ok(Rate::MessagesPerSecond(0.5)));
    assert_eq!(parse_rate("10MiB/s"), Ok(Rate::BytesPerSecond(10_485_760.0)));
}

#[test]
fn what_is_refused_and_why() {
    let refusals = [
        parse_size("100").map(drop),
        parse_size("10 potatoes").map(drop),
        parse_size("0.3B").map(drop),
        parse_size("99999999999GiB").map(drop),
        parse_size("1.2.3B").map(drop),
        parse_duration("30").map(drop),
        parse_duration("-5s").map(drop),
        parse_duration("5 seconds").map(drop),
        parse_count("many").map(drop),
        parse_count("1.5").map(drop),
        parse_rate("100k").map(drop),
        parse_rate("0/s").map(drop),
        parse_rate("5X/s").map(drop),
    ]
    .map(|result| result.unwrap_err().message);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
        "100" is not a size: the unit is missing
        "10 potatoes" is not a size: unknown unit `potatoes`
        "0.3B" is not a size: it is not a whole number of bytes
        "99999999999GiB" is not a size: that is too large
        "1.2.3B" is not a size: that is not a number
        "30" is not a duration: the unit is missing
        "-5s" is not a duration: it does not begin with a number
        "5 seconds" is not a duration: unknown unit `seconds`
        "many" is not a count: it does not begin with a number
        "1.5" is not a count: it is not a whole number
        "100k" is not a rate: it does not end with `/s`
        "0/s" is not a rate: it is zero, so nothing would ever be sent
        "5X/s" is not a rate: unknown unit `X`
        "#);
}

#[test]
fn a_rate_is_only_proposed_that_is_the_one_meant() {
    let advice = |text: &str| parse_rate(text).unwrap_err().advice;
    for (text, meant) in [("10k", "10k/s"), ("500 msgs/sec", "500/s"), ("10MB/second", "10MB/s"), ("7 rps", "7/s")] {
        assert_eq!(advice(text), format!("did you mean \"{meant}\"?"));
    }
    for text in ["600/min", "10k/ms", "5 messages/minute", "1/h"] {
        assert!(advice(text).starts_with("write messages per second"), "{text}");
    }
}

proptest! {
    #[test]
    fn sizes_come_back(value: u64) {
        prop_assert_eq!(parse_size(&format_size(value)), Ok(value));
    }

    #[test]
    fn nothing_panics(text: String) {
        let _ = (parse_size(&text), parse_duration(&text), parse_count(&text), parse_rate(&text));
    }
}
