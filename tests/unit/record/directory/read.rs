use super::*;
use crate::record::{Status, sample};

#[test]
fn a_single_record_may_be_laid_out_over_many_lines() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("one.json");
    fs::write(&file, serde_json::to_string_pretty(&sample::record()).unwrap()).unwrap();
    assert_eq!(read_records(&file).unwrap().records, [sample::record()]);
}

#[test]
fn cut_off_last_line_is_reported_and_damage_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(RECORDS_FILE);
    let line = sample::record().to_line();
    let half = &line[..line.len() / 2];
    fs::write(&file, format!("{line}{half}")).unwrap();
    let read = read_records(directory.path()).unwrap();
    assert_eq!((read.records.len(), read.cut_off), (1, true));
    fs::write(&file, format!("{half}\n{line}")).unwrap();
    let error = read_records(directory.path()).unwrap_err();
    assert!(matches!(error, DirectoryError::Damaged { line: 1, .. }), "{error}");
}

#[test]
fn a_log_is_read_for_the_records_among_its_lines() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.txt");
    let line = sample::record().to_line();
    let cut = &line[line.len() / 2..];
    let log = format!("{cut}warming up 3s\n\n2026-11-25T12:00:00.1Z {line}[pod/a] {}  ✓\nerror: no\n", line.trim_end());
    fs::write(&file, &log).unwrap();
    let read = read_records(&file).unwrap();
    assert_eq!((read.records, read.passed_over), (vec![sample::record(); 2], 3));
    fs::write(&file, format!("{log}{}", line.replace("record/1", "record/9"))).unwrap();
    assert!(matches!(read_records(&file), Err(DirectoryError::UnknownSchema { line: 7, .. })));
    fs::write(&file, "no record\n").unwrap();
    assert!(matches!(read_records(&file), Err(DirectoryError::Damaged { line: 1, .. })));
}

#[test]
fn a_log_beside_a_scenario_is_no_run() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(SCENARIO_FILE), "").unwrap();
    let text = format!("warming up\n{}", sample::record().to_line());
    let log = directory.path().join("run.log");
    fs::write(&log, &text).unwrap();
    let read = read_records(&log).unwrap();
    assert_eq!((read.records, read.passed_over), (vec![sample::record()], 1));
    // Of a run, a line that is not a record is damage.
    let records = directory.path().join(RECORDS_FILE);
    fs::write(&records, &text).unwrap();
    for path in [records.as_path(), directory.path()] {
        assert!(matches!(read_records(path), Err(DirectoryError::Damaged { line: 1, .. })), "{}", path.display());
    }
}

#[test]
fn a_record_of_another_version_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(RECORDS_FILE);
    let line = sample::record().to_line();
    for text in [line.replace("brokermark.record/1", "brokermark.record/9"), "{\"schema\":\"other/1\"}\n".into()] {
        fs::write(&file, format!("{line}{text}")).unwrap();
        let error = read_records(directory.path()).unwrap_err();
        assert!(matches!(error, DirectoryError::UnknownSchema { line: 2, .. }), "{error}");
    }
}

#[test]
fn the_last_record_of_a_trial_stands() {
    let interrupted = Record { status: Status::Interrupted, ..sample::record() };
    let records = [interrupted, sample::record()];
    assert_eq!(current_records(&records), [&sample::record()]);
}

#[test]
fn trials_of_two_runs_stand_beside_each_other() {
    let other = Record { run_id: "another".to_owned(), ..sample::record() };
    let records = [sample::record(), other.clone(), sample::record()];
    assert_eq!(run_ids(&records), [sample::record().run_id.as_str(), "another"]);
    assert_eq!(current_records(&records), [&sample::record(), &other]);
}

#[test]
fn the_seconds_since_the_last_begin_stand() {
    let first = sample::series()[..5].to_vec();
    let again = sample::series();
    let other = SeriesRow { trial: 2, ..again[0].clone() };
    let rows = [first, vec![other], again.clone()].concat();
    assert_eq!(current_series(&rows, 0, 1), again);
    assert_eq!(current_series(&rows, 0, 2).len(), 1);
}

#[test]
fn series_of_a_repeated_trial_has_the_later_seconds() {
    let again = sample::series();
    for killed_after in 1..=again.len() {
        let rows = [&again[..killed_after], &again[..]].concat();
        assert_eq!(current_series(&rows, 0, 1), again, "killed after {killed_after} rows");
    }
}

/// Its rows last a tenth of it, so that two or more of them begin in one second.
#[test]
fn a_window_below_ten_seconds_has_all_its_rows() {
    for length_ns in (10..=1_000).map(|thousandths| thousandths * 1_000_000) {
        let row = |number: u64| SeriesRow {
            second: number * length_ns / 1_000_000_000,
            begin_ns: Some(number * length_ns),
            length_ns,
            phase: Phase::Measure,
            ..sample::series()[5].clone()
        };
        let rows: Vec<SeriesRow> = (0..10).map(row).collect();
        assert_eq!(current_series(&rows, 0, 1), rows, "{length_ns}");
        for killed_after in 1..=rows.len() {
            let twice = [&rows[..killed_after], &rows[..]].concat();
            assert_eq!(current_series(&twice, 0, 1), rows, "{length_ns}, killed after {killed_after} rows");
        }
        let of_older_build: Vec<SeriesRow> = rows.into_iter().map(|row| SeriesRow { begin_ns: None, ..row }).collect();
        assert_eq!(current_series(&of_older_build, 0, 1), of_older_build, "{length_ns}");
    }
}

#[test]
fn a_checkpoint_stands_until_its_trial_has_a_later_record() {
    let directory = tempfile::tempdir().unwrap();
    let read = |records: &[Record]| read_checkpoint(directory.path(), records).unwrap();
    assert_eq!(read(&[]), None);
    let running = Record { status: Status::Running, ..sample::record() };
    fs::write(directory.path().join(CHECKPOINT_FILE), running.to_line()).unwrap();
    let other = Record { trial: 2, ..sample::record() };
    let before = Record { started_at: jiff::Timestamp::UNIX_EPOCH, ..sample::record() };
    assert_eq!(read(&[other, before]).as_ref(), Some(&running));
    assert_eq!(read(&[sample::record()]), None);
}
