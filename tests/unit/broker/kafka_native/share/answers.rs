use super::*;

fn stretch(first: i64, last: i64, answer: Answer) -> Stretch {
    Stretch { first, last, answer }
}

#[test]
fn successive_offsets_with_the_same_answer_are_one_stretch() {
    let mut stretches = Vec::new();
    for (offset, answer) in [(3, Answer::Accept), (4, Answer::Accept), (5, Answer::Release), (7, Answer::Release)] {
        append(&mut stretches, stretch(offset, offset, answer));
    }
    let expected = [(3, 4, Answer::Accept), (5, 5, Answer::Release), (7, 7, Answer::Release)];
    assert_eq!(stretches, expected.map(|(first, last, answer)| stretch(first, last, answer)));
}

#[test]
fn shares_of_first_deliveries_are_exact() {
    let options: ShareGroupOptions =
        toml::from_str("acknowledge = \"explicit\"\nrelease = 0.25\nreject = 0.1\nrenew = 0.05\nexpire = 0.2").unwrap();
    let mut choice = AnswerChoice::new(options);
    let mut counts = [0; 6];
    for number in 0..2000 {
        // What was delivered before is accepted, and takes nothing of the shares.
        assert_eq!(choice.next(2), Some(Answer::Accept), "{number}");
        counts[choice.next(1).map_or(5, |answer| answer as usize)] += 1;
    }
    assert_eq!(counts, [0, 800, 500, 200, 100, 400]);
}

#[test]
fn what_was_accepted_is_known_to_the_group() {
    let group = GroupAnswers::default();
    group.confirmed(1, &[stretch(0, 9, Answer::Accept), stretch(10, 14, Answer::Release)]);
    group.confirmed(1, &[stretch(20, 29, Answer::Accept)]);
    group.confirmed(1, &[stretch(15, 19, Answer::Accept), stretch(30, 30, Answer::Gap)]);
    assert!(group.has_accepted(1, 9, 12) && group.has_accepted(1, 15, 15) && group.has_accepted(1, 29, 40));
    assert!(!group.has_accepted(1, 10, 14) && !group.has_accepted(1, 30, 40) && !group.has_accepted(0, 0, 9));
    group.unconfirmed(&[stretch(10, 14, Answer::Accept), stretch(40, 41, Answer::Gap)]);
    let counts = group.counts();
    assert_eq!((counts.accepted, counts.released, counts.unconfirmed), (25, 5, 5));
}

#[test]
fn stretches_of_offsets_that_touch_are_merged() {
    let mut offsets = Offsets::default();
    for (first, last) in [(10, 19), (30, 39), (0, 4), (20, 29), (5, 9)] {
        offsets.insert(first, last);
    }
    assert_eq!(offsets.0, BTreeMap::from([(0, 39)]));
}
