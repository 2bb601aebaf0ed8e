//! Groups of consumers with settings of their own, and backlogs, on the null broker.
//!
//! Each expectation is a count, or a time that a slow machine can only make longer.

use brokermark::record::{
    Backlog, GroupTask, GroupVerification, Phase, ReasonKind, Record, SeriesRow, Status, WorkDistribution, read_series,
};

use crate::harness::{Bench, PATIENCE, assert_acknowledged, assert_delivered, execute, finding, record_of};

const MILLISECOND: u64 = 1_000_000;

/// 1,000 messages in a second.
fn second(tables: &str) -> String {
    format!("broker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.messages = 1_000\n{tables}")
}

fn groups(record: &Record) -> &[GroupVerification] {
    &record.verification.as_ref().unwrap().groups
}

fn longest_end_to_end_ns(record: &Record) -> u64 {
    record.latency.end_to_end.as_ref().unwrap().max_ns
}

#[test]
fn consumer_with_twice_the_work_falls_behind() {
    let record = record_of(&second("[[consumers.group]]\nwork = \"2ms\""));
    assert_delivered(&record, 1_000, 1);
    // The last message is begun after 999 times 2 ms, and was due after 999 ms.
    assert!(longest_end_to_end_ns(&record) >= 995 * MILLISECOND, "{}", longest_end_to_end_ns(&record));
    let task = GroupTask {
        work_mean_ns: Some(2 * MILLISECOND),
        work_distribution: Some(WorkDistribution::Fixed),
        ..GroupTask::default()
    };
    assert_eq!(groups(&record)[0].task, Some(task));
}

#[test]
fn progress_tells_how_far_consumers_are_behind() {
    let bench = Bench::new(&second("[[consumers.group]]\nwork = \"8ms\""));
    let ended = bench.start(&[]).finish(PATIENCE).expect(0);
    let told = ended.stderr.lines().rfind(|line| line.contains("verifying ") && line.contains(" behind")).unwrap();
    let parts: Vec<&str> = told.split(" · ").collect();
    let [_, behind, client] = parts.as_slice() else { panic!("{told}") };
    let (received, left) = behind.strip_suffix(" behind").unwrap().split_once(" received/s, ").unwrap();
    assert!((1.0..=130.0).contains(&received.parse::<f64>().unwrap()), "one member takes 8 ms for each: {told}");
    assert!((1..=999).contains(&left.parse::<u64>().unwrap()), "{told}");
    assert!(client.starts_with("client "), "{told}");
}

#[test]
fn a_groups_rate_is_that_of_all_its_members_together() {
    let tables =
        "producers.count = 2\ntopology.partitions = 2\n[consumers]\nmembers = 2\n[[consumers.group]]\nrate = \"500/s\"";
    let record = record_of(&second(tables));
    assert_delivered(&record, 1_000, 1);
    assert!(longest_end_to_end_ns(&record) >= 995 * MILLISECOND, "{}", longest_end_to_end_ns(&record));
    assert_eq!(groups(&record)[0].task.as_ref().unwrap().rate_limit_per_second, Some(500.0));
}

#[test]
fn record_shows_consumer_with_two_of_three_partitions() {
    let tables = "producers.count = 3\ntopology.partitions = 3\n[consumers]\nmembers = 2";
    let record = record_of(&second(tables));
    let consumers = record.consumers.as_ref().unwrap();
    let [group] = consumers.groups.as_slice() else { panic!("{consumers:?}") };
    assert_eq!((group.group, group.consumers), (0, 2));
    assert!((333..=334).contains(&group.consumed.smallest), "{group:?}");
    assert!(group.differs() && group.end_to_end_p50_ns.is_some(), "{group:?}");
    assert_eq!(consumers.listed.iter().map(|of| of.member).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(consumers.listed.iter().map(|of| of.consumed).sum::<u64>(), 1_000);
    let alone = record_of(&second("[consumers]"));
    assert_eq!(alone.consumers, None, "there is nothing to compare it with");
}

#[test]
fn late_group_receives_everything() {
    let record = record_of(&second("[[consumers.group]]\n[[consumers.group]]\nstart_after = \"600ms\""));
    assert_delivered(&record, 1_000, 2);
    assert!(longest_end_to_end_ns(&record) >= 595 * MILLISECOND, "{}", longest_end_to_end_ns(&record));
    let [early, late] = groups(&record) else { panic!("{:?}", record.verification) };
    assert_eq!(early.task, None);
    assert_eq!(late.task.as_ref().unwrap().start_after_ns, Some(600 * MILLISECOND));
}

#[test]
fn late_group_that_cannot_join_leaves_the_figures_of_the_load() {
    for hide_ends in [false, true] {
        let tables = format!(
            "broker.null = {{ hide_ends = {hide_ends}, groups = [{{}}, {{ refuse = true }}] }}
            run.drain_deadline = \"1s\"
            [[consumers.group]]
            [[consumers.group]]
            start_after = \"100ms\"
            [[consumers.group]]
            start_after = \"200ms\""
        );
        let record = Bench::new(&second(&tables)).run(&[]).expect(1).record();
        let error = record.error.as_deref().unwrap_or_default();
        assert_eq!(record.status, Status::Failed, "{error}");
        assert!(error.contains("could not join") && error.contains("refused by the null broker's script"), "{error}");
        assert_eq!(record.counts.acknowledged, 1_000);
        assert_eq!(record.latency.response.as_ref().unwrap().count, 1_000);
        let received: Vec<u64> = groups(&record).iter().map(|group| group.received).collect();
        assert_eq!(received, [1_000, 0, 1_000], "the others received all");
        let refused = &groups(&record)[1];
        assert_eq!((refused.lost, refused.unread), (0, 1_000), "nothing was offered to it");
    }
}

#[test]
fn a_group_begins_at_the_end_of_the_load_at_the_latest() {
    let record = record_of(&second("[[consumers.group]]\n[[consumers.group]]\nstart_after = \"10m\""));
    assert_delivered(&record, 1_000, 2);
    let behind = groups(&record).iter().map(|group| group.consumer_lag_at_load_end.is_some()).collect::<Vec<_>>();
    assert_eq!(behind, [true, false], "the second group had not begun when the load ended");
}

/// 2,000 messages before the consumers begin, which then take 10,000 a second beside 1,000 that come.
const BACKLOG: &str = "broker.kind = \"null\"
    load.rate = \"1k/s\"
    [run]
    duration = \"4s\"
    [[consumers.group]]
    rate = \"10k/s\"
    [[consumers.group]]
    rate = \"20k/s\"
    [consumers.backlog]
    messages = \"2k\"";

fn backlog(record: &Record) -> &Backlog {
    record.backlog.as_ref().unwrap()
}

#[test]
fn a_backlog_is_built_and_drained_while_the_producers_go_on() {
    let record = record_of(BACKLOG);
    assert_delivered(&record, 4_000, 2);
    let found = backlog(&record);
    let messages = found.messages.unwrap();
    assert!((2_000..4_000).contains(&messages), "{found:?}");
    assert_eq!(found.payload_bytes, Some(messages * 100));
    assert_eq!((found.build.begin_ns, found.build.consumed_per_second), (0, 0.0));
    assert!(found.build.duration_ns >= 1_995 * MILLISECOND, "the schedule has 2,000 messages due in 2 s: {found:?}");
    let drain = found.drain.as_ref().unwrap();
    assert_eq!(drain.begin_ns, found.build.duration_ns);
    assert!(drain.consumed_per_second > 0.0 && drain.response.is_some(), "{drain:?}");
    for (number, (group, rate)) in found.groups.iter().zip([10, 20]).enumerate() {
        assert_eq!(group.group, number);
        let taken = group.received + group.behind;
        assert!(taken >= messages && group.behind <= 101, "{group:?}");
        // No faster than its rate from when it was told to begin; the times are looked at every 5 ms.
        let took_ns = group.first_arrival_ns.unwrap() + group.duration_ns.unwrap();
        assert!(took_ns + 10 * MILLISECOND >= group.received * MILLISECOND / rate, "{group:?}");
    }
    let after = found.after.as_ref().unwrap();
    assert_eq!(after.begin_ns, drain.begin_ns + drain.duration_ns);
    let of_phases =
        [&found.build, drain, after].map(|phase| phase.response.as_ref().map_or(0, |response| response.count));
    // What is answered after the load belongs to no phase.
    let (counted, all) = (of_phases.iter().sum::<u64>(), record.latency.response.as_ref().unwrap().count);
    assert!(counted <= all && counted * 100 >= all * 95, "{counted} of {all}");
}

#[test]
fn backlog_is_drained_after_a_shorter_load() {
    let slow = BACKLOG.replace("10k/s", "2k/s").replace("duration = \"4s\"", "messages = 2_100\nduration = \"4s\"");
    let record = record_of(&slow);
    assert_delivered(&record, 2_100, 2);
    let found = backlog(&record);
    assert_eq!((found.groups[0].duration_ns, &found.after), (None, &None), "{found:?}");
}

#[test]
fn a_backlog_that_is_never_there_is_shown_as_such() {
    let failing = format!("broker.null.fail = 0.9\n{BACKLOG}").replace("duration = \"4s\"", "duration = \"2100ms\"");
    let bench = Bench::new(&failing);
    let record = bench.run(&[]).expect(0).record();
    let found = backlog(&record);
    assert_eq!(found.messages, None);
    assert_eq!(&found.drain, &None);
    assert_eq!(found.groups.len(), 0);
    let shown = execute(&["show", bench.run_directory().to_str().unwrap()]).expect(0).stdout.clone();
    assert!(shown.contains("not there when the load ended"), "{shown}");
}

#[test]
fn the_warm_up_is_a_part_of_the_backlog_and_of_no_phase() {
    let warm = BACKLOG.replace("duration = \"4s\"", "warm_up = \"2200ms\"\nduration = \"2s\"");
    let record = record_of(&warm);
    assert_acknowledged(&record, 2_000);
    let found = backlog(&record);
    // It was there before the window began, in which all phases lie.
    assert!(found.messages.unwrap() >= 2_200 && found.build.begin_ns >= 2_200 * MILLISECOND, "{found:?}");
    assert!(found.groups.iter().all(|group| group.received + group.behind >= 2_200), "{found:?}");
}

/// Of a broker without offsets, it is the consumers that have been offered everything: not while they work.
#[test]
fn what_a_consumer_had_no_time_for_is_unread_and_not_lost() {
    let record = record_of(
        "broker.kind = \"null\"
        broker.null.hide_ends = true
        [[consumers.group]]
        work = \"10s\"
        [run]
        messages = 3
        drain_deadline = \"500ms\"",
    );
    assert_acknowledged(&record, 3);
    let group = &groups(&record)[0];
    assert_fields!(group, { received: 1, unread: 2, lost: 0 });
}

/// Consumers that receive half of what is sent in four seconds.
const TOO_SLOW: &str = "broker.kind = \"null\"
    load.rate = \"1k/s\"
    run.duration = \"4s\"
    thresholds = { require = [\"end_to_end.p50 < 10m\", \"end_to_end.max < 10m\", \"p50 < 10m\"], when_invalid = \"ignore\" }
    [consumers]
    verify = VERIFY
    [[consumers.group]]
    rate = \"500/s\"
    [[consumers.group]]";

/// They would be the length of the run.
#[test]
fn no_percentile_of_a_growing_lag_is_stated_or_holds() {
    for verify in ["true", "false"] {
        let bench = Bench::new(&TOO_SLOW.replace("VERIFY", verify));
        let record = bench.run(&[]).expect(3).record();
        let end_to_end = record.latency.end_to_end.as_ref().unwrap();
        assert!(end_to_end.lag_grew && end_to_end.p99_ns.is_none() && end_to_end.count == 8_000, "{end_to_end:?}");
        let held: Vec<bool> = record.thresholds.iter().map(|threshold| threshold.held).collect();
        // The first two are about each group by itself, and group 1 receives everything in time.
        assert_eq!(held, [false, true, false, true, true], "{:?}", record.thresholds);
        let found = finding(&record, ReasonKind::LagGrew).unwrap();
        assert!(found.evidence.contains("in group 0, ") && !found.evidence.contains("group 1"), "{found:?}");
        assert!(finding(&record, ReasonKind::Unread).is_none(), "{:?}", record.verdict);
        let shown = execute(&["show", bench.run_directory().to_str().unwrap()]).expect(0).stdout;
        let row = shown.lines().find(|line| line.contains("end to end")).unwrap();
        assert_eq!(row.matches('–').count(), 5, "{row}");
        assert!(shown.contains("lag-grew"), "{shown}");
        assert_lag_is_in_the_series(&bench);
    }
}

fn assert_lag_is_in_the_series(bench: &Bench) {
    let rows = read_series(&bench.run_directory()).unwrap();
    let consumed = |group: usize| rows.iter().map(|row| row.groups[group].consumed).sum::<u64>();
    assert_eq!((consumed(0), consumed(1)), (4_000, 4_000));
    let lag = |row: &SeriesRow| [0, 1].map(|group: usize| row.groups[group].consumer_lag.unwrap());
    let [slow, quick] = lag(rows.iter().rfind(|row| row.phase == Phase::Measure).unwrap());
    assert!((1_700..=2_300).contains(&slow) && quick < 500, "{slow} {quick}");
    assert_eq!(lag(rows.last().unwrap()), [0, 0]);
}

#[test]
fn missing_messages_are_told_without_verification() {
    let record = record_of(
        "broker = { kind = \"null\", null = { lose = 0.01 } }
        load.rate = \"1k/s\"
        consumers.verify = false
        run = { messages = 1_000, drain_deadline = \"300ms\" }",
    );
    let found = finding(&record, ReasonKind::Unread).unwrap();
    assert_eq!((found.figures["unread"], record.verdict.valid), (10.0, false), "{found:?}");
}

/// A group with half of the rate that it needs, and one of two members that follows.
const NAMED: &str = "broker.kind = \"null\"
    topology.partitions = 2
    producers.count = 2
    load.rate = \"1k/s\"
    run.duration = \"4s\"
    [thresholds]
    when_invalid = \"ignore\"
    require = [
        'p50 of \"billing\" < 10m', 'p50 of \"audit\" < 10m',
        'lag of \"billing\" at end < 100ms', 'lag of \"audit\" at end < 10m',
        'lag of \"billing\" at end > 1000', 'lost of billing = 0', 'end_to_end.p50 < 10m',
    ]
    [[consumers.group]]
    name = \"billing\"
    rate = \"500/s\"
    [[consumers.group]]
    name = \"audit\"
    members = 2";

#[test]
fn each_named_group_has_its_members_its_latency_and_its_thresholds() {
    let bench = Bench::new(NAMED);
    let record = bench.run(&[]).expect(3).record();
    assert_delivered(&record, 4_000, 2);
    let held: Vec<bool> = record.thresholds.iter().map(|threshold| threshold.held).collect();
    // The last one is about each group by itself.
    assert_eq!(held, [false, true, false, true, true, true, false, true], "{:#?}", record.thresholds);
    assert_eq!(record.thresholds[7].text, "end_to_end.p50 of \"audit\" < 10m");
    let by_group = record.latency.end_to_end_by_group.iter().map(|of| {
        let latency = of.end_to_end.as_ref().unwrap();
        (of.group.as_str(), latency.count, latency.lag_grew)
    });
    assert_eq!(by_group.collect::<Vec<_>>(), [("billing", 4_000, true), ("audit", 4_000, false)]);
    let names: Vec<String> = groups(&record).iter().map(GroupVerification::title).collect();
    assert_eq!(names, ["billing", "audit"]);
    let spread = &record.consumers.as_ref().unwrap().groups;
    assert_eq!(spread.iter().map(|of| (of.group, of.consumers)).collect::<Vec<_>>(), [(1, 2)]);
    let shown = execute(&["show", bench.run_directory().to_str().unwrap()]).expect(0).stdout;
    let rows: Vec<&str> = shown.lines().filter(|line| line.trim().starts_with("end to end")).collect();
    let is_of = |row: &str, group: &str| row.contains(&format!("end to end, {group}"));
    assert!(is_of(rows[0], "billing") && is_of(rows[1], "audit"), "{shown}");
    assert!(shown.contains("group billing") && shown.contains("2 groups: billing (1 consumer)"), "{shown}");
    execute(&["check", bench.scenario().to_str().unwrap()]).expect(0).says(&["billing of 1, audit of 2 per topic"]);
}

#[test]
fn groups_that_cannot_be_told_apart_are_refused() {
    let refused = |change: &[&str], expected: &[&str]| {
        let bench = Bench::new(&NAMED.replace(change[0], change[1]));
        execute(&["check", bench.scenario().to_str().unwrap()]).expect(2).complains_of(expected);
    };
    refused(&["name = \"audit\"", "name = \"billing\""], &["\"billing\" also names group 0"]);
    for name in ["a.b", &"x".repeat(33)] {
        let change = ["name = \"audit\"", &format!("name = \"{name}\"")];
        refused(&change, &[&format!("\"{name}\" cannot name a group of consumers"), "at most 32 letters"]);
    }
    refused(&["lost of billing", "lost of biling"], &["the groups of consumers are `billing` and `audit`"]);
    refused(&["lost of billing", "failed of billing"], &["`failed` is not a figure of a group"]);
    refused(&["lost of billing = 0", "lag < 5s"], &["\"lag < 5s\" is about no group"]);
    let members = "rate = \"500/s\"\n members = 1";
    let bench = Bench::new(&(NAMED.replace("rate = \"500/s\"", members) + "\n[consumers]\nmembers = 2"));
    execute(&["check", bench.scenario().to_str().unwrap()]).expect(2).complains_of(&["has `members` of its own"]);
}
