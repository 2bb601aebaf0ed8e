//! The commands beside `run`, on NATS and on RabbitMQ's queues: from a scenario to start from to a page that compares.
#![cfg(all(feature = "nats", feature = "rabbitmq"))]

use crate::harness::{Bench, Finished, execute, nats, rabbitmq};

#[test]
fn real_scenarios_to_start_from_are_searched_and_compared() {
    let servers = [("nats", "nats-server", nats::address()), ("rabbitmq", "RabbitMQ", rabbitmq::amqp())];
    for (kind, shown, address) in servers {
        let bench = Bench::new(&execute(&["new", kind]).expect(0).stdout);
        let (file, addresses) = (bench.scenario().display().to_string(), format!("broker.addresses=[\"{address}\"]"));
        let results = bench.results().display().to_string();
        let on_server = |verb: &str, more: &[&str]| -> Finished {
            let settings = ["--set", &addresses, "--output", &results];
            execute(&[&[verb, &file][..], &settings, more].concat())
        };
        let search =
            ["--between", "200/s..1k/s", "--within", "30s", "--probe", "1s", "--require", "p99 < 30s, lost = 0"];
        on_server("search", &search).says(&["p99 < 30s, lost = 0", "probes in"]);

        let load = ["--rate", "500/s", "--for", "2s", "--set", "run.warm_up=1s", "--set", "sweep.trials=2"];
        let against = ["--against-set", "producers.batch=10", "--tolerance", "99%"];
        on_server("run", &[&load[..], &against].concat()).finds_nothing_worse();
        let runs: Vec<String> = bench.run_directories().iter().map(|run| run.display().to_string()).collect();
        // The names of those that ran in turn and of the search are longer.
        let [without, with, _search] = &runs[..] else { panic!("{runs:?}") };
        execute(&["compare", without, with, "--tolerance", "99%"]).finds_nothing_worse();
        let page = bench.path().join("page.html").display().to_string();
        execute(&["report", without, with, "--output", &page]).expect(0);
        execute(&["show", without]).expect(0).says(&[shown, "the median of 2 trials"]);
    }
}

impl Finished {
    /// Exit code 3 also tells that no trial is valid, as on a busy machine.
    #[track_caller]
    fn finds_nothing_worse(&self) {
        assert!(matches!(self.code, Some(0 | 3)), "{:?}, standard error:\n{}", self.code, self.stderr);
        self.says(&["producers.batch", "messages/s", ", 0 worse"]);
    }
}
