"""The manifests for Kubernetes are valid by its schemas (those in the package kubernetes-validate)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from superopt.cli.registry import COMMANDS
from superopt.server.http.app import create_app
from superopt.server.settings import PREFIX, Settings
from superopt.substitution_db import Database
from tests.server.conftest import Http

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "kubernetes"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
Manifest = Mapping[str, Any]


def _manifests() -> Iterator[tuple[str, Manifest]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, manifest


MANIFESTS = [(name, one) for name, one in _manifests() if one["kind"] != "Kustomization"]
BY_KIND = {(one["kind"], one["metadata"]["name"]): one for _, one in MANIFESTS}
PODS = {
    one["metadata"]["name"]: one["spec"]["template"]
    for _, one in MANIFESTS
    if one["kind"] in ("Deployment", "Job")
}


@pytest.mark.parametrize("manifest", list(BY_KIND.values()), ids=["-".join(names) for names in BY_KIND])
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_manifests_are_valid(manifest: Manifest, version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schema_tells_mistakes() -> None:
    server = BY_KIND["Deployment", "superopt-server"]
    wrong = {**server, "spec": {**server["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_every_file_is_a_resource_of_the_kustomization() -> None:
    (kustomization,) = (one for _, one in _manifests() if one["kind"] == "Kustomization")
    assert {*kustomization["resources"], "kustomization.yaml"} == {path.name for path in FOLDER.glob("*")}
    (image,) = kustomization["images"]
    used = {one["image"] for pod in PODS.values() for one in pod["spec"]["containers"]}
    assert used == {image["name"]}
    assert kustomization["namespace"] == BY_KIND["Namespace", "superopt"]["metadata"]["name"]


@pytest.mark.parametrize("name", list(PODS))
def test_pods_are_confined_and_know_their_settings(name: str) -> None:
    pod = PODS[name]["spec"]
    (container,) = pod["containers"]
    assert container["args"][0] in COMMANDS
    user = int(re.findall(r"USER (\d+):", DOCKERFILE)[-1])
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == user
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    settings = {one["name"]: one["value"] for one in container.get("env", [])}
    settings |= BY_KIND["ConfigMap", "superopt-settings"]["data"]
    known = {PREFIX + field.upper() for field in Settings.model_fields} | {"SUPEROPT_BLOB_DIRECTORY"}
    assert set(settings) <= known
    parsed = Settings.from_environment(settings)
    if name != "superopt-migrate":
        assert parsed.max_job_bytes < _bytes(container["resources"]["limits"]["memory"])
        assert pod["terminationGracePeriodSeconds"] > parsed.shutdown_seconds + parsed.cancel_seconds


def test_everything_refers_to_what_exists(settings: Settings, database: Database) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in PODS.items()}
    for (kind, name), manifest in BY_KIND.items():
        spec = manifest.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector") or {}
        wanted = selector.get("matchLabels", selector)
        assert not wanted or any(wanted.items() <= one.items() for one in labels.values()), (kind, name)
    container = PODS["superopt-server"]["spec"]["containers"][0]
    http = Http(create_app(settings, database))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        path = container[probe]["httpGet"]["path"]
        assert http("GET", path, client=("10.0.0.9", 1), base="http://10.0.0.8").status_code in (200, 503)
    backend = BY_KIND["Ingress", "superopt"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    service = BY_KIND["Service", backend["name"]]["spec"]
    assert [port["name"] for port in service["ports"]] == [backend["port"]["name"]]
    assert [port["name"] for port in container["ports"]] == [service["ports"][0]["targetPort"]]


def _bytes(text: str) -> int:
    number, unit = int(text[:-2]), text[-2:]
    return number << {"Mi": 20, "Gi": 30}[unit]
