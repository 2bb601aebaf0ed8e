use super::*;
use proptest::prelude::*;

fn literal(text: &str) -> Part {
    Part::Literal(text.to_owned())
}

#[test]
fn every_placeholder() {
    let template = Template::parse(
        r#"{"n":${counter:4},"i":${counter},"r":${random:-5..5},"f":${random:0.0..1.5},"t":${timestamp},"m":${timestamp_ms},"c":"${choice:a|b}","$$":1}"#,
    );
    assert_eq!(
        template.unwrap().parts,
        [
            literal("{\"n\":"),
            Part::Counter { width: 4 },
            literal(",\"i\":"),
            Part::Counter { width: 0 },
            literal(",\"r\":"),
            Part::RandomInteger { low: -5, high: 5 },
            literal(",\"f\":"),
            Part::RandomFloat { low: 0.0, high: 1.5 },
            literal(",\"t\":"),
            Part::Timestamp,
            literal(",\"m\":"),
            Part::TimestampMilliseconds,
            literal(",\"c\":\""),
            Part::Choice(vec!["a".to_owned(), "b".to_owned()]),
            literal("\",\"$\":1}"),
        ]
    );
}

#[test]
fn what_is_refused_and_why() {
    let refusals = [
        "${cuonter}",
        "${x}",
        "${counter",
        "costs $5",
        "${random}",
        "${random:9..1}",
        "${random:a..b}",
        "${choice:a}",
        "${counter:0}",
        "${timestamp:ms}",
    ]
    .map(|text| Template::parse(text).unwrap_err())
    .map(|Refusal { message, advice }| format!("{message} ({advice})"));
    insta::assert_snapshot!(refusals.join("\n"), @r##"
        unknown placeholder `${cuonter}` (did you mean `${counter}`?)
        unknown placeholder `${x}` (known here: `counter`, `random`, `timestamp`, `timestamp_ms` and `choice`)
        `${` is not closed (close it with `}`, or write `$${` for the characters themselves)
        a lone `$` means nothing in a template (write `$$` for a dollar sign)
        `${random}` needs a range (write it as in `${random:0..100}`)
        `${random:9..1}` has no range (write `${random:0..100}` for whole numbers or `${random:0.0..100.0}` for fractions; the lower bound comes first and the upper one is never reached)
        `${random:a..b}` has no range (write `${random:0..100}` for whole numbers or `${random:0.0..100.0}` for fractions; the lower bound comes first and the upper one is never reached)
        `${choice:a}` needs two or more choices (write it as in `${choice:red|green|blue}`)
        `${counter:0}` has no width (write a number of digits from 1 to 20, as in `${counter:10}`)
        `timestamp` takes no argument (write `${timestamp}`)
        "##);
}

proptest! {
    #[test]
    fn text_without_dollars_is_itself(text in "[^$]+") {
        prop_assert_eq!(Template::parse(&text).unwrap().parts, [literal(&text)]);
    }

    #[test]
    fn nothing_panics(text in "([a-z]|\\$|\\{|\\}|:|\\.|[0-9])*") {
        let _ = Template::parse(&text);
    }
}
