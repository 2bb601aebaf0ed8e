//! The sinks themselves: their commands, their proof before the load, rows that they refuse or have already, and rows that are
//! removed after the run.

use super::{assert_balanced, found, of_class, pipeline, scenario, to_mongodb, to_redis, topology, unique};
use crate::harness::databases::{ask_redis, documents, make_unique, mongodb, redis, redis_server};
use crate::harness::{Bench, finding, kafka, reasons};
use brokermark::broker::FailureClass;
use brokermark::record::{ReadBack, ReasonKind};

#[test]
fn real_redis_receives_the_configured_commands() {
    let server = redis_server("pipeline-commands", 16584, "--requirepass sesame");
    let options = "password = \"sesame\"\n";
    let sinks = [
        to_redis(&server.address(), &format!("{options}prefix = \"plain:\"\ntransaction = false")),
        to_redis(&server.address(), &format!("{options}command = \"hset\"\nname = \"hash\"\ndatabase = 1")),
        to_redis(&server.address(), &format!("{options}command = \"xadd\"\nname = \"stream\"")),
    ];
    let record = Bench::new(&scenario("", "", &sinks, "[run]\nmessages = 2000")).run(&[]).expect(0).record();
    assert_balanced(&record, 2000);
    // Ten devices; each has its own key, or its field of the hash.
    let ask = |select: u8, command: &str| {
        ask_redis(&server.address(), &format!("AUTH sesame\r\nSELECT {select}\r\n{command}"))
    };
    assert_eq!((ask(0, "EXISTS plain:dev-1 plain:dev-10"), ask(1, "HLEN hash")), (":2".to_owned(), ":10".to_owned()));
    assert_eq!((ask(0, "XLEN stream"), ask(0, "DBSIZE")), (":2000".to_owned(), ":11".to_owned()));

    let counts: Vec<_> = pipeline(&record).sinks.iter().map(|sink| (sink.row_count.delta, sink.read_back)).collect();
    let sample = Some(ReadBack { keys: 10, found: 10 });
    assert_eq!(counts, [(None, sample), (None, sample), (Some(2000), None)], "only the stream can be counted");
}

/// What ends a run before its load, for each sink that cannot be written to.
fn assert_refused(sink: &str, words: &[&str]) {
    let text = scenario("", "", &[sink.to_owned()], "[run]\nmessages = 2000");
    let ended = Bench::new(&text).run(&[]).expect(1);
    assert!(words.iter().all(|word| ended.stderr.contains(word)), "{words:?}: {}", ended.stderr);
    assert_eq!(ended.record().counts.attempted, 0);
}

#[test]
fn real_unwritable_sinks_end_the_run_before_the_load() {
    let server = redis_server("pipeline-proof", 16585, "--requirepass sesame");
    let address = server.address();
    let as_admin = |command: &str| ask_redis(&address, &format!("AUTH sesame\r\n{command}"));
    assert_eq!(as_admin("ACL SETUSER reader on >secret ~* +@all -set"), "+OK");
    assert_eq!(as_admin("ACL SETUSER narrow on >secret ~dev-* +set +multi +exec +discard +get"), "+OK");
    assert_refused(&to_redis(&address, ""), &["cannot be written to", "NOAUTH"]);
    assert_refused(&to_redis(&address, "password = \"wrong\""), &["cannot be written to", "authentication failed"]);
    let login = |user: &str| format!("username = \"{user}\"\npassword = \"secret\"");
    assert_refused(&to_redis(&address, &login("reader")), &["cannot be written to", "NOPERM", "set"]);
    // A user who may write these keys only is not refused for another one.
    let text = scenario("", "", &[to_redis(&address, &login("narrow"))], "[run]\nmessages = 2000");
    assert_balanced(&Bench::new(&text).run(&[]).expect(0).record(), 2000);
    assert_eq!(as_admin("EXISTS brokermark"), ":0", "the proof writes nothing");
}

#[test]
fn real_redis_cluster_is_refused_by_its_name() {
    let server = redis_server("pipeline-cluster", 16586, "--cluster-enabled yes");
    assert_refused(&to_redis(&server.address(), ""), &["Redis Cluster is not supported"]);
}

#[test]
fn real_rows_are_removed_where_there_were_none_before() {
    let name = unique("removed");
    let sinks = [
        to_redis(&redis(), &format!("prefix = \"{name}:\"")),
        to_redis(&redis(), &format!("command = \"hset\"\nname = \"{name}-hash\"")),
        to_redis(&redis(), &format!("command = \"xadd\"\nname = \"{name}-stream\"")),
        to_mongodb(&mongodb(), &name, ""),
    ];
    let run = "[run]\nmessages = 2000";
    let text = scenario("", "remove_rows = true", &sinks, run);
    assert_balanced(&Bench::new(&text).run(&[]).expect(0).record(), 2000);
    let keys = format!("EXISTS {name}:dev-1 {name}:dev-10 {name}-hash {name}-stream");
    assert_eq!(ask_redis(&redis(), &keys), ":0");
    assert_eq!(documents(&mongodb(), "tests", &name), Vec::<String>::new());

    assert_balanced(&Bench::new(&scenario("", "", &sinks, run)).run(&[]).expect(0).record(), 2000);
    for sink in &sinks {
        let text = scenario("", "remove_rows = true", std::slice::from_ref(sink), run);
        let ended = Bench::new(&text).run(&[]).expect(1);
        assert!(ended.stderr.contains("holds rows already"), "{}", ended.stderr);
    }
    assert_eq!(ask_redis(&redis(), &keys), ":4", "what was there before is not touched");
    assert_eq!(documents(&mongodb(), "tests", &name).len(), 2000);
}

#[test]
fn real_mongodb_refuses_single_rows_and_takes_the_others() {
    let collection = unique("unique");
    make_unique(&mongodb(), "tests", &collection, "device_id");
    let more = "ordered = false\nwrite_concern = \"majority\"\ndocument_id = \"generated\"";
    let text = scenario("", "", &[to_mongodb(&mongodb(), &collection, more)], "[run]\nmessages = 1000");
    let record = Bench::new(&text).run(&[]).expect(0).record();
    let found = pipeline(&record);
    let sink = &found.sinks[0];
    let counts = (sink.written, sink.duplicates, sink.refused, sink.not_written);
    assert_eq!(counts, (10, 0, 990, 0), "one of each device: {sink:?}");
    assert_eq!(
        (sink.row_count.delta, found.consumer_lag_at_end),
        (Some(10), Some(0)),
        "what is refused counts as done"
    );
    assert!(sink.refused_by_class[0].first_message.contains("E11000"), "{:?}", sink.refused_by_class);
    assert!(reasons(&record).contains(&ReasonKind::NotReconciled));
}

#[test]
fn real_rows_there_already_are_counted_one_by_one() {
    let topic = unique("twice");
    let run = |group: &str, producer_mode: &str, more: &str| {
        let keys = format!("group = \"{topic}-{group}\"\nproducer_mode = \"{producer_mode}\"");
        // Without producers nothing is due, whatever the rate: it ends with the topic.
        let none = "duration = \"10min\"\n[load]\nrate = \"1k/s\"";
        let run = if producer_mode == "none" { none } else { "messages = 3000" };
        let sinks = [to_mongodb(&mongodb(), &topic, more)];
        let topology = if producer_mode == "none" { found(&topic) } else { topology(&topic) };
        let text = scenario(&topology, &keys, &sinks, &format!("[run]\n{run}"));
        let record = Bench::new(&text).run(&[]).expect(0).record();
        let sink = &pipeline(&record).sinks[0];
        let counts = (sink.written, sink.duplicates, sink.refused, sink.not_written, sink.row_count.delta);
        (counts, finding(&record, ReasonKind::WrittenTwice).is_some())
    };
    assert_eq!(run("first", "concurrent", "write_concern = 1"), ((3000, 0, 0, 0, Some(3000)), false));
    assert_eq!(run("ordered", "none", "ordered = true"), ((0, 3000, 0, 0, Some(0)), true));
    assert_eq!(run("unordered", "none", "ordered = false"), ((0, 3000, 0, 0, Some(0)), true));
    kafka::remove_topic(&kafka::address(), &topic);
}

#[test]
fn real_refused_rows_are_counted_and_stop_no_others() {
    let name = unique("refused");
    assert_eq!(ask_redis(&redis(), &format!("SET {name} text")), "+OK");
    let hash = to_redis(&redis(), &format!("command = \"hset\"\nname = \"{name}\""));
    let stream = to_redis(&redis(), &format!("command = \"xadd\"\nname = \"{name}-stream\""));
    let text = scenario("", "", &[hash, stream], "[run]\nmessages = 2000");
    let ended = Bench::new(&text).run(&[]).expect(1);
    assert!(ended.stderr.contains("the pipeline wrote nothing to redis: WRONGTYPE"), "{}", ended.stderr);
    let record = ended.record();
    let found = pipeline(&record);
    let [hash, stream] = &found.sinks[..] else { panic!("{found:?}") };
    assert_eq!((hash.name.as_str(), stream.name.as_str()), ("redis", "redis-2"));
    assert_fields!(hash, { written: 0, refused: 2000, not_written: 0 });
    assert_eq!(of_class(&hash.refused_by_class, FailureClass::Refused), 2000);
    assert!(hash.refused_by_class[0].first_message.contains("WRONGTYPE"), "{:?}", hash.refused_by_class);
    assert_eq!((stream.written, found.consumer_lag_at_end), (2000, Some(0)), "what is refused counts as done");
    assert_eq!(ask_redis(&redis(), &format!("XLEN {name}-stream")), ":2000");
    assert!(reasons(&record).contains(&ReasonKind::NotReconciled));
}
