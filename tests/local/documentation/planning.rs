//! Commands of the documentation, planned as brokermark would: a key, a value or a threshold that is wrong is found.

use std::path::{Path, PathBuf};

use brokermark::cli::{Arguments, Verb};

use crate::harness::{Bench, execute};

/// What the pages ask readers to add to the scenario that `brokermark new` wrote.
const ADDED: &str = "\n[thresholds]\nrequire = [\"p99 < 20ms\", \"failed = 0\"]\n";

/// The files that commands of a page name and that the reader is to write.
pub struct Files {
    bench: Bench,
    /// Each kind that a page makes a file for by `brokermark new KIND > FILE`.
    made: Vec<(String, String)>,
}

impl Files {
    /// Of a page with these lines in its blocks of commands.
    pub fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let made = lines.filter_map(|line| {
            let (kind, file) = line.trim().strip_prefix("brokermark new ")?.split_once(" > ")?;
            Some((file.trim().to_owned(), kind.trim().to_owned()))
        });
        Files { bench: Bench::new(""), made: made.collect() }
    }

    /// The file of that name: one of the repository, or one as the reader would have it. Where the page does not say of which kind, it is
    /// Kafka's, as `orders.toml` is in the README.
    fn find(&self, name: &str) -> PathBuf {
        if Path::new(env!("CARGO_MANIFEST_DIR")).join(name).is_file() {
            return PathBuf::from(name);
        }
        let made = self.made.iter().find(|(file, _)| file == name);
        let kind = made.map_or("kafka", |(_, kind)| kind);
        let text = execute(&["new", kind]).expect(0).stdout + ADDED;
        self.bench.write(name, &text)
    }

    /// The words of a command, with the files that the reader is to write in their places.
    pub fn placed(&self, words: &[String]) -> Vec<String> {
        let placed = |word: &String| {
            let path = match word.rsplit_once('.') {
                Some((_, "toml")) if !word.contains('=') => self.find(word),
                Some((_, "properties")) => self.bench.write(word, "bootstrap.servers=127.0.0.1:9092\n"),
                _ => return word.clone(),
            };
            path.to_str().unwrap().to_owned()
        };
        words.iter().map(placed).collect()
    }
}

/// Whether the command is about a scenario that can be planned here: a workload of OpenMessaging Benchmark is a file of its own project.
pub fn is_planned(words: &[String]) -> bool {
    !words.iter().any(|word| word == "--omb")
}

/// Plans what the command is about; `None`: it is not about a scenario.
///
/// # Errors
/// What brokermark would say.
pub fn plan(arguments: &Arguments) -> Option<Result<(), String>> {
    let planned = match &arguments.verb {
        Verb::Run(run) => {
            let other = run.against.is_wanted().then(|| run.other_plan()).transpose();
            run.source.load().and_then(|_| other.map(drop)).map_err(|error| error.to_string())
        }
        Verb::Search(search) => search.plan().map(drop),
        Verb::Check(check) => check.source.load().map(drop).map_err(|error| error.to_string()),
        Verb::Doctor(doctor) => doctor.source.load().map(drop).map_err(|error| error.to_string()),
        Verb::Ceiling(ceiling) => ceiling.source.load().map(drop).map_err(|error| error.to_string()),
        Verb::RemoveTopics(remove) => remove.source.load().map(drop).map_err(|error| error.to_string()),
        _ => return None,
    };
    Some(planned)
}
