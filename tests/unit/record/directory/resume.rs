use super::*;
use crate::record::{HlogLines, sample};

const SCENARIO: &str = "name = 'load'\n[load]\nmodel = 'closed'\n";

fn run(records: &[Record], tail: &str) -> (tempfile::TempDir, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let mut directory = RunDirectory::create(base.path(), "load", sample::record().started_at, SCENARIO).unwrap();
    for row in sample::series() {
        directory.journal().second(&row, HlogLines::default());
    }
    for record in records {
        directory.append_record(record).unwrap();
    }
    let path = directory.path().to_owned();
    for file in [RECORDS_FILE, SERIES_FILE, HLOG_FILE] {
        let mut opened = OpenOptions::new().create(true).append(true).open(path.join(file)).unwrap();
        Write::write_all(&mut opened, tail.as_bytes()).unwrap();
    }
    (base, path)
}

#[test]
fn resume_knows_completed_trials_and_removes_cut_off_lines() {
    let second = Record { trial: 2, ..sample::record() };
    let interrupted = Record { trial: 3, status: Status::Interrupted, ..sample::record() };
    let (_base, path) = run(&[sample::record(), second.clone(), interrupted], "{\"schema\":\"broker");
    let mut resumed = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
    assert_eq!(resumed.complete.keys().collect::<Vec<_>>(), [&(0, 1), &(0, 2)]);
    assert_eq!(resumed.repairs.len(), 3, "{:?}", resumed.repairs);
    assert_eq!(resumed.run_id, Some(second.run_id));
    resumed.directory.append_record(&Record { trial: 3, ..sample::record() }).unwrap();
    let read = super::super::read_records(&path).unwrap();
    assert_eq!((read.records.len(), read.cut_off), (4, false));
    drop(resumed);
    assert!(RunDirectory::open_for_resume(&path, SCENARIO).unwrap().repairs.is_empty());
}

#[test]
fn a_run_is_resumed_by_one_process_at_a_time() {
    let (_base, path) = run(&[sample::record()], "");
    let first = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
    let second = RunDirectory::open_for_resume(&path, SCENARIO).unwrap_err();
    assert!(matches!(second, DirectoryError::InUse { .. }), "{second}");
    drop(first);
    RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
}

/// A process that is being started has a copy until it runs its program.
#[test]
fn a_run_is_unlocked_when_it_ends_although_a_copy_of_its_handle_is_open() {
    let (_base, path) = run(&[sample::record()], "");
    let first = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
    let copy = first.directory.records.file.try_clone().unwrap();
    RunDirectory::open_for_resume(&path, SCENARIO).unwrap_err();
    drop(first);
    RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
    drop(copy);
}

#[test]
fn a_crash_cut_at_any_byte_can_be_resumed() {
    let line = sample::record().to_line();
    let (_base, path) = run(&[], "");
    for cut in (0..line.len()).step_by(97).chain([line.len() - 1]) {
        fs::write(path.join(RECORDS_FILE), format!("{line}{}", &line[..cut])).unwrap();
        let resumed = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
        assert_eq!(resumed.complete.len(), 1, "cut at {cut}");
        let text = fs::read_to_string(path.join(RECORDS_FILE)).unwrap();
        assert!(text.ends_with('\n'), "cut at {cut}");
    }
}

#[test]
fn another_scenario_is_refused_with_the_line_that_differs() {
    let (_base, path) = run(&[], "");
    let error = RunDirectory::open_for_resume(&path, &SCENARIO.replace("closed", "open")).unwrap_err();
    assert!(matches!(error, DirectoryError::ScenarioDiffers { line: 3, .. }), "{error}");
}

#[test]
fn another_build_is_refused_while_its_records_would_stay() {
    let (_base, path) = run(&[sample::record()], "");
    let resumed = RunDirectory::open_for_resume(&path, SCENARIO).unwrap();
    let now = sample::record().environment;
    resumed.require_same_program(&now, &[]).unwrap();
    let other = Environment { brokermark_commit: Some("0ther".to_owned()), ..now };
    let error = resumed.require_same_program(&other, &[]).unwrap_err();
    assert!(error.is_another_run() && error.to_string().contains("(0ther, "), "{error}");
    drop(resumed);
    let (_base, path) = run(&[Record { status: Status::Interrupted, ..sample::record() }], "");
    RunDirectory::open_for_resume(&path, SCENARIO).unwrap().require_same_program(&other, &[]).unwrap();
}

#[test]
fn other_directories_than_runs_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let error = RunDirectory::open_for_resume(base.path(), SCENARIO).unwrap_err();
    assert!(matches!(error, DirectoryError::NotARun { .. }), "{error}");
    let error = RunDirectory::open_for_resume(&base.path().join("none"), SCENARIO).unwrap_err();
    assert!(matches!(error, DirectoryError::Missing { .. }), "{error}");
}

/// A run that is killed while it begins may have listed a part of them.
#[test]
fn files_that_were_not_listed_are_listed_when_a_run_resumes() {
    let base = tempfile::tempdir().unwrap();
    let run = RunDirectory::create_at(&base.path().join("run"), "").unwrap();
    let file = |name: &str, bytes| InputFile { file: name.to_owned(), bytes, crc32: "0".to_owned() };
    let (a, b) = (file("a", 1), file("b", 1));
    fs::write(run.path().join(INPUTS_FILE), format!("{}{{\"file\":\"b", line(&a))).unwrap();
    assert_eq!(changed(run.path(), &[file("b", 2)]).unwrap(), None);
    run.keep_inputs(&[a.clone(), b.clone()]).unwrap();
    assert_eq!(kept(run.path()).unwrap(), [a, b]);
    assert_eq!(changed(run.path(), &[file("b", 2)]).unwrap(), Some(&file("b", 2)));
}
