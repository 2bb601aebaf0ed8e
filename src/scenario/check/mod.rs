//! Checks a scenario against the schema of its tables: one pass that finds every key which does not exist or is missing, and every value
//! of a wrong type, unit or range.
//!
//! What is refused is reported and taken out, so that what is left can be read, and checked further.

mod schema;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Schema;
use toml::{Table, Value};

pub use self::schema::scenario_schema;
use self::schema::{advice_of, alternatives, format_of, has_type, known_format, wanted, words};
pub(super) use self::schema::{language_schema, tables_of};
use super::Secret;
use super::advice::{self, closest, list};
use super::path::KeyPath;
use super::problem::{Problems, Refusal, SourcePosition};
use super::tables::{schema_of, units};

/// The files that a scenario names.
pub(super) struct Files<'a> {
    /// The scenario file's folder: relative paths start here.
    pub directory: &'a Path,
    /// The files that payloads are made from, by the path that the scenario has.
    pub of_payloads: RefCell<BTreeMap<String, PathBuf>>,
}

impl Files<'_> {
    /// The path of a file that must be there, or a folder of them where `may_be_folder`. Relative ones start at the scenario's own folder.
    fn existing(&self, text: &str, may_be_folder: bool, key: &KeyPath, problems: &Problems) -> Option<PathBuf> {
        let path = self.directory.join(text);
        let (what, advice) = match std::fs::metadata(&path) {
            Ok(found) if found.is_file() || (found.is_dir() && may_be_folder) => return Some(path),
            Ok(found) if found.is_dir() => ("is a directory", "name a file in it"),
            Ok(_) => (
                "is a pipe or a device, which can be read only once",
                "write its contents to a file, and name that file",
            ),
            Err(_) => ("does not exist", "a relative path starts at the scenario's own folder"),
        };
        problems.value(key.clone(), format!("`{key}`: the file {} {what}", path.display()), advice);
        None
    }
}

/// The file at a path, or the files of a folder, in the order of their names.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn files_at(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| file.is_file());
    files.sort_unstable();
    Ok(files)
}

/// `{ env = … }` or `{ file = … }`, rightly or wrongly written.
pub(super) fn is_secret_source(table: &Table) -> bool {
    !table.is_empty() && table.keys().all(|key| key == "env" || key == "file")
}

/// One pass over a scenario.
pub(super) struct Check<'a> {
    pub files: &'a Files<'a>,
    pub problems: &'a Problems,
    /// Whether files must be there. Those of brokers' and sinks' own tables are opened when they connect.
    pub files_exist: bool,
}

impl Check<'_> {
    /// Whether the value is right; what is wrong in it is reported and taken out of it. Paths of files become those that the program
    /// opens, and properties that are secrets are revealed.
    pub(super) fn value(&self, value: &mut Value, schema: &Schema, path: &KeyPath) -> bool {
        if schema.get("x-own").is_some() {
            return true;
        }
        let all = alternatives(schema);
        let all_words: Vec<&str> = all.iter().flat_map(|&one| words(one)).collect();
        let fitting = all.into_iter().filter(|one| words(one).is_empty() && has_type(one, value));
        let fitting: Vec<&Schema> = fitting.collect();
        match (&mut *value, fitting.as_slice()) {
            (Value::String(text), []) if !all_words.is_empty() => {
                let advice = advice_of(schema).map(str::to_owned);
                self.word(text, &all_words, path, advice)
            }
            (_, []) => self.wrong_type(value, schema, path),
            (Value::Table(table), [only]) if format_of(only) == "property" => {
                let Some(text) = self.property(table, schema, path) else { return false };
                *value = Value::String(text);
                true
            }
            (Value::Table(table), all) => self.one_table(table, schema, all, path),
            (Value::Array(values), [only, ..]) => self.list(values, schema, only, path),
            (_, [only, ..]) => self.scalar(value, schema, only, path),
        }
    }

    fn refuse(&self, path: &KeyPath, message: String, advice: &str) -> bool {
        self.problems.value(path.clone(), message, advice);
        false
    }

    fn word(&self, text: &str, words: &[&str], path: &KeyPath, advice: Option<String>) -> bool {
        if words.contains(&text) {
            return true;
        }
        let advice = match (closest(text, words.iter().copied()), advice.or_else(|| advice::instead_of(text))) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(advice)) => advice,
            (None, None) => format!("it is one of {}", list(words.iter().copied())),
        };
        self.refuse(path, format!("`{path}` cannot be \"{text}\""), &advice)
    }

    fn wrong_type(&self, value: &Value, schema: &Schema, path: &KeyPath) -> bool {
        let format = alternatives(schema).into_iter().find_map(known_format);
        match (value, format.map(|format| format.name)) {
            (Value::Integer(number), Some("duration")) => {
                let advice = format!("did you mean \"{number}s\", or \"{number}ms\"?");
                return self.refuse(path, format!("`{path}` has no unit"), &advice);
            }
            (Value::Integer(number), Some("rate" | "rate-or-rest")) => {
                let advice = format!("did you mean \"{number}/s\" (messages per second)?");
                return self.refuse(path, format!("`{path}` has no unit"), &advice);
            }
            _ => {}
        }
        let article = if value.type_str().starts_with(['a', 'i']) { "an" } else { "a" };
        let message = format!("`{path}` should be {}, not {article} {}", wanted(schema), value.type_str());
        let kind = schema["type"].as_str();
        let advice = match (advice_of(schema), format, kind) {
            (Some(advice), ..) => Some(advice.to_owned()),
            (None, Some(format), _) => Some(format.advice.to_owned()),
            (None, None, Some("object")) => Some(format!("write `[{path}]`")),
            (None, None, Some("string")) if words(schema).is_empty() => Some("write it in quotes".to_owned()),
            _ => None,
        };
        self.problems.add(SourcePosition::Value(path.clone()), message, advice);
        false
    }

    /// A table that is to be one of `all`: by the word of its `kind`, or by the keys that it must have.
    fn one_table(&self, table: &mut Table, schema: &Schema, all: &[&Schema], path: &KeyPath) -> bool {
        let [first, .., _] = all else { return self.table(table, all[0], &[], path) };
        let tag =
            first["properties"].as_object().and_then(|keys| keys.iter().find(|(_, one)| one.get("const").is_some()));
        if let Some((tag, _)) = tag {
            let kind_of = |one: &&Schema| one["properties"][tag.as_str()]["const"].as_str().map(str::to_owned);
            let kinds: Vec<String> = all.iter().filter_map(kind_of).collect();
            let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            let place = path.key(tag);
            let advice = advice_of(schema).unwrap_or_default();
            let kind = match table.get(tag.as_str()) {
                None => {
                    let keys =
                        all.iter().flat_map(|one| one["properties"].as_object()).flatten().map(|(key, _)| key.as_str());
                    let keys: Vec<&str> = keys.collect();
                    self.unknown_keys(table, &keys, path);
                    self.problems.missing(path, tag, advice);
                    return false;
                }
                Some(Value::String(kind)) => kind.clone(),
                Some(other) => return self.wrong_type(other, &serde_json::json!({ "enum": kinds }), &place),
            };
            if !self.word(&kind, &kinds, &place, None) {
                return false;
            }
            let chosen = all.iter().find(|one| kind_of(one).as_deref() == Some(kind.as_str())).unwrap_or(first);
            return self.table(table, chosen, all, path);
        }
        let required = |one: &&Schema| one["required"].as_array().cloned().unwrap_or_default();
        let is_begun =
            |one: &&&Schema| required(one).iter().filter_map(Schema::as_str).any(|key| table.contains_key(key));
        let begun: Vec<&&Schema> = all.iter().filter(is_begun).collect();
        if let [only] = begun.as_slice() {
            return self.table(table, only, &[], path);
        }
        let known: Vec<&str> =
            all.iter().flat_map(|one| one["properties"].as_object()).flatten().map(|(key, _)| key.as_str()).collect();
        if self.unknown_keys(table, &known, path) {
            let firsts: Vec<Schema> = all.iter().filter_map(|one| required(one).into_iter().next()).collect();
            let message = format!(
                "`{path}` needs one of {}, not {}",
                list(firsts.iter().filter_map(Schema::as_str)),
                if begun.is_empty() { "none".to_owned() } else { begun.len().to_string() }
            );
            self.refuse(path, message, advice_of(schema).unwrap_or("keep one of them"));
        }
        false
    }

    /// Whether all keys are known.
    fn unknown_keys(&self, table: &Table, known: &[&str], path: &KeyPath) -> bool {
        let unknown: Vec<&String> = table.keys().filter(|key| !known.contains(&key.as_str())).collect();
        unknown.iter().for_each(|key| self.unknown_key(key, known, path));
        unknown.is_empty()
    }

    fn unknown_key(&self, key: &str, known: &[&str], path: &KeyPath) {
        let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        let near = closest(key, known.iter().copied());
        let advice = match (advice::counterpart(key, path), near) {
            (Some(advice), _) => {
                advice::meant(key).into_iter().for_each(|meant| self.problems.misspelt(path.key(meant)));
                advice
            }
            (None, Some(near)) => {
                self.problems.misspelt(path.key(near));
                format!("did you mean `{near}`?")
            }
            (None, None) => match self.problems.place_of(key, path) {
                Some(tables) => format!("`{key}` belongs to {tables}"),
                None if known.is_empty() => "this table has no keys".to_owned(),
                None => format!("known here: {}", list(known.iter().copied())),
            },
        };
        self.problems.key(path.key(key), format!("unknown key `{key}`{place}"), advice);
    }

    /// `others`: the tables of the other kinds, which may have a key that this one has not.
    pub(super) fn table(&self, table: &mut Table, schema: &Schema, others: &[&Schema], path: &KeyPath) -> bool {
        let properties = schema["properties"].as_object();
        let known: Vec<&str> = properties.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str).collect();
        let missing: Vec<&str> = required.iter().copied().filter(|key| !table.contains_key(*key)).collect();
        let names: Vec<String> = table.keys().cloned().collect();
        for name in names {
            let inner = path.key(&name);
            let property = properties.and_then(|properties| properties.get(&name));
            let is_kept = match (property, &schema["additionalProperties"]) {
                (Some(property), _) => table.get_mut(&name).is_some_and(|value| self.value(value, property, &inner)),
                (None, Schema::Bool(false)) => {
                    let has_it = |one: &&&Schema| one["properties"].get(&name).is_some();
                    match others.iter().find(has_it) {
                        Some(other) => self.report_key_of_another_kind(&name, schema, other, path),
                        None => self.unknown_key(&name, &known, path),
                    }
                    false
                }
                (None, all @ Schema::Object(_)) => {
                    table.get_mut(&name).is_some_and(|value| self.value(value, all, &inner))
                }
                _ => true,
            };
            if !is_kept {
                table.remove(&name);
            }
        }
        for key in missing {
            let property = &schema["properties"][key];
            let advice = advice_of(property).map(str::to_owned).or_else(|| {
                let words: Vec<&str> = alternatives(property).into_iter().flat_map(words).collect();
                (!words.is_empty()).then(|| format!("it is one of {}", list(words)))
            });
            let advice = advice.or_else(|| advice_of(schema).map(str::to_owned));
            let advice = advice.or_else(|| property["description"].as_str().map(|text| format!("`{key}`: {text}")));
            self.problems.missing(path, key, &advice.unwrap_or_default());
        }
        required.iter().all(|key| table.contains_key(*key))
    }

    /// A key that only a table of another kind has.
    fn report_key_of_another_kind(&self, key: &str, schema: &Schema, other: &Schema, path: &KeyPath) {
        let kind = |one: &Schema| {
            let properties = one["properties"].as_object();
            let tag =
                properties.into_iter().flatten().find_map(|(key, one)| Some((key.clone(), one["const"].as_str()?)));
            tag.map(|(tag, kind)| format!("{tag} = \"{kind}\"")).unwrap_or_default()
        };
        let message = format!("`{key}` does not go with `{}`", kind(schema));
        self.problems.key(path.key(key), message, format!("remove it, or write `{}`", kind(other)));
    }

    fn list(&self, values: &mut [Value], outer: &Schema, schema: &Schema, path: &KeyPath) -> bool {
        let bound = |key: &str| schema[key].as_u64().and_then(|bound| usize::try_from(bound).ok());
        let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
        let advice = advice_of(schema).or_else(|| advice_of(outer));
        if values.is_empty() && least > 0 {
            return self.refuse(path, format!("`{path}` is empty"), advice.unwrap_or("write what is in it"));
        }
        if !(least..=most).contains(&values.len()) {
            let many = values.len();
            let (message, otherwise) = if least == most {
                (format!("`{path}` has {many} elements, not {most}"), format!("it has {most}"))
            } else {
                (format!("`{path}` has {many} elements"), format!("at most {most} fit"))
            };
            let advice = advice.filter(|_| least == most).map_or(otherwise, str::to_owned);
            return self.refuse(path, message, &advice);
        }
        let mut are_right = true;
        for (index, value) in values.iter_mut().enumerate() {
            let item = match &schema["items"] {
                Schema::Array(items) => items.get(index).unwrap_or(&Schema::Null),
                item => item,
            };
            are_right &= self.value(value, item, &path.index(index));
        }
        are_right
    }

    fn scalar(&self, value: &mut Value, outer: &Schema, schema: &Schema, path: &KeyPath) -> bool {
        let format = known_format(schema);
        let number = match (&*value, format) {
            (Value::Integer(number), _) => *number as f64,
            (Value::Float(number), _) => *number,
            (Value::String(text), Some(format)) => match (format.number)(text) {
                Ok(number) => number,
                Err(Refusal { message, advice }) => {
                    return self.refuse(path, format!("`{path}`: {message}"), &advice);
                }
            },
            (Value::String(_), None) => return self.text(value, outer, schema, path),
            _ => return true,
        };
        let bound = |key: &str| schema.get(key).or_else(|| outer.get(key)).and_then(Schema::as_f64);
        let is_above = bound("minimum").is_none_or(|least| number >= least)
            && bound("exclusiveMinimum").is_none_or(|least| number > least);
        let is_below = bound("maximum").is_none_or(|most| number <= most)
            && bound("exclusiveMaximum").is_none_or(|most| number < most);
        let least = if ["count", "byte-size"].contains(&format_of(schema)) { 0.0 } else { f64::NEG_INFINITY };
        if is_above && is_below && number.is_finite() && number >= least {
            return true;
        }
        if format_of(schema) == "duration" {
            return self.refuse(path, format!("`{path}` cannot be zero"), "give it a length, as in \"30s\"");
        }
        let text = |number: f64| match format_of(schema) {
            "byte-size" => units::format_size(number as u64),
            _ => number.to_string(),
        };
        let least = bound("minimum").map(&text);
        let (above, below) = (bound("exclusiveMinimum").map(&text), bound("exclusiveMaximum").map(&text));
        let most = bound("maximum").map(&text);
        let range = match (least, above, most, below) {
            (Some(least), _, Some(most), _) => format!("it lies between {least} and {most}"),
            (Some(least), _, None, Some(below)) => format!("it lies between {least} and below {below}"),
            (Some(least), ..) => format!("it is at least {least}"),
            (None, Some(above), Some(most), _) => format!("it is above {above} and at most {most}"),
            (None, Some(above), ..) => format!("it is above {above}"),
            (None, None, Some(most), _) => format!("it is at most {most}"),
            _ => "write a number".to_owned(),
        };
        let advice = advice_of(schema).or_else(|| advice_of(outer)).map_or(range, str::to_owned);
        self.refuse(path, format!("`{path}` cannot be {}", shown(value)), &advice)
    }

    /// A string whose format is not a quantity.
    fn text(&self, value: &mut Value, outer: &Schema, schema: &Schema, path: &KeyPath) -> bool {
        let Value::String(text) = value else { return true };
        let advice = advice_of(schema).or_else(|| advice_of(outer));
        if text.is_empty() && schema["minLength"].as_u64().is_some_and(|least| least > 0) {
            return self.refuse(path, format!("`{path}` is empty"), advice.unwrap_or("write what it is"));
        }
        match format_of(schema) {
            "existing-file" if !self.files_exist => {
                *text = self.files.directory.join(&*text).display().to_string();
                true
            }
            format @ ("existing-file" | "payload-file" | "payload-files") => {
                let may_be_folder = format == "payload-files";
                let Some(found) = self.files.existing(text, may_be_folder, path, self.problems) else { return false };
                if format != "existing-file" {
                    // A folder that cannot be read is refused where it is used.
                    let files = files_at(&found).unwrap_or_default().into_iter();
                    let name = |file: &Path| Path::new(&*text).join(file.strip_prefix(&found).unwrap_or(file));
                    let named = files.map(|file| (name(&file).display().to_string(), file));
                    self.files.of_payloads.borrow_mut().extend(named);
                }
                *text = found.display().to_string();
                true
            }
            "environment-variable" if text.is_empty() || text.contains(['=', '\0']) => {
                let advice = "write { env = \"NAME\" }, { file = \"path\" } or a string";
                self.refuse(path, "this is not the name of an environment variable".to_owned(), advice)
            }
            "http-url" if !is_http_url(text) => {
                let message = format!("`{path}` should be a URL with http:// and without a password");
                self.refuse(path, message, advice.unwrap_or_default())
            }
            "name" if !is_name(text) => {
                let advice = "use 1 to 100 letters, digits, dots, hyphens and underscores: directories and topics are named after it";
                self.refuse(path, format!("\"{text}\" cannot name a scenario"), advice)
            }
            _ => true,
        }
    }

    /// The text of a property that is a secret.
    fn property(&self, table: &mut Table, schema: &Schema, path: &KeyPath) -> Option<String> {
        let mut secret = Value::Table(std::mem::take(table));
        if !is_secret_source(secret.as_table()?) {
            self.wrong_type(&secret, schema, path);
            return None;
        }
        if !self.value(&mut secret, &schema_of::<Secret>().to_value(), path) {
            return None;
        }
        let secret: Secret = secret.try_into().ok()?;
        let advice = "set it, or put the property's value elsewhere";
        secret.reveal().map_err(|reason| self.problems.value(path.clone(), reason, advice)).ok()
    }
}

/// A value as the user wrote it, for a message.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        other => other.to_string(),
    }
}

/// A name and a password in it would be in the record.
fn is_http_url(text: &str) -> bool {
    let host = text.strip_prefix("http://").unwrap_or_default();
    !(host.is_empty() || host.starts_with('/') || text.contains(char::is_whitespace) || text.contains('@'))
}

/// Whether directories and topics of every broker may be named so.
pub(super) fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && !name.chars().all(|character| character == '.')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "._-".contains(character))
}
