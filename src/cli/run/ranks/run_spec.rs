//! What rank 0 tells all ranks by MPI: first a line that every build reads, then what only the same build has to understand.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cli::scenario_source::WrittenScenario;

/// The first line. Fields may be added to it, but none is renamed, removed or given another meaning: a rank of another build has to find out
/// that it is one, and to tell rank 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Of rank 0.
    pub build: String,
    /// Where rank 0 listens; nowhere, if it does not run.
    pub addresses: Vec<SocketAddr>,
    pub token: u64,
}

/// What the ranks run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSpec {
    pub bootstrap: Bootstrap,
    pub run_id: String,
    /// Below which directory each rank keeps what it measures.
    pub directory: PathBuf,
    pub scenario: WrittenScenario,
}

/// Rank 0's message cannot be followed.
#[derive(Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Rank 0 is another build.
    Build(Bootstrap),
    /// Not even the first line can be read.
    Unknown,
}

/// The message of a rank 0 of this build: the run specification, or why it does not run.
pub fn message(build: &str, run_spec: &Result<RunSpec, String>) -> serde_json::Result<Vec<u8>> {
    let nowhere = || Bootstrap { build: build.to_owned(), addresses: Vec::new(), token: 0 };
    let bootstrap = run_spec.as_ref().map_or_else(|_| nowhere(), |run_spec| run_spec.bootstrap.clone());
    let mut message = serde_json::to_vec(&bootstrap)?;
    message.push(b'\n');
    serde_json::to_writer(&mut message, run_spec)?;
    Ok(message)
}

/// Reads rank 0's message, as a rank of `build`.
///
/// # Errors
/// When rank 0 is another build.
pub fn read(message: &[u8], build: &str) -> Result<Result<RunSpec, String>, Foreign> {
    let mut lines = message.splitn(2, |byte| *byte == b'\n');
    let first = lines.next().and_then(|line| serde_json::from_slice::<Bootstrap>(line).ok());
    let bootstrap = first.ok_or(Foreign::Unknown)?;
    let rest = lines.next().and_then(|rest| serde_json::from_slice(rest).ok());
    match rest {
        Some(run_spec) if bootstrap.build == build => Ok(run_spec),
        _ => Err(Foreign::Build(bootstrap)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap(build: &str) -> Bootstrap {
        Bootstrap { build: build.to_owned(), addresses: vec!["10.0.0.1:7000".parse().unwrap()], token: 7 }
    }

    #[test]
    fn the_same_build_reads_what_is_run_or_why_nothing_is() {
        let refused = message("one", &Err("no".to_owned())).unwrap();
        assert_eq!(read(&refused, "one").unwrap().unwrap_err(), "no");
    }

    #[test]
    fn another_build_reads_the_first_line_whatever_the_rest_says() {
        let first = serde_json::to_string(&bootstrap("one")).unwrap();
        let with_another_field = first.replacen('{', "{\"more\":[1],", 1);
        for message in [format!("{first}\nnot JSON"), format!("{with_another_field}\n{{}}"), first] {
            assert_eq!(read(message.as_bytes(), "other").unwrap_err(), Foreign::Build(bootstrap("one")));
        }
        assert_eq!(read(b"{\"Ok\":{}}", "other").unwrap_err(), Foreign::Unknown);
        // As this and all later builds write it.
        let written = r#"{"build":"one","addresses":["10.0.0.1:7000"],"token":7}"#;
        assert_eq!(serde_json::from_str::<Bootstrap>(written).unwrap(), bootstrap("one"));
    }
}
