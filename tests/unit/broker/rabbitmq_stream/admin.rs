use super::*;

fn location(leader: Option<&str>, replicas: &[&str]) -> StreamLocation {
    StreamLocation {
        stream: "orders".to_owned(),
        leader: leader.map(str::to_owned),
        replicas: replicas.iter().map(|&replica| replica.to_owned()).collect(),
        members: 3,
    }
}

#[test]
fn members_come_first_by_addresses_of_the_scenario() {
    let nodes = Nodes::new(vec!["a:1".to_owned(), "b:1".to_owned()], ConnectTo::Leader, ConsumeFrom::Leader);
    nodes.advertises("a:1", "inner-a:1");
    ["inner-a:1", "c:1", "c:1"].iter().for_each(|node| nodes.learn(node));
    assert_eq!(nodes.all(), ["a:1", "b:1", "c:1"]);
    let led = location(Some("c:1"), &["inner-a:1"]);
    assert_eq!(nodes.for_publishing(Some(&led), 1), ["c:1", "b:1", "a:1"]);
    assert_eq!(nodes.for_consuming(&led, 0), ["c:1", "a:1"]);
    let leaderless = location(None, &["inner-a:1"]);
    assert_eq!(nodes.for_publishing(Some(&leaderless), 0), ["a:1", "b:1", "c:1"]);
    assert_eq!(nodes.for_consuming(&leaderless, 0), ["a:1"]);
    assert_eq!(nodes.for_consuming(&location(None, &[]), 0), ["a:1", "b:1", "c:1"]);
}

#[test]
fn replicas_are_read_in_turn_before_the_leader() {
    let nodes = Nodes::new(vec!["a:1".to_owned()], ConnectTo::LoadBalancer, ConsumeFrom::Replica);
    nodes.advertises("a:1", "c:1");
    let led = location(Some("c:1"), &["d:1", "e:1"]);
    assert_eq!(nodes.for_consuming(&led, 2), ["d:1", "e:1", "c:1"]);
    assert_eq!(nodes.for_consuming(&led, 3), ["e:1", "d:1", "c:1"]);
    assert_eq!(nodes.for_consuming(&location(Some("c:1"), &[]), 1), ["c:1"]);
    // The node itself, which the load balancer is asked for.
    assert_eq!(nodes.for_publishing(Some(&led), 0), ["c:1", "a:1"]);
}

#[test]
fn each_address_is_tried_before_one_is_tried_again() {
    let addresses = || vec!["a:1".to_owned(), "b:1".to_owned()];
    let mut tried = BTreeSet::new();
    let mut next = |addresses: Vec<String>| {
        let address = untried(addresses, &mut tried).unwrap();
        tried.insert(address.clone());
        address
    };
    assert_eq!([next(addresses()), next(addresses()), next(addresses())], ["a:1", "b:1", "a:1"]);
    // A new leader comes first.
    assert_eq!(next([vec!["c:1".to_owned()], addresses()].concat()), "c:1");
    assert_eq!(untried(Vec::new(), &mut BTreeSet::new()), None);
}

#[test]
fn behind_a_proxy_only_the_scenarios_addresses_are_used() {
    let nodes = Nodes::new(vec!["a:1".to_owned(), "b:1".to_owned()], ConnectTo::Addresses, ConsumeFrom::Leader);
    nodes.learn("c:1");
    let led = location(Some("c:1"), &["d:1"]);
    assert_eq!(nodes.for_publishing(Some(&led), 1), ["b:1", "a:1"]);
    assert_eq!(nodes.for_consuming(&led, 0), ["a:1", "b:1"]);
}

#[test]
fn a_majority_has_the_message() {
    assert_eq!(durability([3, 3]).copies, Some(2));
    assert_eq!(durability([1]).copies, Some(1));
    assert_eq!(durability([]), Durability::default());
}
