//! Tells the program which commit and which compiler it was built from, for the `environment` of its records.
//!
//! Works without git and outside a repository: what is not known is left out.

use std::env;
use std::path::Path;
use std::process::Command;

/// What the program is made of: changes elsewhere (results, documentation) do not make a build dirty.
const SOURCES: [&str; 4] = ["src", "Cargo.toml", "Cargo.lock", "build.rs"];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=BROKERMARK_COMMIT={commit}");
    }
    if let Some(compiler) = env::var("RUSTC").ok().and_then(|compiler| answer(&compiler, &["--version"])) {
        println!("cargo::rustc-env=BROKERMARK_RUST_COMPILER={compiler}");
    }
    #[cfg(feature = "mpi")]
    mpi();
}

/// Compiles the calls of MPI with its own compiler wrapper, and links the libraries that this one names.
#[cfg(feature = "mpi")]
fn mpi() {
    println!("cargo::rerun-if-env-changed=MPICC");
    let wrapper = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    // Open MPI's wrapper, and that of MPICH and its relatives.
    let found = answer(&wrapper, &["--showme:link"]).or_else(|| answer(&wrapper, &["-link_info"]));
    let Some(options) = found else {
        println!(
            "cargo::error=the feature `mpi` needs {wrapper}: install libopenmpi-dev or libmpich-dev, or name the wrapper in MPICC"
        );
        return;
    };
    cc::Build::new().compiler(&wrapper).file("src/ranks/job.c").compile("brokermark_mpi");
    for option in options.split_whitespace() {
        if let Some(folder) = option.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        } else if let Some(library) = option.strip_prefix("-l") {
            println!("cargo::rustc-link-lib={library}");
        } else if option.starts_with("-Wl,-rpath") {
            println!("cargo::rustc-link-arg={option}");
        }
    }
}

/// The commit checked out, with `-dirty` behind it when the sources differ from it.
fn commit() -> Option<String> {
    // A package unpacked inside somebody else's repository is not of that repository's commit.
    let here = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).canonicalize().ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != here {
        return None;
    }
    // Both move with a commit or a checkout. A path that does not exist would make every build run this again.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = [&["status", "--porcelain", "--"][..], &SOURCES].concat();
    let clean = git(&changes)?.is_empty();
    Some(if clean { commit } else { format!("{commit}-dirty") })
}

fn git(arguments: &[&str]) -> Option<String> {
    answer("git", arguments)
}

/// What the command prints, if it exists and succeeds.
fn answer(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
