use super::*;
use crate::record::{SERIES_FILE, read_series, sample};

fn rows(number: u64) -> Vec<SeriesRow> {
    let row = sample::series().remove(2);
    (0..number).map(|second| SeriesRow { second, ..row.clone() }).collect()
}

#[test]
fn journal_writes_seconds_when_they_come() {
    let directory = tempfile::tempdir().unwrap();
    let series = Appender::open(directory.path().join(SERIES_FILE)).unwrap();
    let mut journal = Journal::begin(directory.path(), series).unwrap();
    let rows = rows(5 * MAX_WAITING as u64);
    for written in rows.chunks(MAX_WAITING) {
        written.iter().for_each(|row| journal.second(row, HlogLines::default()));
        // More seconds than may wait in all, so that they cannot be anywhere but on disk.
        journal.settle().unwrap();
    }
    assert_eq!(read_series(directory.path()).unwrap(), rows);
    assert!(!directory.path().join(HLOG_FILE).exists());
}

#[test]
fn stalled_disk_delays_nothing_and_reports_missing_seconds() {
    let (entries, received) = sync_channel(2);
    let (notify, notices) = channel();
    let series = PathBuf::from(SERIES_FILE);
    let mut journal = Journal { series, entries: Some(entries), notices, thread: None, skipped: 0 };
    // Would wait for ever if it waited at all: nothing is written.
    rows(5).iter().for_each(|row| journal.second(row, HlogLines::default()));
    journal.checkpoint(&sample::record());
    let disk = thread::spawn(move || {
        let mut seconds = 0;
        while let Ok(entry) = received.recv() {
            match entry {
                Entry::Second { .. } => seconds += 1,
                Entry::Checkpoint(_) => {}
                Entry::Settle(reply) => drop(reply.send(None)),
            }
        }
        seconds
    });
    let error = journal.settle().unwrap_err();
    assert!(matches!(error, DirectoryError::TooSlow { seconds: 3, .. }), "{error}");
    journal.settle().unwrap();
    drop((journal, notify));
    assert_eq!(disk.join().unwrap(), 2);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_once_and_again_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin(directory.path(), Appender::open("/dev/full".into()).unwrap()).unwrap();
    rows(3).iter().for_each(|row| journal.second(row, HlogLines::default()));
    let error = journal.settle().unwrap_err();
    assert!(matches!(error, DirectoryError::Full { .. }), "{error}");
    assert!(journal.notice().is_some_and(|notice| notice.contains("full")));
    assert_eq!(journal.notice(), None);
}

#[test]
fn a_checkpoint_takes_the_place_of_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    for trial in [1, 2] {
        let [path, unfinished] = [CHECKPOINT_FILE, UNFINISHED_CHECKPOINT].map(|name| directory.path().join(name));
        replace(&path, &unfinished, Record { trial, ..sample::record() }.to_line().as_bytes()).unwrap();
    }
    let read: Record =
        serde_json::from_str(&fs::read_to_string(directory.path().join(CHECKPOINT_FILE)).unwrap()).unwrap();
    assert_eq!(read.trial, 2);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left behind");
    remove_checkpoint(directory.path()).unwrap();
    remove_checkpoint(directory.path()).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_checkpoint_gives_free_memory_back() {
    // Other tests allocate in this process meanwhile: it runs in one of its own.
    let alone = "BROKERMARK_TEST_ALONE";
    if std::env::var_os(alone).is_none() {
        let name = concat!(module_path!(), "::a_checkpoint_gives_free_memory_back");
        let (_, name) = name.split_once("::").unwrap();
        let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = itself.args(["--exact", name]).env(alone, "yes").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let series = Appender::open(directory.path().join(SERIES_FILE)).unwrap();
    let mut journal = Journal::begin(directory.path(), series).unwrap();
    let resident = || crate::measure::host::resident_memory_bytes().unwrap();
    // What stays lies between what goes, as the figures of seconds do.
    let blocks = (0..2_000).map(|_| (vec![1_u8; 100_000], Box::new([1_u8; 64])));
    let (gone, stays): (Vec<_>, Vec<_>) = blocks.unzip();
    drop(gone);
    let before = resident();
    journal.checkpoint(&sample::record());
    journal.settle().unwrap();
    let after = resident();
    drop(stays);
    assert!(after + 100_000_000 < before, "{before} bytes before, {after} after");
}
