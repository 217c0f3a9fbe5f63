"""Promises of the manifests in config/kubernetes: the cluster takes them, and nothing in them does not exist."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from bulkdeploy.manage.programs.api import GRACEFUL_SECONDS, LAST_CALLS_SECONDS
from bulkdeploy.wiring.settings import ENVIRONMENT_PREFIX, Settings
from tests.architecture.test_compose import walk

MANIFESTS = Path(__file__).parents[2] / "config" / "kubernetes"
GUIDE = MANIFESTS.parents[1] / "docs" / "how-to" / "kubernetes.md"
BUILDS = sorted(
    path.parent for path in MANIFESTS.rglob("kustomization.yaml") if "kind: Kustomization" in path.read_text()
)
OLDEST, NEWEST = "1.29", "1.37"
FOREIGN = {"ServiceMonitor"}
"""Kinds that an operator adds to a cluster; their schemas are not Kubernetes' own."""


def renderer() -> list[str] | None:
    """The command that builds a kustomization, if there is one on this machine."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return ["kubectl", "kustomize"] if shutil.which("kubectl") else None


def rendered(directory: Path) -> list[dict[str, Any]]:
    """What ``kubectl apply -k`` would send to the cluster."""
    command = renderer()
    if command is None:
        pytest.skip("neither kustomize nor kubectl is on this machine")
    built = subprocess.run([*command, str(directory)], capture_output=True, text=True, timeout=60, check=False)
    assert built.returncode == 0, built.stderr
    return list(yaml.safe_load_all(built.stdout))


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The specifications of all Pods among them."""
    return [each["spec"]["template"]["spec"] for each in objects if each["kind"] in {"Deployment", "Job"}]


@pytest.mark.parametrize("directory", BUILDS, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_the_cluster_takes_what_is_built(directory: Path) -> None:
    """Each kustomization builds, and all of it meets the schemas of old and new clusters, strictly."""
    for each in rendered(directory):
        if each["kind"] not in FOREIGN:
            for version in (OLDEST, NEWEST):
                kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("part", ["programs", "pre", "post"])
def test_pods_may_do_nothing_but_their_work(part: str) -> None:
    """Every Pod of the example meets the Pod security standard ``restricted``, writes nothing and has no token."""
    made = pods(rendered(MANIFESTS / "example" / part))
    assert made
    for pod in made:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001, "the user of the Dockerfile"
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["image"].endswith(":0.1.0"), "a release, and not whatever is newest"
        assert container["resources"]["limits"]["memory"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_every_command_exists() -> None:
    """Each container runs a subcommand of the product, to its last word."""
    for part in ("programs", "pre", "post"):
        for pod in pods(rendered(MANIFESTS / "example" / part)):
            walk(pod["containers"][0]["args"])


def test_every_setting_exists() -> None:
    """The settings of the example are settings of the product, and secrets are read from files that are mounted."""
    (settings,) = (each for each in rendered(MANIFESTS / "example" / "settings") if each["kind"] == "ConfigMap")
    for variable, value in settings["data"].items():
        name, _, option = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        assert name in Settings.model_fields, variable
        assert option or f"{name}_file" not in Settings.model_fields, f"{variable} would stand in the manifest"
        if name.endswith("_file"):
            assert value.startswith("/run/secrets/bulkdeploy/")


def test_a_program_has_the_time_to_end() -> None:
    """No Pod is killed before it did what it was told to do in the time that the settings give."""
    objects = rendered(MANIFESTS / "example" / "programs")
    grace = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for each in objects
        if each["kind"] == "Deployment"
    }
    (settings,) = (each for each in rendered(MANIFESTS / "settings") if each["kind"] == "ConfigMap")
    delay = float(settings["data"]["BULKDEPLOY_SHUTDOWN_DELAY_SECONDS"])
    assert grace["bulkdeploy-api"] > delay + LAST_CALLS_SECONDS + GRACEFUL_SECONDS
    assert grace["bulkdeploy-worker"] > Settings.model_fields["driver_timeout_seconds"].default


def test_the_autoscaler_reads_a_metric_that_exists() -> None:
    """The number of workers follows a metric that the programs have."""
    text = (MANIFESTS / "parts" / "autoscaling" / "autoscaler.yaml").read_text()
    (name,) = re.findall(r"metric:\s+name: (\w+)", text)
    assert f"`{name}`" in (MANIFESTS.parents[1] / "docs" / "reference" / "monitoring.md").read_text()


def test_the_guide_names_what_is_there() -> None:
    """Every directory that the guide applies exists."""
    applied = re.findall(r"^kubectl apply -k (\S+)", GUIDE.read_text(), re.MULTILINE)
    assert applied
    for directory in applied:
        assert (MANIFESTS / "example" / Path(directory).name / "kustomization.yaml").exists(), directory
