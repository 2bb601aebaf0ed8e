"""Validates Kubernetes manifests against the schemas of its API, strictly: an unknown key or a value of another type is refused."""

import sys

import yaml
from kubernetes_validate import latest_version, validate


def known(manifest):
    """A manifest of the API. An MPIJob (kubeflow.org/v2beta1) is read as a job for each group of its pods: pods and policy are as there."""
    if manifest["kind"] != "MPIJob":
        return [manifest]
    policy = {key: value for key, value in manifest["spec"]["runPolicy"].items() if key != "cleanPodPolicy"}
    pods = [replicas["template"] for replicas in manifest["spec"]["mpiReplicaSpecs"].values()]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": manifest["metadata"]}
    return [{**job, "spec": {**policy, "template": template}} for template in pods]


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        for manifest in yaml.safe_load_all(file):
            for part in known(manifest):
                validate(part, latest_version(), strict=True)
