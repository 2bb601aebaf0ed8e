//! The table of faults: each command, and what followed it.

use super::{Align, Column, Table, Tone, duration_or_dash, or_dash};
use crate::record::readable::{count, duration};
use crate::record::{Fault, FaultCommand, Record};
use crate::scenario::on_one_line;

/// Most characters of a command in the table.
const MAX_COMMAND: usize = 40;

/// A row for each command; `None` of a record without faults.
pub fn faults_table(record: &Record) -> Option<Table> {
    let commands: Vec<(&str, &FaultCommand)> = record.faults.iter().flat_map(Fault::commands).collect();
    let column = |title: &str, align, rank, text: fn(&FaultCommand) -> String| {
        Column::new(title, align, rank, commands.iter().map(|(_, command)| text(command)))
    };
    let names = commands.iter().map(|(what, command)| format!("{what:4} {}", short(&command.command)));
    let ended = commands.iter().map(|(_, command)| match (&command.failure, command.end_ns.zip(command.begin_ns)) {
        (Some(failure), _) => (Tone::Bad, failure.clone()),
        (None, Some((end_ns, begin_ns))) => (Tone::Good, format!("after {}", duration((end_ns - begin_ns) as f64))),
        (None, None) => (Tone::Plain, "–".to_owned()),
    });
    // Of shares, what followed a command is in their own records.
    let is_known = record.shares.is_empty();
    let mut columns = vec![
        Column::new("fault", Align::Left, Column::KEEP, names),
        column("began at", Align::Right, 8, |command| duration_or_dash(command.begin_ns)),
        Column::toned("ended", Align::Left, 4, ended),
    ];
    if is_known {
        columns.extend([
            column("outages", Align::Right, 3, |command| or_dash(command.begin_ns.map(|_| count(command.outages)))),
            column("longest gap", Align::Right, 5, |command| duration_or_dash(command.longest_gap_ns)),
            column("next ack. after", Align::Right, 7, |command| duration_or_dash(command.first_acknowledgement_ns)),
            column("95 % of rate after", Align::Right, Column::KEEP, |command| duration_or_dash(command.recovered_ns)),
            column("failed", Align::Right, 6, |command| or_dash(command.begin_ns.map(|_| count(command.failed)))),
        ]);
    }
    (!commands.is_empty()).then(|| Table { title: "Faults".to_owned(), columns, ..Table::default() })
}

fn short(command: &str) -> String {
    let command = on_one_line(command);
    if command.chars().count() <= MAX_COMMAND {
        return command;
    }
    command.chars().take(MAX_COMMAND - 1).chain(['…']).collect()
}
