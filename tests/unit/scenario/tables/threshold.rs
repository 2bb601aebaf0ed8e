use super::*;

fn parsed(text: &str) -> (Metric, Comparison, f64) {
    let threshold = Threshold::parse(text).unwrap();
    (threshold.metric, threshold.comparison, threshold.value)
}

#[test]
fn what_people_write() {
    use LatencyKind::{EndToEnd, Headline, Service};
    let quantile = |kind, share| Metric::Latency(kind, LatencyStatistic::Quantile(share));
    assert_eq!(parsed("p99 < 10ms"), (quantile(Headline, 0.99), Comparison::Less, 1e7));
    assert_eq!(parsed("messages_per_second > 50k"), (Metric::MessagesPerSecond, Comparison::Greater, 5e4));
    assert_eq!(parsed("messages_per_second>50k/s"), (Metric::MessagesPerSecond, Comparison::Greater, 5e4));
    assert_eq!(parsed("lost = 0"), (Metric::Lost, Comparison::Equal, 0.0));
    assert_eq!(parsed("lost == 0"), (Metric::Lost, Comparison::Equal, 0.0));
    assert_eq!(parsed("end_to_end.p50 <= 50ms"), (quantile(EndToEnd, 0.5), Comparison::LessOrEqual, 5e7));
    assert_eq!(parsed("p100>=1us"), (quantile(Headline, 1.0), Comparison::GreaterOrEqual, 1e3));
    let max = Metric::Latency(Service, LatencyStatistic::Max);
    assert_eq!(parsed("service.max < 1s"), (max, Comparison::Less, 1e9));
    assert_eq!(parsed("payload_bytes_per_second > 10MiB/s").2, 10_485_760.0);
    let condition = Metric::Condition(ConditionKind::NotEnoughReplicas);
    assert_eq!(parsed("condition.not-enough-replicas < 5s"), (condition, Comparison::Less, 5e9));
}

#[test]
fn a_group_is_named_after_its_figure() {
    let of_group = |text: &str| {
        let threshold = Threshold::parse(text).unwrap();
        (threshold.metric, threshold.group.unwrap(), threshold.value)
    };
    let p99 = Metric::Latency(LatencyKind::EndToEnd, LatencyStatistic::Quantile(0.99));
    for text in ["p99 of \"billing\" < 1s", "p99 of billing<1s", "end_to_end.p99 of 'billing' < 1s"] {
        assert_eq!(of_group(text), (p99, "billing".to_owned(), 1e9), "{text}");
    }
    assert_eq!(of_group("lag of \"a-b\" at end < 5s"), (Metric::CatchUp, "a-b".to_owned(), 5e9));
    assert_eq!(of_group("lag of 0 at end < 5k"), (Metric::Lag, "0".to_owned(), 5e3));
    assert_eq!(of_group("lost of billing = 0"), (Metric::Lost, "billing".to_owned(), 0.0));
    for text in ["lag < 5s", "response.p99 of billing < 1s", "failed of billing = 0", "cpu_per_message of a < 1us"] {
        assert!(Threshold::parse(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_refused_and_why() {
    let refusals = [
        "p99",
        "p101 < 1ms",
        "p0 < 1ms",
        "p99 < 10",
        "p99 < 10 parsecs",
        "messages_per_secnd > 5",
        "end_too_end.p99 < 1s",
        "speed > 5",
        "lost < many",
        "condition.not-enough-replica < 5s",
        "condition.weather = 0s",
    ]
    .map(|text| Threshold::parse(text).unwrap_err().to_string());
    insta::assert_snapshot!(refusals.join("\n"), @r##"
    "p99" compares nothing: write `metric comparison value`, as in "p99 < 10ms" or "messages_per_second > 50k"
    unknown percentile `p101`: percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`
    unknown percentile `p0`: percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`
    "10" is not a duration: the unit is missing: write a number and one of ns, us, ms, s, min, h, as in "30s"
    "10 parsecs" is not a duration: unknown unit `parsecs`: write a number and one of ns, us, ms, s, min, h, as in "30s"
    unknown metric `messages_per_secnd`: did you mean `messages_per_second`?
    unknown metric `end_too_end.p99`: did you mean `end_to_end.p99`? Any percentile, `mean` and `max` are possible
    unknown metric `speed`: latencies are p99 and other percentiles, `mean` and `max`, alone or after `response`, `service`, `schedule_delay` and `end_to_end` with a dot; other metrics are `messages_per_second`, `payload_bytes_per_second`, `consumed_per_second`, `written_per_second`, `consumer_lag`, `lag`, `failed`, `unresolved`, `lost`, `unread`, `removed`, `duplicated`, `reordered`, `corrupt`, `cpu_per_message`, `outage` and `recovery`
    "many" is not a count: it does not begin with a number: write a whole number, or a number with k, M or G, as in "20M"
    unknown condition `not-enough-replica`: did you mean `condition.not-enough-replicas`?
    unknown condition `weather`: conditions are `waiting-for-leader`, `not-enough-replicas`, `topic-gone`, `denied`, `throttled`, `unanswered`, `blocked`, `backlog-quota`, `connecting`, `group-has-others`, `rebalancing`, `fenced`, `authentication`, `refused` and `topic-replaced`
    "##);
}

#[test]
fn until_as_people_write_it() {
    for text in [
        "messages_per_second ± 5 %",
        "messages_per_second±5%",
        "messages_per_second +/- 5%",
        "messages_per_second +- 5 %",
    ] {
        assert_eq!(metric_and_share(text), Ok((Metric::MessagesPerSecond, 0.05)), "{text}");
    }
    assert!(matches!(metric_and_share("p99.9 ± 2.5%"), Ok((Metric::Latency(_, LatencyStatistic::Quantile(_)), 0.025))));
}

#[test]
fn until_of_another_form_is_refused() {
    for text in ["p99", "p99 ± 5", "p99 ± 0 %", "p99 ± 100 %", "lost ± 5 %", "max ± 5 %", "p100 ± 5 %", "pp ± 5 %"]
    {
        assert!(metric_and_share(text).is_err(), "{text}");
    }
}
