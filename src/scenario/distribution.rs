//! `[distribution]`: which of several processes run producers, and which run consumers.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::share::{MAX_SHARES, Share};

/// Who runs what; without either, every process runs its part of both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct RankRoles {
    /// Ranks that run producers. Default: all.
    #[schemars(with = "Option<String>", extend("format" = "ranks"))]
    pub writers: Option<RankSet>,
    /// Ranks that run consumers. Default: all.
    #[schemars(with = "Option<String>", extend("format" = "ranks"))]
    pub readers: Option<RankSet>,
}

/// Some of several processes, by their numbers from 0, as in `0-2,5`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RankSet {
    /// In their order, without overlap.
    ranges: Vec<RangeInclusive<usize>>,
}

impl TryFrom<String> for RankSet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RankSet> for String {
    fn from(ranks: RankSet) -> Self {
        ranks.to_string()
    }
}

impl FromStr for RankSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut ranges = text.split(',').map(range).collect::<Result<Vec<_>, String>>()?;
        ranges.sort_by_key(|range| *range.start());
        match ranges.windows(2).find(|pair| pair[0].end() >= pair[1].start()) {
            Some(pair) => Err(format!("rank {} is named twice", pair[1].start())),
            None => Ok(RankSet { ranges }),
        }
    }
}

/// `3`, or `0-2` with both ends.
fn range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let number = |text: &str| match text.trim().parse::<usize>() {
        Ok(number) if number < MAX_SHARES => Ok(number),
        Ok(number) => Err(format!("rank {number} is too high: {} is the last of {MAX_SHARES}", MAX_SHARES - 1)),
        Err(_) => Err(format!("\"{}\" is not the number of a rank", text.trim())),
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("{first}-{last} has no rank in it"));
    }
    Ok(first..=last)
}

impl fmt::Display for RankSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match range.start() == range.end() {
                true => write!(formatter, "{comma}{}", range.start())?,
                false => write!(formatter, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

impl RankSet {
    /// How many processes are named.
    pub fn count(&self) -> usize {
        self.ranges.iter().map(|range| range.end() - range.start() + 1).sum()
    }

    fn last(&self) -> usize {
        self.ranges.last().map_or(0, |range| *range.end())
    }

    /// Which of the named processes this one is, from 0; `None`: it is not named.
    fn place_of(&self, rank: usize) -> Option<usize> {
        let mut before = 0;
        for range in &self.ranges {
            if range.contains(&rank) {
                return Some(before + rank - range.start());
            }
            before += range.end() - range.start() + 1;
        }
        None
    }
}

impl RankRoles {
    /// This process's share of the producers; `None`: it runs none.
    pub fn of_writers(&self, share: Share) -> Option<Share> {
        within(self.writers.as_ref(), share)
    }

    /// This process's share of the consumers; `None`: it runs none.
    pub fn of_readers(&self, share: Share) -> Option<Share> {
        within(self.readers.as_ref(), share)
    }

    /// Whether so many processes can be divided so, into parts of so many producers, and consumers where there are some.
    ///
    /// # Errors
    /// When a process is named that there is not, or one has nothing to do.
    pub fn check(&self, count: usize, producers: usize, consumers: Option<usize>) -> Result<(), String> {
        let roles = [("writers", &self.writers), ("readers", &self.readers)];
        for (key, ranks) in roles.iter().filter_map(|(key, ranks)| Some((key, ranks.as_ref()?))) {
            if ranks.last() >= count {
                return Err(format!(
                    "`distribution.{key}` names rank {}, but {count} run the scenario, and the last is rank {}: start more ranks, or \
                     change the key",
                    ranks.last(),
                    count - 1
                ));
            }
        }
        let writers = self.writers.as_ref().map_or(count, RankSet::count);
        if producers < writers {
            return Err(match &self.writers {
                Some(ranks) => format!(
                    "`distribution.writers` = \"{ranks}\" names {writers} ranks, which need as many producers, but `producers.count` is \
                     {producers}: name fewer ranks, or raise it"
                ),
                None => format!(
                    "{count} shares need as many producers, but `producers.count` is {producers}: start fewer shares, raise it, or name \
                     those that have producers in `distribution.writers`"
                ),
            });
        }
        if let (Some(ranks), Some(consumers)) = (&self.readers, consumers)
            && consumers < ranks.count()
        {
            return Err(format!(
                "`distribution.readers` = \"{ranks}\" names {} ranks, which need as many consumers, but each group has {consumers}: \
                 name fewer ranks, or raise `consumers.members`",
                ranks.count()
            ));
        }
        let is_idle = |rank: &usize| {
            let share = Share { number: rank + 1, count };
            let reads = |consumers| self.of_readers(share).is_some_and(|share| !share.of(consumers).is_empty());
            self.of_writers(share).is_none() && !consumers.is_some_and(reads)
        };
        (0..count).find(is_idle).map_or(Ok(()), |rank| {
            Err(format!(
                "rank {rank} of {count} would have nothing to do: name it in `distribution.writers` or `distribution.readers`, or \
                 start fewer ranks"
            ))
        })
    }
}

fn within(ranks: Option<&RankSet>, share: Share) -> Option<Share> {
    match ranks {
        None => Some(share),
        Some(ranks) => {
            let place = ranks.place_of(share.number - 1)?;
            Some(Share { number: place + 1, count: ranks.count() })
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(roles.of_writers(of(2)), Some(Share { number: 2, count: 3 }));
        assert_eq!((roles.of_writers(of(4)), roles.of_readers(of(1))), (None, None));
        assert_eq!(roles.of_readers(of(3)), Some(Share { number: 1, count: 2 }));
        assert_eq!(roles.check(4, 3, Some(2)), Ok(()));
        assert_eq!(RankRoles::default().of_writers(of(4)), Some(of(4)));
    }

    #[test]
    fn ranks_that_are_not_there_or_have_nothing_to_do_are_refused() {
        let refused = |roles: RankRoles, count, producers, consumers, parts: &[&str]| {
            let error = roles.check(count, producers, consumers).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        refused(
            roles(Some("0-4"), None),
            4,
            9,
            Some(9),
            &["`distribution.writers` names rank 4", "the last is rank 3"],
        );
        refused(roles(None, Some("7")), 4, 9, Some(9), &["`distribution.readers` names rank 7"]);
        refused(roles(Some("0-1"), Some("3")), 4, 9, Some(9), &["rank 2 of 4 would have nothing to do"]);
        refused(roles(Some("0-2"), None), 4, 9, None, &["rank 3 of 4 would have nothing to do"]);
        refused(roles(Some("0-2"), Some("3")), 4, 2, Some(9), &["`distribution.writers`", "`producers.count` is 2"]);
        refused(roles(Some("0"), Some("1-3")), 4, 9, Some(2), &["`distribution.readers`", "`consumers.members`"]);
        refused(roles(None, None), 4, 3, Some(9), &["4 shares", "`distribution.writers`"]);
    }
}
