//! Faults: which commands run when.

use super::Reader;
use crate::scenario::tables::units::format_duration;
use crate::scenario::tables::{Fault, FaultTable, RunLimits, Undo};

/// Most commands of a trial: each is a part of its record.
const MAX_FAULTS: u128 = 1_000;

/// All faults of a trial, in the order of their times.
pub(super) fn read(reader: &Reader<'_>, tables: &[FaultTable], limits: &RunLimits) -> Vec<Fault> {
    let each = tables.iter().enumerate().flat_map(|(number, table)| of_table(reader, number, table, limits));
    let mut faults: Vec<Fault> = each.collect();
    faults.sort_by_key(|fault| fault.at);
    let overlaps = |pair: &&[Fault]| pair[1].at < pair[0].end() || pair[1].at == pair[0].at;
    if let Some([one, other]) = faults.windows(2).find(overlaps) {
        let (message, advice) = if one.table == other.table {
            ("the fault begins again before it was undone".to_owned(), "set `every` above `for`".to_owned())
        } else {
            let begin = format_duration(other.at);
            let message = format!("at {begin}, `faults[{}]` and `faults[{}]` overlap", one.table, other.table);
            (message, format!("begin the later one after {}: one fault at a time can be told from others", end(one)))
        };
        reader.refuse(&key(other.table.max(one.table), "run"), message, advice);
    }
    faults
}

fn end(fault: &Fault) -> String {
    format_duration(fault.end())
}

fn key(number: usize, name: &str) -> String {
    format!("faults[{number}].{name}")
}

fn of_table(reader: &Reader<'_>, number: usize, table: &FaultTable, limits: &RunLimits) -> Vec<Fault> {
    let refuse = |name: &str, message: &str, advice: &str| {
        reader.refuse(&key(number, name), message, advice);
        Vec::new()
    };
    let undo = match (&table.undo, table.lasts) {
        (Some(_), None) => return refuse("undo", "it is not said when the fault is undone", "set `for`"),
        (None, Some(_)) => return refuse("for", "`for` needs a command that undoes the fault", "set `undo`"),
        (Some(run), Some(after)) => Some(Undo { run: run.clone(), after }),
        (None, None) => None,
    };
    let Some(first) = table.at.or(table.every) else {
        return refuse("run", "it is not said when the fault begins", "set `at`, as in `at = \"20s\"`, or `every`");
    };
    let begin = Fault { table: number, at: first, run: table.run.clone(), undo };
    let duration = limits.stop.duration;
    let name = if table.at.is_some() { "at" } else { "every" };
    if duration.is_some_and(|duration| first >= duration) {
        return refuse(
            name,
            "the load has ended before the fault begins",
            "begin it earlier, or set a longer `run.duration`",
        );
    }
    if duration.is_some_and(|duration| begin.end() > duration) {
        let message = format!("the load has ended before the fault is undone, at {}", end(&begin));
        return refuse("for", &message, "begin it earlier, set a shorter `for`, or a longer `run.duration`");
    }
    let Some(every) = table.every else { return vec![begin] };
    let Some(duration) = duration else {
        return refuse("every", "a fault is repeated until the load ends", "set `run.duration`, or leave `every` out");
    };
    let left = duration - begin.end();
    let repeated = left.as_nanos() / every.as_nanos().max(1);
    if repeated >= MAX_FAULTS {
        return refuse("every", "the fault is repeated more than 1,000 times", "set a longer `every`");
    }
    let nth = |n: u32| Fault { at: first + every * n, ..begin.clone() };
    // One that would begin just when the load ends breaks nothing.
    let faults = (0..=repeated as u32).map(nth);
    faults.filter(|fault| fault.at < duration && fault.end() <= duration).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/faults.rs"]
mod tests;
