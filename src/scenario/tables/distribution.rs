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
    pub fn writers_share(&self, share: Share) -> Option<Share> {
        within(self.writers.as_ref(), share)
    }

    /// This process's share of the consumers; `None`: it runs none.
    pub fn readers_share(&self, share: Share) -> Option<Share> {
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
                "`distribution.readers` = \"{ranks}\" names {} ranks, which need as many consumers, but no group has more than {consumers}: \
                 name fewer ranks, or raise `consumers.members`",
                ranks.count()
            ));
        }
        let is_idle = |rank: &usize| {
            let share = Share { number: rank + 1, count };
            let reads = |consumers| self.readers_share(share).is_some_and(|share| !share.range(consumers).is_empty());
            self.writers_share(share).is_none() && !consumers.is_some_and(reads)
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
#[path = "../../../tests/unit/scenario/tables/distribution.rs"]
mod tests;
