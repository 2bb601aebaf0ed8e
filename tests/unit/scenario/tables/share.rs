//! The parts of a scenario that ranks and shares run.

use super::*;
use crate::scenario::{IdleConnections, Schedule};

#[test]
fn shares_cover_everything_once_and_evenly() {
    for all in [1, 2, 3, 7, 64, 1000] {
        for count in 1..=7 {
            let parts: Vec<Range<usize>> = (1..=count).map(|number| Share { number, count }.range(all)).collect();
            assert_eq!((parts[0].start, parts[count - 1].end), (0, all));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
            let lengths = parts.iter().map(Range::len);
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1, "{parts:?}");
        }
    }
}

#[test]
fn a_share_expects_its_part_of_the_schedule() {
    let text = "broker.kind = \"null\"\nproducers.count = 8\nload.rate = \"1k/s\"\nrun.duration = \"1s\"";
    let plan =
        crate::scenario::parse_for(crate::engine::kinds(), text, "share", &[], std::path::Path::new("")).unwrap();
    let part = plan.trials[0].scenario.part(Share { number: 3, count: 3 }).unwrap();
    assert_eq!(part.producers.count, 3);
    assert_eq!(part.first_producer(), 5);
    assert_eq!(part.all_producers(), 8);
    assert_eq!(*part.own_load(), Load::Open(Schedule::Constant { rate: 375.0 }));
}

#[test]
fn the_first_share_alone_runs_faults_and_none_judges_outages_or_lag() {
    let text =
        "broker.kind = \"null\"\nproducers.count = 8\nrun.duration = \"5s\"\n[[faults]]\nat = \"1s\"\nrun = \"a\"\n";
    let whole = |text: &str| {
        let plan = crate::scenario::parse_for(crate::engine::kinds(), text, "share", &[], std::path::Path::new(""));
        plan.unwrap().trials[0].scenario.clone()
    };
    let faults = |number| whole(text).part(Share { number, count: 2 }).unwrap().faults.len();
    assert_eq!((faults(1), faults(2)), (1, 0));
    let judged = whole(&format!("{text}[thresholds]\nrequire = \"recovery < 5s\""));
    assert!(judged.part(Share { number: 1, count: 2 }).unwrap_err().contains("\"recovery < 5s\" cannot be judged"));
    for lag in ["lag of 0 at end < 5s", "lag of 0 at end < 5k"] {
        let judged = whole(&format!("{text}[consumers]\nmembers = 2\n[thresholds]\nrequire = \"{lag}\""));
        let refused = judged.part(Share { number: 1, count: 2 }).unwrap_err();
        assert!(refused.starts_with(&format!("\"{lag}\" cannot be judged in shares")), "{refused}");
    }
}

#[test]
fn idle_connections_are_divided_with_their_rates() {
    let text = "broker.kind = \"null\"\nrun.duration = \"1s\"\nproducers.count = 3";
    let plan =
        crate::scenario::parse_for(crate::engine::kinds(), text, "share", &[], std::path::Path::new("")).unwrap();
    let mut whole = plan.trials[0].scenario.clone();
    let source_addresses = vec!["127.0.0.2".parse().unwrap()];
    whole.idle_connections = Some(IdleConnections { first: 0, count: 10, rate: 100.0, churn: 5.0, source_addresses });
    let parts = (1..=3).map(|number| whole.part(Share { number, count: 3 }).unwrap().idle_connections.unwrap());
    let parts: Vec<(Range<usize>, f64, f64)> =
        parts.map(|part| (part.first..part.first + part.count, part.rate, part.churn)).collect();
    assert_eq!(parts, [(0..3, 30.0, 1.5), (3..6, 30.0, 1.5), (6..10, 40.0, 2.0)]);
    whole.idle_connections.as_mut().unwrap().count = 2;
    assert!(whole.part(Share { number: 1, count: 3 }).unwrap_err().contains("2 idle connections"));
}

#[test]
fn a_part_that_only_consumes_has_no_producers_and_no_schedule() {
    let text = "broker = { kind = \"null\", connections = 4 }\nproducers.count = 8\nload.rate = \"1k/s\"\nrun.duration = \"1s\"
        [distribution]\nwriters = \"0-1\"";
    let plan =
        crate::scenario::parse_for(crate::engine::kinds(), text, "share", &[], std::path::Path::new("")).unwrap();
    let mut whole = plan.trials[0].scenario.clone();
    assert!(whole.part(Share { number: 3, count: 3 }).unwrap_err().contains("rank 2 of 3"));
    assert!(whole.check_alone().unwrap_err().contains("mpirun"));
    whole.distribution.readers = Some("2".parse().unwrap());
    whole.broker.addresses = vec!["server:1".to_owned()];
    let consumers = "broker.kind = \"null\"\nrun.messages = 1\nconsumers = {}";
    let plan = crate::scenario::parse_for(crate::engine::kinds(), consumers, "share", &[], std::path::Path::new(""));
    whole.consumers = plan.unwrap().trials[0].scenario.consumers.clone();
    let part = |number| whole.part(Share { number, count: 3 }).unwrap();
    let consumers = |part: &Scenario| part.part.as_ref().unwrap().consumers;
    let reader = part(3);
    assert_eq!(reader.producers.count, 0);
    assert_eq!(reader.broker.connections, 1);
    assert_eq!(consumers(&reader), 1);
    assert!(reader.first_producer() > 8, "no producer has the number that its client is named after");
    assert!(reader.only_consumes() && *reader.own_load() == Load::Closed);
    let writer = part(2);
    assert_eq!(writer.producers.count, 4);
    assert_eq!(writer.first_producer(), 4);
    assert_eq!(writer.broker.connections, 2);
    assert_eq!((consumers(&writer), writer.only_consumes()), (0, false));
    whole.consumers.as_mut().unwrap().timing = Timing::Own;
    assert!(whole.part(Share { number: 1, count: 3 }).unwrap_err().contains("rank 2 would time nothing"));
}

#[test]
fn more_producers_than_a_process_can_have_need_several() {
    let text = "broker.kind = \"null\"\nproducers.count = 32768\nrun.duration = \"1s\"";
    let plan =
        crate::scenario::parse_for(crate::engine::kinds(), text, "share", &[], std::path::Path::new("")).unwrap();
    let mut whole = plan.trials[0].scenario.clone();
    let refused = whole.check_alone().unwrap_err();
    assert!(refused.contains("a process has at most 16384: run it in 2 processes or more"), "{refused}");
    assert_eq!(whole.part(Share { number: 2, count: 2 }).unwrap().producers.count, 16_384);
    whole.producers.count = 100_000;
    assert!(whole.part(Share { number: 2, count: 6 }).unwrap_err().contains("run it in 7 processes or more"));
}

#[test]
fn a_share_is_written_with_a_stroke() {
    assert_eq!("2/3".parse(), Ok(Share { number: 2, count: 3 }));
    for wrong in ["", "2", "0/3", "4/3", "1/0", "a/3", "1/3/4", "-1/3", "1/10001"] {
        assert!(wrong.parse::<Share>().unwrap_err().contains("as in `2/3`"), "{wrong}");
    }
}

#[test]
fn members_of_each_group_are_divided_by_themselves() {
    let text = "broker.kind = \"null\"\nproducers.count = 2\nrun.duration = \"1s\"\n[[consumers.group]]\nmembers = 3\n[[consumers.group]]";
    let plan =
        crate::scenario::parse_for(crate::engine::kinds(), text, "share", &[], std::path::Path::new("")).unwrap();
    let mut whole = plan.trials[0].scenario.clone();
    whole.broker.addresses = vec!["server:1".to_owned()];
    let parts = [1, 2].map(|number| whole.part(Share { number, count: 2 }).unwrap());
    let here =
        |part: &Scenario, group| (0..3).filter(|member| part.has_consumer(group, 0, *member)).collect::<Vec<_>>();
    assert_eq!((here(&parts[0], 0), here(&parts[1], 0)), (vec![0], vec![1, 2]));
    assert_eq!(here(&parts[0], 1), [0; 0]);
    assert_eq!(here(&parts[1], 1)[0], 0);
    assert!(parts[0].is_divided(0, 0) && !parts[1].is_divided(1, 0));
    // On two topics, both processes number them alike: six of the first group, and those of the second one behind them.
    let numbers = |part: &Scenario| {
        let consumers = part.consumers.as_ref().unwrap();
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(group, topic)| consumers.number_of(group, topic, 2))
    };
    assert_eq!(parts.each_ref().map(numbers), [[0, 3, 6, 7]; 2]);
}
