use super::*;

fn set(text: &str) -> RankSet {
    text.parse().unwrap()
}

fn roles(writers: Option<&str>, readers: Option<&str>) -> RankRoles {
    RankRoles { writers: writers.map(set), readers: readers.map(set) }
}

#[test]
fn ranks_are_lists_and_ranges() {
    for (text, ranks) in [("0", vec![0]), ("0-2,5", vec![0, 1, 2, 5]), (" 7 , 3 - 4 ", vec![3, 4, 7])] {
        let set = set(text);
        assert_eq!((0..20).filter(|rank| set.place_of(*rank).is_some()).collect::<Vec<_>>(), ranks, "{text}");
        assert_eq!(set.count(), ranks.len());
        assert_eq!(set.to_string().parse(), Ok(set));
    }
    for (wrong, reason) in [
        ("", "not the number"),
        ("a", "not the number"),
        ("1-", "not the number"),
        ("-1", "not the number"),
        ("0,,2", "not the number"),
        ("3-1", "no rank in it"),
        ("0-2,2", "rank 2 is named twice"),
        ("10000", "too high"),
    ] {
        let error = wrong.parse::<RankSet>().unwrap_err();
        assert!(error.contains(reason), "{wrong}: {error}");
    }
}

#[test]
fn named_ranks_share_among_themselves_and_roles_may_overlap() {
    let roles = roles(Some("0-2"), Some("2,3"));
    let of = |number| Share { number, count: 4 };
    assert_eq!(roles.writers_share(of(2)), Some(Share { number: 2, count: 3 }));
    assert_eq!((roles.writers_share(of(4)), roles.readers_share(of(1))), (None, None));
    assert_eq!(roles.readers_share(of(3)), Some(Share { number: 1, count: 2 }));
    assert_eq!(roles.check(4, 3, Some(2)), Ok(()));
    assert_eq!(RankRoles::default().writers_share(of(4)), Some(of(4)));
}

#[test]
fn ranks_that_are_not_there_or_have_nothing_to_do_are_refused() {
    let refused = |roles: RankRoles, count, producers, consumers, parts: &[&str]| {
        let error = roles.check(count, producers, consumers).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(roles(Some("0-4"), None), 4, 9, Some(9), &["`distribution.writers` names rank 4", "the last is rank 3"]);
    refused(roles(None, Some("7")), 4, 9, Some(9), &["`distribution.readers` names rank 7"]);
    refused(roles(Some("0-1"), Some("3")), 4, 9, Some(9), &["rank 2 of 4 would have nothing to do"]);
    refused(roles(Some("0-2"), None), 4, 9, None, &["rank 3 of 4 would have nothing to do"]);
    refused(roles(Some("0-2"), Some("3")), 4, 2, Some(9), &["`distribution.writers`", "`producers.count` is 2"]);
    refused(roles(Some("0"), Some("1-3")), 4, 9, Some(2), &["`distribution.readers`", "`consumers.members`"]);
    refused(roles(None, None), 4, 3, Some(9), &["4 shares", "`distribution.writers`"]);
}
