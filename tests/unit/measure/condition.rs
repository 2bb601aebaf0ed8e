use super::*;

fn partition(conditions: &Conditions, name: &str) -> Subject {
    Subject::new(conditions, SubjectKind::Partition, name)
}

#[test]
fn subjects_with_one_condition_are_told_together_while_it_lasts() {
    let conditions = Conditions::default();
    conditions.expect(SubjectKind::Partition, 4);
    let held: Vec<Subject> = (0..3).map(|index| partition(&conditions, &format!("orders/{index}"))).collect();
    // A second client of the same partition adds no subject.
    let again = partition(&conditions, "orders/0");
    held.iter()
        .chain([&again])
        .for_each(|one| one.begin(ConditionKind::NotEnoughReplicas, "NotEnoughReplicas (error 19)"));
    held[0].begin(ConditionKind::NotEnoughReplicas, "a repetition changes nothing");
    let [lasting] = &conditions.lasting()[..] else { panic!("{:?}", conditions.lasting()) };
    assert_eq!(lasting.told(), "3 of 4 partitions: not enough in-sync replicas");
    assert_eq!(lasting.words, "NotEnoughReplicas (error 19)");
    drop(held);
    assert_eq!(conditions.lasting()[0].now, 1, "the second client still says so");
    again.end();
    let [ended] = &conditions.all()[..] else { panic!("{:?}", conditions.all()) };
    assert!(ended.end.is_some());
    assert_eq!(ended.most, 3);
    assert_eq!(ended.names, ["orders/0", "orders/1", "orders/2"]);
}

#[test]
fn a_subject_has_one_condition_at_a_time() {
    let conditions = Conditions::default();
    let subject = partition(&conditions, "orders/7");
    subject.begin(ConditionKind::WaitingForLeader, "");
    subject.begin(ConditionKind::TopicGone, "");
    assert_eq!(
        conditions.lasting().iter().map(|one| one.told()).collect::<Vec<_>>(),
        ["partition orders/7: the topic does not exist"]
    );
    subject.end_only(ConditionKind::WaitingForLeader);
    assert_eq!(conditions.lasting().len(), 1);
    subject.end_only(ConditionKind::TopicGone);
    assert!(conditions.lasting().is_empty());
    let kinds: Vec<ConditionKind> = conditions.all().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [ConditionKind::WaitingForLeader, ConditionKind::TopicGone]);
}

#[test]
fn a_condition_that_comes_back_at_once_goes_on() {
    let conditions = Conditions::default();
    let subject = partition(&conditions, "orders/7");
    let (mut ended, mut between) = (None, Duration::ZERO);
    for _ in 0..3 {
        if let Some(ended) = ended {
            while Instant::now() == ended {}
            between += Instant::elapsed(&ended);
        }
        subject.begin(ConditionKind::Throttled, "");
        subject.end();
        ended = Some(Instant::now());
    }
    let [condition] = &conditions.all()[..] else { panic!("{:?}", conditions.all()) };
    let (lasted, whole) = (condition.lasted(Instant::now()), condition.end.unwrap() - condition.begin);
    assert!(!between.is_zero() && lasted + between <= whole, "{lasted:?} and {between:?} of {whole:?}");
}

#[tokio::test]
async fn only_what_takes_longer_than_a_moment_is_a_condition() {
    let conditions = Conditions::default();
    let subject = Subject::new(&conditions, SubjectKind::Node, "inner:9092");
    subject.during(ConditionKind::Connecting, "", std::future::ready(())).await;
    assert!(conditions.all().is_empty());
    let told = async {
        while conditions.lasting().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    subject.during(ConditionKind::Connecting, "", told).await;
    assert_eq!(conditions.lasting()[0].told(), "node inner:9092: connecting");
}
