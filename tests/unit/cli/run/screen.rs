use ratatui::backend::TestBackend;

use super::*;

fn drawn(figures: &Figures, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| figures.draw(frame)).unwrap();
    terminal.backend().to_string()
}

fn figures() -> Figures {
    let mut figures = Figures {
        title: "orders · kafka · trial 2/9".to_owned(),
        phase: "measuring 12s of 30s".to_owned(),
        acknowledged: 1_234_567,
        failed: 3,
        headline: "response",
        last_percentiles: Some([1_200_000, 2_000_000, 3_100_000, 9_000_000, 26_000_000]),
        all_percentiles: Some([1_100_000, 1_900_000, 3_000_000, 8_000_000, 31_000_000]),
        topics: vec![
            TopicRow {
                name: "orders-0".to_owned(),
                sent_per_second: 25_000.0,
                resolved_per_second: 24_990.0,
                in_flight: 40,
            },
            TopicRow {
                name: "orders-1".to_owned(),
                sent_per_second: 25_000.0,
                resolved_per_second: 25_010.0,
                in_flight: 35,
            },
        ],
        notice: "Ctrl-C ends this phase and keeps what was measured".to_owned(),
        ..Figures::default()
    };
    for second in 0..40u64 {
        figures.add(Sample {
            wanted_per_second: Some(50_000.0),
            sent_per_second: 50_000.0,
            acknowledged_per_second: 50_000.0 - 1_000.0 * (second % 7) as f64,
            payload_bytes_per_second: 5_000_000.0,
            consumed_per_second: 49_990.0,
            in_flight: 75,
            p99_ns: 2_900_000 + 100_000 * (second % 5),
            client_cores: 0.31,
            broker_cores: Some(1.25),
        });
    }
    figures
}

#[test]
fn figures_charts_and_topics_are_on_one_screen() {
    insta::assert_snapshot!(drawn(&figures(), 100, 24));
}

#[test]
fn a_small_terminal_and_a_trial_that_prepares_are_drawn_too() {
    let small = drawn(&figures(), 40, 8);
    assert!(small.contains("orders · kafka"), "{small}");
    let begun = drawn(&Figures { phase: "preparing".to_owned(), ..Figures::default() }, 80, 24);
    assert!(begun.contains("preparing") && begun.contains('–'), "{begun}");
    drawn(&figures(), 1, 1);
}

#[test]
fn the_course_keeps_no_more_than_a_screen_needs() {
    let mut figures = Figures::default();
    (0..=MAX_SAMPLES as u64).for_each(|in_flight| figures.add(Sample { in_flight, ..Sample::default() }));
    assert_eq!((figures.course.len(), figures.course[0].in_flight), (MAX_SAMPLES, 1));
}

/// The load panics on a thread of its own, and the program may end before the screen is dropped.
#[test]
fn a_panic_of_any_thread_gives_the_terminal_back() {
    restore_on_panic();
    IS_OPEN.store(true, Ordering::Release);
    tell("what was told meanwhile");
    assert_eq!(NOTICES.lock().len(), 1);
    let panicked = std::thread::spawn(|| panic!("on purpose: the screen's test")).join();
    assert!(panicked.is_err());
    assert!(!IS_OPEN.load(Ordering::Acquire) && NOTICES.lock().is_empty());
}
