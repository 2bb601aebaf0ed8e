//! The scenario of a command line: a file or a broker's URL, with the keys that options set, and without those that a command decides itself.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};
use serde::{Deserialize, Serialize};

use crate::engine;
use crate::notices::notice;
use crate::scenario::{self, Origin, Plan, ScenarioError, Setting, Written};

/// An option that stands for `--set` with a key of the scenario language.
struct Shorthand {
    /// The option, and what it is called in other tools.
    names: &'static [&'static str],
    key: &'static str,
    /// The name of its value in the help; an option without one sets `true`.
    value: Option<&'static str>,
    help: &'static str,
}

/// The heading of options that stand for a key.
const KEYS: &str = "Keys of the scenario";

/// The keys that most runs set. The scenario language checks the values: nothing of it is repeated here.
const SHORTHANDS: &[Shorthand] = &[
    shorthand(
        &["rate", "throughput"],
        "load.rate",
        Some("RATE"),
        "Send at this rate, as in 10k/s or 10MiB/s, whatever the broker does [default: as fast as answers come]",
    ),
    shorthand(
        &["size", "record-size", "message-size", "payload-size"],
        "payload.size",
        Some("SIZE"),
        "Size of a payload, as in 1KiB",
    ),
    shorthand(
        &["for", "duration", "test-duration", "time"],
        "run.duration",
        Some("DURATION"),
        "Measurement time, as in 30s",
    ),
    shorthand(
        &["messages", "num-records", "num-messages"],
        "run.messages",
        Some("COUNT"),
        "Messages to measure, as in 1M",
    ),
    shorthand(&["warm-up"], "run.warm_up", Some("DURATION"), "Load for so long before measuring"),
    shorthand(&["producers", "num-producers"], "producers.count", Some("COUNT"), "Producers at work"),
    shorthand(&["batch"], "producers.batch", Some("COUNT"), "Messages that a producer sends at once"),
    shorthand(&["threads"], "run.threads", Some("COUNT"), "Threads that carry the load [default: one for each core]"),
    shorthand(&["topics", "num-topics"], "topology.topics", Some("COUNT"), "Topics"),
    shorthand(&["partitions"], "topology.partitions", Some("COUNT"), "Partitions of each topic"),
    shorthand(&["verify"], "consumers.verify", None, "Consume, and check that every message arrives once"),
    shorthand(&["end-to-end"], "consumers.end_to_end", None, "Consume, and measure latency to the consumer"),
    shorthand(&["trials"], "sweep.trials", Some("COUNT"), "Trials per point"),
];

const fn shorthand(
    names: &'static [&'static str],
    key: &'static str,
    value: Option<&'static str>,
    help: &'static str,
) -> Shorthand {
    Shorthand { names, key, value, help }
}

/// What holds for a URL, which has no file that says it.
struct Default {
    set: &'static str,
    /// The keys of `run` beside which it does not hold.
    unless: &'static [&'static str],
}

const DEFAULTS: &[Default] = &[
    Default { set: "run.duration=30s", unless: &["duration", "messages", "payload_bytes"] },
    Default { set: "run.warm_up=5s", unless: &["warm_up", "messages", "payload_bytes"] },
];

/// A scenario as it was written: what another process needs to run the same one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WrittenScenario(Written);

impl WrittenScenario {
    /// Checks the scenario.
    ///
    /// # Errors
    /// For everything that is not right.
    pub fn plan(&self) -> Result<Plan, ScenarioError> {
        scenario::parse_written(engine::kinds(), &self.0)
    }

    /// What its settings take out of it, as sentences for people.
    pub fn notes(&self) -> Vec<String> {
        scenario::notes_on(&self.0)
    }
}

/// The scenario that a command is about.
#[derive(Debug, Clone)]
pub struct ScenarioSource {
    /// A file, or a broker's URL.
    scenario: String,
    /// A workload of OpenMessaging Benchmark; the scenario is its driver's file.
    omb: Option<String>,
    /// The file of a broker's own client.
    properties: Option<PathBuf>,
    /// In the order of their weight: a later one wins.
    settings: Vec<Setting>,
}

impl ScenarioSource {
    /// Another scenario, or the same one, with the same settings and after them `settings`.
    pub fn with(&self, scenario: Option<&str>, settings: &[Setting]) -> Self {
        ScenarioSource {
            scenario: scenario.unwrap_or(&self.scenario).to_owned(),
            omb: self.omb.clone(),
            properties: self.properties.clone(),
            settings: [self.settings.as_slice(), settings].concat(),
        }
    }

    /// Reads and checks the scenario.
    ///
    /// # Errors
    /// When the file cannot be read, and for everything that is not right.
    pub fn load(&self) -> Result<Plan, ScenarioError> {
        self.written()?.plan()
    }

    /// The same, and says what the settings or the import leave out, unless `quiet`.
    ///
    /// # Errors
    /// As [`ScenarioSource::load`].
    pub fn load_with_notes(&self, quiet: bool) -> Result<Plan, ScenarioError> {
        let written = self.written()?;
        let plan = written.plan()?;
        for note in written.notes().iter().filter(|_| !quiet) {
            notice!("{note}");
        }
        Ok(plan)
    }

    /// Reads the scenario.
    ///
    /// # Errors
    /// When the file cannot be read, or the URL or workload is not right.
    pub fn written(&self) -> Result<WrittenScenario, ScenarioError> {
        let WrittenScenario(written) = self.without_client_file()?;
        Ok(WrittenScenario(match &self.properties {
            Some(file) => scenario::client_file::add(engine::kinds(), file, written)?,
            None => written,
        }))
    }

    fn without_client_file(&self) -> Result<WrittenScenario, ScenarioError> {
        let kinds = engine::kinds();
        let written = |text: String, origin: Origin, settings: Vec<Setting>, directory: &Path| {
            WrittenScenario(Written { text, origin, settings, directory: directory.to_owned(), note: None })
        };
        if let Some(workload) = &self.omb {
            let has_rate = self.settings.iter().any(|one| one.key().starts_with("load."));
            let imported = scenario::omb::import(kinds, Path::new(workload), Path::new(&self.scenario), has_rate)?;
            let origin = Origin::Imported { workload: workload.clone(), places: imported.places };
            let WrittenScenario(plain) = written(imported.text, origin, self.settings.clone(), Path::new(""));
            return Ok(WrittenScenario(Written { note: imported.note, ..plain }));
        }
        if !scenario::is_url(&self.scenario) {
            let path = Path::new(&self.scenario);
            let (text, origin) = (scenario::read_text(path, kinds)?, Origin::File(path.display().to_string()));
            return Ok(written(text, origin, self.settings.clone(), path.parent().unwrap_or(Path::new(""))));
        }
        let url = scenario::parse_url(&self.scenario, kinds, self.properties.is_none())?;
        let mut settings: Vec<Setting> = url.settings.into_iter().chain(self.settings.iter().cloned()).collect();
        let sets = |table: &str, keys: &[&str]| {
            settings.iter().any(|one| {
                let key = one.key();
                key == table || keys.iter().any(|end| key == format!("{table}.{end}"))
            })
        };
        let defaults = DEFAULTS.iter().filter(|default| !sets("run", default.unless));
        let defaults: Vec<Setting> = defaults.map(|default| Setting::set(default.set)).collect();
        settings.splice(0..0, defaults);
        Ok(written(url.text, url.origin, settings, Path::new("")))
    }
}

/// The scenario of a command that sets rate and duration itself, so that it lacks these options.
#[derive(Debug, Clone)]
pub struct ProbedSource(ScenarioSource);

impl ProbedSource {
    /// The options that it lacks.
    const LACKS: &[&str] = &["rate", "for", "messages", "trials"];

    /// Reads and checks the scenario, with further settings.
    ///
    /// # Errors
    /// When the file cannot be read, and for everything that is not right.
    pub fn load(&self, settings: &[Setting]) -> Result<Plan, ScenarioError> {
        self.0.with(None, settings).load()
    }

    /// What the settings of the command line or the import leave out, as sentences for people.
    pub fn notes(&self) -> Vec<String> {
        // A workload that asks for the highest rate is read only with one, which the command sets.
        let with_rate = || self.0.with(None, &[Setting::set("load.rate=1/s")]).written();
        self.0.written().or_else(|_| with_rate()).map(|written| written.notes()).unwrap_or_default()
    }
}

impl Args for ProbedSource {
    fn augment_args(command: Command) -> Command {
        augment(command, Self::LACKS)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ProbedSource {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        from_matches(matches, Self::LACKS).map(ProbedSource)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ScenarioSource {
    fn augment_args(command: Command) -> Command {
        augment(command, &[])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Without the options that the command `lacks`.
fn augment(command: Command, lacks: &[&str]) -> Command {
    let scenario = Arg::new("scenario")
        .required(true)
        .value_name("SCENARIO")
        .value_hint(ValueHint::FilePath)
        .help("The scenario: a TOML file, or a broker's URL as in kafka://10.0.0.5:9092");
    let overrides = Arg::new("set")
        .long("set")
        .value_name("KEY=VALUE")
        .action(ArgAction::Append)
        .help("Override a key: `producers.count=512`");
    let omb = Arg::new("omb")
        .long("omb")
        .value_name("WORKLOAD")
        .value_hint(ValueHint::FilePath)
        .help("Run this workload file of OpenMessaging Benchmark; the scenario is then its driver's file");
    let properties = Arg::new("properties")
        .long("properties")
        .alias("command-config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .conflicts_with("omb")
        .help("Take what the scenario leaves open from a file of Kafka's or Pulsar's own client: client.properties, client.conf");
    let require = Arg::new("require")
        .long("require")
        .value_name("REQUIREMENTS")
        .action(ArgAction::Append)
        .help_heading(KEYS)
        .help(
            "What must hold, as in \"p99 < 20ms, lost = 0\", instead of the scenario's thresholds (thresholds.require)",
        );
    let shorthands = SHORTHANDS.iter().filter(|shorthand| !lacks.contains(&shorthand.names[0]));
    shorthands.fold(command.args([scenario, overrides, omb, properties, require]), |command, shorthand| {
        let arg = Arg::new(shorthand.names[0]).long(shorthand.names[0]).aliases(&shorthand.names[1..]);
        let arg = arg.help_heading(KEYS);
        command.arg(match shorthand.value {
            // The scenario language refuses a negative number, with the range.
            Some(name) => arg
                .value_name(name)
                .allow_negative_numbers(true)
                .help(format!("{} ({})", shorthand.help, shorthand.key)),
            None => arg.action(ArgAction::SetTrue).help(format!("{} ({} = true)", shorthand.help, shorthand.key)),
        })
    })
}

impl Shorthand {
    /// What the option sets, if it was given.
    fn setting(&self, matches: &ArgMatches) -> Option<Setting> {
        let option = self.typed_option();
        match self.value {
            Some(_) => {
                let value = matches.get_one::<String>(self.names[0])?;
                let quote = if value.contains(char::is_whitespace) { "'" } else { "" };
                let typed = format!("--{option} {quote}{value}{quote}");
                Some(Setting::typed_as(&typed, format!("{}={value}", self.key)))
            }
            None => {
                let is_given = matches.get_flag(self.names[0]);
                is_given.then(|| Setting::typed_as(&format!("--{option}"), format!("{}=true", self.key)))
            }
        }
    }

    /// The name under which the option was typed, which clap does not tell.
    fn typed_option(&self) -> &'static str {
        let is_typed = |alias: &str| {
            std::env::args_os().any(|word| {
                let word = word.to_string_lossy();
                word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(alias))
            })
        };
        self.names[1..].iter().copied().find(|alias| is_typed(alias)).unwrap_or(self.names[0])
    }
}

impl FromArgMatches for ScenarioSource {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        from_matches(matches, &[])
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn from_matches(matches: &ArgMatches, lacks: &[&str]) -> Result<ScenarioSource, clap::Error> {
    let scenario = matches.get_one::<String>("scenario").cloned();
    let shorthands = SHORTHANDS.iter().filter(|shorthand| !lacks.contains(&shorthand.names[0]));
    let settings = shorthands.filter_map(|shorthand| shorthand.setting(matches));
    let written = matches.get_many::<String>("set").into_iter().flatten().map(|one| Setting::set(one));
    let is_requirement = |text: &&String| text.contains(['<', '>', '=']);
    if let Some(text) = matches.try_get_one::<String>("for").ok().flatten().filter(is_requirement) {
        let message = format!("`--for` is how long a run lasts; what must hold is --require {text:?}");
        return Err(clap::Error::raw(ErrorKind::ValueValidation, message));
    }
    Ok(ScenarioSource {
        scenario: scenario.ok_or_else(|| clap::Error::new(ErrorKind::MissingRequiredArgument))?,
        omb: matches.get_one::<String>("omb").cloned(),
        properties: matches.get_one::<PathBuf>("properties").cloned(),
        settings: settings.chain(requirements(matches)).chain(written).collect(),
    })
}

/// What `--require` sets: the requirements of all of them.
fn requirements(matches: &ArgMatches) -> Option<Setting> {
    let given: Vec<&String> = matches.get_many("require")?.collect();
    let each = given.iter().flat_map(|one| one.split(',')).map(|one| format!("{:?}", one.trim()));
    let assignment = format!("thresholds.require=[{}]", each.collect::<Vec<_>>().join(", "));
    let typed: Vec<String> = given.iter().map(|one| format!("--require {one:?}")).collect();
    Some(Setting::typed_as(&typed.join(" "), assignment))
}

/// A command with the keys of a scenario that it decides itself. What a scenario says of them does not apply, so the command says that.
pub struct ReplacedKeys {
    pub command: &'static str,
    /// Why it does.
    pub reason: &'static str,
    /// A table stands for all of its keys.
    pub keys: &'static [&'static str],
}

impl ReplacedKeys {
    /// Says which keys of this scenario do not apply; `None` where it has none of them. `text` is the scenario as TOML.
    pub fn note(&self, text: &str) -> Option<String> {
        let scenario: toml::Table = text.parse().ok()?;
        let found: Vec<String> =
            self.keys.iter().filter(|key| has(&scenario, key)).map(|key| format!("`{key}`")).collect();
        (!found.is_empty()).then(|| {
            format!(
                "note: `{}` {}, so these keys of the scenario do not apply: {}",
                self.command,
                self.reason,
                found.join(", ")
            )
        })
    }
}

fn has(scenario: &toml::Table, key: &str) -> bool {
    let mut steps = key.split('.');
    let first = steps.next().and_then(|step| scenario.get(step));
    steps.fold(first, |value, step| value.and_then(toml::Value::as_table).and_then(|table| table.get(step))).is_some()
}

#[cfg(test)]
#[path = "../../tests/unit/cli/scenario_source.rs"]
mod tests;
