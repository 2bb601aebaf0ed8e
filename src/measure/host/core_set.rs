//! Which cores of the machine a process may use.

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// Bits in a word of a set.
const WORD: usize = u64::BITS as usize;

/// How many words a set has: `cpu_set_t` of glibc and of musl has 1,024 bits.
const WORDS: usize = 1_024 / WORD;

/// Cores by the numbers that the kernel gives them. Its text is the kernel's, as in `Cpus_allowed_list` of `/proc/self/status`: "0-3,8".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreSet([u64; WORDS]);

impl CoreSet {
    /// Those on which the calling thread may run (`sched_getaffinity`); `None` where the system does not tell, or has more than 1,024.
    #[cfg(target_os = "linux")]
    pub fn allowed() -> Option<Self> {
        let mut set = CoreSet::default();
        // SAFETY: the call writes at most so many bytes, which are there. 0 is the calling thread.
        let written =
            unsafe { libc::sched_getaffinity(0, size_of_val(&set.0), set.0.as_mut_ptr().cast::<libc::cpu_set_t>()) };
        (written == 0).then_some(set)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn allowed() -> Option<Self> {
        None
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The words of the set, the first core in the lowest bit of the first one.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    fn contains(&self, core: usize) -> bool {
        self.0.get(core / WORD).is_some_and(|word| word >> (core % WORD) & 1 == 1)
    }
}

impl BitOr for CoreSet {
    type Output = Self;

    fn bitor(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut core = 0;
        while core < WORDS * WORD {
            let first = core;
            while self.contains(core) {
                core += 1;
            }
            match core - first {
                0 => {}
                1 => write!(text, "{separator}{first}")?,
                _ => write!(text, "{separator}{first}-{}", core - 1)?,
            }
            if core > first {
                separator = ",";
            }
            core += 1;
        }
        Ok(())
    }
}

/// The text is no list of cores.
#[derive(Debug, PartialEq, Eq)]
pub struct NoCoreSet;

impl FromStr for CoreSet {
    type Err = NoCoreSet;

    fn from_str(text: &str) -> Result<Self, NoCoreSet> {
        let mut set = CoreSet::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|number| number.parse::<usize>().ok());
            for core in first.ok_or(NoCoreSet)?..=last.ok_or(NoCoreSet)?.min(WORDS * WORD) {
                *set.0.get_mut(core / WORD).ok_or(NoCoreSet)? |= 1 << (core % WORD);
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_kernel_s_and_is_read_again() {
        for (text, count) in [("", 0), ("0", 1), ("0-3,8", 5), ("63-64,1023", 3), ("0-1023", 1_024)] {
            let set: CoreSet = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.count()), (text, count));
        }
        for text in ["1024", "0-2000", "x", "1-", "-1"] {
            assert_eq!(text.parse::<CoreSet>(), Err(NoCoreSet), "{text}");
        }
    }

    #[test]
    fn two_sets_together() {
        let [one, other] = ["0-1", "1-2,70"].map(|text| text.parse::<CoreSet>().unwrap());
        assert_eq!((one | other).to_string(), "0-2,70");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_tells_the_same() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        assert_eq!(CoreSet::allowed().unwrap().to_string(), list);
    }
}
