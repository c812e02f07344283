"""superopt profile: measured here, imported, and used as a target."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.optimizer.cost import read_profile
from tests.optimizer.graphs import dense_blocks
from tests.optimizer.models import model_of


@pytest.fixture(autouse=True)
def _no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)


def test_a_profile_is_measured_imported_and_searched_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, made, changed = tmp_path / "model.onnx", tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    model.write_bytes(model_of(dense_blocks(2)))
    database = ("--database", f"sqlite:///{tmp_path / 'costs.db'}", "--json")

    def superopt(*words: str | Path) -> dict[str, object]:
        assert run([*map(str, words), *database]) == 0
        return json.loads(capsys.readouterr().out)

    document = superopt("profile", "--models", model, "--threads", "1", "-o", made)
    profile = read_profile(made)
    assert (document["name"], document["kernels"]) == (profile.name, len(profile.entries))
    changed.write_text(made.read_text().replace(profile.device, "Distant Device"))
    assert superopt("profile", "--import", changed)["name"] == "distant-device"
    report = superopt(
        *("optimize", model, "-o", tmp_path / "out.onnx", "--target", "distant-device"),
        *("--budget", "10", "--max-candidates", "20"),
    )
    assert report["cost"]["source"] == "profile"  # type: ignore[index]
    assert report["options"]["target"] == report["versions"]["target"] == "distant-device"  # type: ignore[index]
    assert report["measured"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--threads", "0"), 2, "threads: expected at least 1 and at most"),
        (("--models", "nothing.onnx"), 2, "nothing.onnx does not exist"),
        (("--import", "nothing.jsonl"), 2, "nothing.jsonl: cannot be read as a cost profile"),
        (("--target", "abacus"), 2, "'abacus'"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_input_is_one_sentence(
    words: tuple[str, ...], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", *words, "--database", f"sqlite:///{tmp_path / 'costs.db'}"]) == code
    assert message in capsys.readouterr().err
