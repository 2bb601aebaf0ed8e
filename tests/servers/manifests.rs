//! The manifests in configs/kubernetes, against the schemas of Kubernetes' API.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::server::variable;

fn check(manifest: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/check_manifests.py");
    Command::new(variable("BROKERMARK_PYTHON")).arg(script).arg(manifest).output().unwrap()
}

#[test]
fn real_manifests_are_valid_and_a_misspelt_key_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let wrong_path = scratch.path().join("wrong.yaml");
    for manifest in ["indexed-job.yaml", "job.yaml", "mpijob.yaml"] {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/kubernetes").join(manifest);
        let checked = check(&manifest);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let text = fs::read_to_string(&manifest).unwrap();
        for (right, wrong) in [("mountPath:", "mountpoint:"), ("backoffLimit: 0", "backoffLimit: none")] {
            assert!(text.contains(right), "{}", manifest.display());
            fs::write(&wrong_path, text.replace(right, wrong)).unwrap();
            assert!(!check(&wrong_path).status.success(), "{} with {wrong}", manifest.display());
        }
    }
}
