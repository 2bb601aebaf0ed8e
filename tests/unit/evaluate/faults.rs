use super::*;

const SECOND: u64 = 1_000_000_000;

fn begun(at_ns: u64) -> FaultCommand {
    FaultCommand { begin_ns: Some(at_ns), ..FaultCommand::default() }
}

fn outage(begin_ns: u64, gap_ns: u64, recovered_ns: Option<u64>) -> Outage {
    Outage {
        begin_ns,
        longest_gap_ns: gap_ns,
        in_window_ns: gap_ns,
        first_acknowledgement_ns: recovered_ns.map(|_| gap_ns),
        recovered_ns,
        expected_per_second: 1000.0,
        client_paused_ns: 0,
        caused_by_client: false,
    }
}

#[test]
fn an_outage_belongs_to_the_last_command_before_it() {
    let [mut run, mut undo] = [begun(10 * SECOND), begun(20 * SECOND)];
    let outages = [
        outage(5 * SECOND, 6 * SECOND, Some(6 * SECOND)),
        // The last acknowledgement was a little before the command.
        outage(10 * SECOND - SECOND / 10, 2 * SECOND, Some(3 * SECOND)),
        outage(15 * SECOND, SECOND, Some(2 * SECOND)),
        Outage { caused_by_client: true, ..outage(18 * SECOND, 9 * SECOND, None) },
        outage(21 * SECOND, SECOND, None),
    ];
    attribute(&mut [&mut run, &mut undo], &outages, [].into_iter());
    assert_eq!((run.outages, run.longest_gap_ns), (2, Some(2 * SECOND)), "what went on before it is not its own");
    assert_eq!(run.first_acknowledgement_ns, Some(2 * SECOND - SECOND / 10));
    assert_eq!(run.recovered_ns, Some(7 * SECOND), "after the last of them");
    assert_eq!((undo.outages, undo.first_acknowledgement_ns, undo.recovered_ns), (1, None, None));
}

#[test]
fn failed_messages_belong_to_the_command_that_began_before_the_end_of_their_row() {
    let [mut run, mut undo] = [begun(10 * SECOND + 1), begun(12 * SECOND)];
    let rows = [(10, 1), (11, 2), (12, 4), (13, 8)].map(|(end, failed)| (end * SECOND, failed));
    attribute(&mut [&mut run, &mut undo], &[], rows.into_iter());
    assert_eq!((run.failed, undo.failed), (6, 8));
    assert_eq!((run.outages, run.first_acknowledgement_ns), (0, None), "acknowledgements did not stop");
}
