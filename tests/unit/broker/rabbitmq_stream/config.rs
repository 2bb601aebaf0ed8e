use super::*;

#[test]
fn settings_are_read_with_their_units() {
    let options: RabbitmqStreamOptions = toml::from_str(
        "body = \"binary\"\nsub_entry = 100\ncompression = \"zstd\"\nmax_length = \"1GiB\"\nmax_age = \"2h\"\n\
             leader_locator = \"client-local\"\nstart = { timestamp = \"1970-01-01T00:00:05Z\" }",
    )
    .unwrap();
    assert_eq!((options.body, options.sub_entry), (Body::Binary, Some(100)));
    assert_eq!((options.compression, options.start), (Compression::Zstd, Some(Offset::Timestamp(5000))));
    let arguments = options.arguments(3);
    let expected = [
        ("initial-cluster-size", "3"),
        ("max-length-bytes", "1073741824"),
        ("max-age", "7200s"),
        ("queue-leader-locator", "client-local"),
    ];
    assert_eq!(arguments, expected.map(|(key, value)| (key, value.to_owned())));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (text, words) in [
        ("heartbeat = \"0s\"", "once in 1s"),
        ("credit = 0", "nothing would ever be received"),
        ("sub_entry = 0", "at least 1"),
        ("filter = \"value\"", "key"),
        ("filters = []", "one value or more"),
        ("filters = [\"\"]", "1 to 200"),
        ("confirm_timeout = \"0s\"", "10ms"),
        ("publisher = \"\"", "1 to 200"),
        ("start = \"earliest\"", "\"first\""),
        ("start = { offset = -1 }", "{ offset = 5 }"),
        ("compression = \"brotli\"", "zstd"),
        ("frame_bytes = \"1000B\"", "1KiB"),
        ("frame_bytes = \"4GiB\"", "1KiB"),
        ("name = \"x\"", "unknown field `name`"),
    ] {
        let error = toml::from_str::<RabbitmqStreamOptions>(text).unwrap_err();
        assert!(error.message().contains(words), "{text}: {error}");
    }
}

#[test]
fn settings_without_those_that_they_need_are_refused() {
    let check = |text: &str| toml::from_str::<RabbitmqStreamOptions>(text).unwrap().check();
    assert!(check("compression = \"zstd\"").is_err_and(|error| error.contains("sub_entry")));
    assert_eq!(check("compression = \"zstd\"\nsub_entry = 10"), Ok(()));
    assert_eq!(check("compression = \"none\""), Ok(()));
    assert!(check("consume_from = \"replica\"\nconnect_to = \"addresses\"").is_err());
    assert_eq!(check("consume_from = \"replica\"\nconnect_to = \"load-balancer\""), Ok(()));
    assert!(check("filter = \"key\"\nsub_entry = 5").is_err_and(|error| error.contains("sub_entry")));
    assert!(check("match_unfiltered = true").is_err_and(|error| error.contains("filters")));
    assert!(check("filters = [\"a\"]\nbody = \"binary\"").is_err_and(|error| error.contains("amqp")));
    assert_eq!(check("filters = [\"a\"]\nmatch_unfiltered = true\nfilter = \"key\""), Ok(()));
    assert!(check("resend = true").is_err_and(|error| error.contains("publisher")));
    for cut in ["heartbeat = \"1500ms\"", "max_age = \"90100ms\"", "max_age = \"0s\""] {
        assert!(check(cut).is_err_and(|error| error.contains("whole seconds")), "{cut}");
    }
}

#[test]
fn publishers_of_each_process_have_a_name_of_their_own() {
    let name = |text: &str, first_producer: usize| {
        let mut options: RabbitmqStreamOptions = toml::from_str(text).unwrap();
        options.name_process(first_producer);
        options.publisher
    };
    assert_eq!(name("publisher = \"orders\"", 0).as_deref(), Some("orders"));
    assert_eq!(name("publisher = \"orders\"", 3).as_deref(), Some("orders-from-3"));
    assert_eq!(name("", 3), None);
}
