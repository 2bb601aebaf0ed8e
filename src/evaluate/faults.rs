//! What followed the commands of faults.

use crate::engine::{CommandRun, End, Outcome};
use crate::printable::printable;
use crate::record::{Fault, FaultCommand, Outage};
use crate::secrets::mask_text;

/// How long before a command the last acknowledgement may have been, where the command is what stopped them: as long as no gap is an
/// outage.
const BEFORE_NS: u64 = super::outage::MIN_GAP_NS;

/// The faults of a trial with these outages.
pub(super) fn faults(outcome: &Outcome, outages: &[Outage]) -> Vec<Fault> {
    let begin_ns = outcome.times.measure_start_ns;
    let since_begin = |at_ns: Option<u64>| at_ns.map(|at_ns| at_ns.saturating_sub(begin_ns));
    // Of a checkpoint, the load goes on.
    let is_over = outcome.end != End::Running;
    let command = |command: &str, run: &CommandRun| FaultCommand {
        command: command.to_owned(),
        begin_ns: since_begin(run.begin_ns),
        end_ns: since_begin(run.end_ns),
        exit_code: run.exit_code,
        failure: run.failure.clone().filter(|_| is_over || run.begin_ns.is_some()),
        output: mask_text(&printable(&run.output)),
        ..FaultCommand::default()
    };
    let each = outcome.faults.iter().map(|run| Fault {
        table: run.fault.table,
        at_ns: run.fault.at.as_nanos() as u64,
        run: command(&run.fault.run, &run.run),
        undo: run.undo.as_ref().zip(run.fault.undo.as_ref()).map(|(run, undo)| command(&undo.run, run)),
    });
    let mut faults: Vec<Fault> = each.collect();
    let begun = faults.iter_mut().flat_map(|fault| std::iter::once(&mut fault.run).chain(fault.undo.as_mut()));
    let mut begun: Vec<&mut FaultCommand> = begun.filter(|command| command.begin_ns.is_some()).collect();
    // A row ends after the begin of the load.
    let before_ns = begin_ns.saturating_sub(outcome.times.load_start_ns);
    let rows = outcome.totals.seconds.iter().map(|row| (row.end_ns.saturating_sub(before_ns), row.failed));
    attribute(&mut begun, outages, rows);
    faults
}

/// Gives each outage, and the failed messages of each row by its end, to the last command before it. Times are in nanoseconds since the
/// begin of the measured phase.
fn attribute(begun: &mut [&mut FaultCommand], outages: &[Outage], rows: impl Iterator<Item = (u64, u64)>) {
    let last_before = |begun: &[&mut FaultCommand], at_ns: u64| {
        begun.iter().rposition(|command| command.begin_ns.is_some_and(|begin_ns| begin_ns < at_ns))
    };
    for outage in outages.iter().filter(|outage| !outage.caused_by_client) {
        let Some(index) = last_before(begun, outage.begin_ns + BEFORE_NS) else { continue };
        let command = &mut *begun[index];
        let since_begin = |ns: u64| (outage.begin_ns + ns).saturating_sub(command.begin_ns.unwrap_or(0));
        if command.outages == 0 {
            command.first_acknowledgement_ns = outage.first_acknowledgement_ns.map(since_begin);
        }
        command.recovered_ns = outage.recovered_ns.map(since_begin);
        command.outages += 1;
        command.longest_gap_ns = command.longest_gap_ns.max(Some(outage.longest_gap_ns));
    }
    for (end_ns, failed) in rows {
        if let Some(index) = last_before(begun, end_ns) {
            begun[index].failed += failed;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/evaluate/faults.rs"]
mod tests;
