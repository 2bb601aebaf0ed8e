//! The manifests in configs/kubernetes, read into the types of Kubernetes' API.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::server::variable;

fn check(manifest: &Path) -> Output {
    let program = Path::new(&variable("BROKERMARK_KUBERNETES")).join("bin/check-manifests");
    Command::new(program).arg(manifest).output().unwrap()
}

#[test]
fn real_kubernetes_types_accept_every_manifest_and_refuse_a_misspelt_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/kubernetes");
    let manifests: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(manifests.len() >= 3, "{manifests:?}");
    let scratch = tempfile::tempdir().unwrap();
    for manifest in manifests {
        let checked = check(&manifest);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let text = std::fs::read_to_string(&manifest).unwrap();
        for (right, wrong) in [("mountPath:", "mountpoint:"), ("backoffLimit: 0", "backoffLimit: none")] {
            let path = scratch.path().join("wrong.yaml");
            assert!(text.contains(right), "{}", manifest.display());
            std::fs::write(&path, text.replace(right, wrong)).unwrap();
            assert!(!check(&path).status.success(), "{} with {wrong}", manifest.display());
        }
    }
}
