"""What is documented and shipped for operators is what the code knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from superopt.cli.registry import COMMANDS
from superopt.server.settings import PREFIX, Settings, settings_table
from tests.machine import require_program

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
UNITS = sorted((ROOT / "docs" / "systemd").glob("*.service"))
PACKAGES = ("axioms", "generator", "optimizer", "server", "substitution_db", "superopt", "verifier")


def test_every_setting_is_documented_as_it_is() -> None:
    advice = "run python -m superopt.server.settings and put the table into docs/operations.md"
    assert settings_table() in PAGE, advice


def test_every_variable_that_the_code_reads_is_documented() -> None:
    read = {
        name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in re.findall(r'"(SUPEROPT_[A-Z_]+[A-Z])"', path.read_text(encoding="utf-8"))
    }
    assert {name for name in read if f"`{name}`" not in PAGE} == set()


def test_every_variable_that_is_shipped_is_known() -> None:
    shipped = "\n".join(
        [(ROOT / "compose.yaml").read_text(), DOCKERFILE, *(unit.read_text() for unit in UNITS)]
    )
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    known |= {"SUPEROPT_DATABASE_URL", "SUPEROPT_BLOB_DIRECTORY", "SUPEROPT_DATABASE_PASSWORD"}
    assert set(re.findall(r"SUPEROPT_[A-Z_]+[A-Z]", shipped)) <= known


def test_services_of_the_compose_file_are_commands_that_wait_for_each_other() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "migrate", "server", "worker", "worker-gpu"}
    own = {name: service for name, service in services.items() if name != "postgres"}
    for name, service in own.items():
        assert service["command"][0] in COMMANDS, name
        assert set(service["depends_on"]) <= set(services)
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert float(service["stop_grace_period"].removesuffix("s")) > (
            Settings().shutdown_seconds + Settings().cancel_seconds
        )
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in COMPOSE["volumes"]
    assert services["server"]["ports"] == ["127.0.0.1:8080:8080"]


def test_the_image_is_unprivileged_and_looked_after() -> None:
    assert DOCKERFILE.count("\nFROM ") == 2
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "/livez" in re.findall(r"HEALTHCHECK .*\\\n.*", last)[0]
    rooms = (ROOT / ".dockerignore").read_text().splitlines()
    assert {package for package in PACKAGES if f"!{package}" not in rooms} == set()


def test_units_are_what_systemd_expects(tmp_path: Path) -> None:
    analyze = require_program("systemd-analyze", "systemd")
    program = str(Path(sys.executable).parent / "superopt")
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8")
        commands = re.findall(r"^Exec\w+=/opt/superopt/bin/superopt (\w+)", text, re.MULTILINE)
        assert commands
        assert set(commands) <= COMMANDS.keys()
        copy = tmp_path / unit.name
        copy.write_text(text.replace("/opt/superopt/bin/superopt", program))
        done = subprocess.run([analyze, "verify", copy], check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        words = [analyze, "security", "--offline=true", "--threshold=20", copy]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
