"""Files to run nodes by containers, Kubernetes and systemd: what they say is what a node understands."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.packages.built import ROOT

from penstock.node.assembly.properties import LoadedConfig, load_config

DEPLOY = ROOT / "deploy"
PROPERTIES = DEPLOY / "container/server.properties"
CONTAINERFILE = (DEPLOY / "container/Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "container/compose.yaml").read_text())
MANIFESTS = {one["kind"] + "/" + one["metadata"]["name"]: one
             for one in yaml.safe_load_all((DEPLOY / "kubernetes/penstock.yaml").read_text())}  # fmt: skip
UNIT = DEPLOY / "systemd/penstock.service"
MOST_EXPOSURE = 20
"""Tenths, of a hundred: systemd's own measure of what a service could do."""


def understood(file: Path, environment: dict[str, str]) -> LoadedConfig:
    loaded = load_config(file, environment=environment)
    assert loaded.warnings == ()
    return loaded


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_a_service_is_a_node_of_three(name: str) -> None:
    service = COMPOSE["services"][name]
    environment = service["environment"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    loaded = understood(PROPERTIES, environment)
    assert f"node-{loaded.config.node_id}" == name
    voters = re.findall(r"(\d)@node-(\d):9093", environment["PENSTOCK_CONTROLLER_QUORUM_VOTERS"])
    assert voters == [(number, number) for number in "123"]
    assert all(of_host.startswith("127.0.0.1:") for of_host in service["ports"])
    # What it advertises on this machine is the port that is mapped to its listener.
    advertised = re.search(r"HOST://127\.0\.0\.1:(\d+)", environment["PENSTOCK_ADVERTISED_LISTENERS"])
    assert advertised
    assert f"127.0.0.1:{advertised[1]}:9094" in service["ports"]
    assert service["volumes"] == [f"{name}:/var/lib/penstock"]


def pod() -> dict[str, Any]:
    found: dict[str, Any] = MANIFESTS["StatefulSet/penstock"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("ordinal", range(3))
def test_a_pod_is_a_node_of_three(tmp_path: Path, ordinal: int) -> None:
    file = tmp_path / "server.properties"
    file.write_text(MANIFESTS["ConfigMap/penstock"]["data"]["server.properties"])
    (container,) = pod()["containers"]
    given = {one["name"]: one.get("value", "") for one in container["env"]}
    listeners = given["PENSTOCK_ADVERTISED_LISTENERS"].strip()
    listeners = listeners.replace("$(POD_NAME)", f"penstock-{ordinal}").replace("$(POD_NAMESPACE)", "default")
    loaded = understood(file, {"PENSTOCK_NODE_ID": str(ordinal), "PENSTOCK_ADVERTISED_LISTENERS": listeners})
    assert f"{ordinal}@penstock-{ordinal}.penstock:9093" in file.read_text()
    assert "$" not in listeners
    assert loaded.config.node_id == ordinal


def test_kubernetes_finds_what_the_image_has() -> None:
    spec = MANIFESTS["StatefulSet/penstock"]["spec"]
    (container,) = pod()["containers"]
    assert container["lifecycle"]["preStop"]["exec"]["command"][0] in CONTAINERFILE
    assert f"USER {pod()['securityContext']['runAsUser']}:" in CONTAINERFILE
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    exposed = re.search(r"^EXPOSE (.*)$", CONTAINERFILE, re.MULTILINE)
    assert exposed
    assert sorted(named.values()) == sorted(map(int, exposed[1].split()))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in named
    labels = spec["template"]["metadata"]["labels"]
    selectors = [spec["selector"], MANIFESTS["PodDisruptionBudget/penstock"]["spec"]["selector"]]
    assert [one["matchLabels"] for one in selectors] == [labels, labels]
    service = MANIFESTS[f"Service/{spec['serviceName']}"]["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"]  # else no controller finds another, and none becomes ready
    assert spec["podManagementPolicy"] == "Parallel"
    assert not pod()["enableServiceLinks"]


def test_their_properties_are_those_of_the_image() -> None:
    ours = PROPERTIES.read_text().splitlines()
    theirs = MANIFESTS["ConfigMap/penstock"]["data"]["server.properties"].splitlines()
    assert [line for line in ours if line not in theirs and not line.startswith("#")] == []


@pytest.mark.parametrize("name", ["start-node", "before-stop", "is-alive"])
def test_scripts_are_shell(name: str) -> None:
    script = DEPLOY / "container" / name
    subprocess.run(["sh", "-n", script], check=True)
    assert f"deploy/container/{name}" in CONTAINERFILE


def test_a_node_has_all_the_time_that_it_gives_itself_to_stop() -> None:
    """Else one that has much to write down is killed, and one whose disk hangs says nothing of it."""
    longest_s = understood(PROPERTIES, COMPOSE["services"]["node-1"]["environment"]).config.shutdown_timeout_ms / 1000
    (container,) = pod()["containers"]
    before_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    given = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    assert given
    assert int(given[1]) > longest_s
    assert pod()["terminationGracePeriodSeconds"] > before_s + longest_s
    for service in COMPOSE["services"].values():
        assert int(service["stop_grace_period"].removesuffix("s")) > longest_s


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    threshold = f"--threshold={MOST_EXPOSURE}"
    subprocess.run(["systemd-analyze", "security", "--offline=true", threshold, unit], capture_output=True, check=True)


@pytest.mark.soak
def test_kubernetes_schemas_take_the_manifests() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make soak installs it")
    for manifest in MANIFESTS.values():
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
