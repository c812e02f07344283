"""Files of strategies: JSON, and AutoDist's published messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt import zoo
from superopt.cli.main import run
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Compressor,
    Part,
    Server,
    Spec,
    Strategy,
    VariableSync,
    renamed_nodes,
    strategy_from_json,
    strategy_to_text,
)
from superopt.optimizer.parallel.strategies.reading import read_strategy
from superopt.optimizer.parallel.strategies.wire import strategy_from_wire, strategy_to_wire
from superopt.optimizer.training.running import Step
from tests.conftest import WithLibrary

STRATEGY = Strategy(
    (
        VariableSync("w:0", Server("10.0.0.2:CPU:0", local_replication=True, sync=True, staleness=3)),
        VariableSync("v:0", Collective(2, Spec.NCCL, Compressor.CAST_WITH_FEEDBACK)),
        VariableSync(
            "t",
            None,
            (1, 2),
            (Part("t/part_0", Server("10.0.0.1:GPU:1", sync=False)), Part("t/part_1", Collective())),
        ),
    ),
    ("10.0.0.1:GPU:0", "10.0.0.2:GPU:0"),
    "20201125T2221",
    "/tmp/strategy",
)

MESSAGE = b"".join(
    (
        b"\x0a\x0d20201125T2221",  # 1: id
        b"\x12\x0d/tmp/strategy",  # 2: path
        b"\x1a\x1d\x0a\x03w:0\x12\x16\x0a\x0e10.0.0.2:CPU:0\x10\x01\x18\x01\x20\x03",
        b"\x1a\x0d\x0a\x03v:0\x1a\x06\x08\x01\x10\x02\x18\x02",
        b"\x1a\x34\x0a\x01t\x22\x031,2",
        b"\x2a\x1c\x0a\x08t/part_0\x12\x10\x0a\x0e10.0.0.1:GPU:1",
        b"\x2a\x0c\x0a\x08t/part_1\x1a\x00",
        b"\x22\x20\x0a\x0e10.0.0.1:GPU:0\x0a\x0e10.0.0.2:GPU:0",  # 4: graph_config
    )
)
"""STRATEGY, assembled by hand from the field numbers of strategy.proto and synchronizers.proto: keys are the
number times 8, plus 2 for texts and messages, which their length follows. Node: var_name 1 (0a),
PSSynchronizer 2 (12), AllReduceSynchronizer 3 (1a), partitioner 4 (22), part_config 5 (2a)."""


def test_the_message_is_that_of_the_published_format() -> None:
    assert strategy_to_wire(STRATEGY) == MESSAGE
    assert strategy_from_wire(MESSAGE, "s.pb") == STRATEGY


def test_json_is_read_as_it_was_written() -> None:
    text = strategy_to_text(STRATEGY)
    assert strategy_from_json(text.encode(), "s.json") == STRATEGY
    assert json.loads(text)["variables"][0]["synchronizer"]["kind"] == "ps"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (MESSAGE[:-1], "s.pb: expected AutoDist's message Strategy, got other bytes"),
        (b"\xff\xff\xff", "s.pb: expected AutoDist's message Strategy, got other bytes"),
        (b"\x2a\x00", "s.pb: Strategy: field 5 is not in the published format, or of another type there"),
        (b"\x08\x01", "s.pb: Strategy: field 1 is not in the published format, or of another type there"),
        (b"\x0d\x00\x00\x00\x00", "s.pb: Strategy: field 1: expected wire type 0 or 2, got 5"),
        (b"\x1a\x07\x0a\x01w\x12\x00\x1a\x00", "s.pb: Node: w: expected one synchroniser, got two"),
        (b"\x1a\x06\x0a\x01w\x22\x01x", "s.pb: Node: w: partitioner: expected numbers as 2,1, got 'x'"),
        (
            b"\x1a\x07\x0a\x01w\x1a\x02\x10\x03",
            "s.pb: AllReduceSynchronizer: compressor: expected 0 to 2, got 3",
        ),
        (b"\x1a\x05\x2a\x03\x0a\x01p", "s.pb: part_config: p: expected a synchroniser, got none"),
        (b"\x0a\x01\xff", r"s.pb: Strategy: expected texts in UTF-8, got b'\xff'"),
    ],
)
def test_other_bytes_are_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        strategy_from_wire(content, "s.pb")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"variables": []}', "s.json: strategy: replicas: Field required"),
        ('{"variables": [], "replicas": [], "more": 1}', "s.json: strategy: more: "),
        ("{", "s.json: strategy: the document: Invalid JSON"),
    ],
)
def test_other_json_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        strategy_from_json(text.encode(), "s.json")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("synchronizer", "sentence"),
    [
        (
            '{"kind": "allreduce", "group": "a"}',
            "synchronizer.allreduce.group: Input should be a valid integer",
        ),
        ('{"group": 1.5}', "synchronizer.allreduce.group: Input should be a valid integer"),
        ('{"kind": "ps"}', "synchronizer.ps.destination: Field required"),
        ('{"destination": 3}', "synchronizer.ps.destination: Input should be a valid string"),
        (
            '{"kind": "ring"}',
            "synchronizer: expected an object of kind ps or allreduce, got {'kind': 'ring'}",
        ),
        ("3", "synchronizer: expected an object of kind ps or allreduce, got 3"),
    ],
)
def test_a_defect_is_one_of_the_kind_that_is_meant(synchronizer: str, sentence: str) -> None:
    text = f'{{"variables": [{{"name": "w", "synchronizer": {synchronizer}}}], "replicas": []}}'
    with pytest.raises(InvalidFileError) as caught:
        strategy_from_json(text.encode(), "s.json")
    assert str(caught.value).startswith(f"s.json: strategy: variables.0.{sentence}")


def test_parameters_may_have_names_that_end_in_numbers_of_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As TensorFlow's have, whose strategies also name parameters without them."""
    monkeypatch.chdir(tmp_path)
    made = zoo.build("light-mlp", batch=8)
    names = {one.name: f"w:{number}" for number, one in enumerate(made.graph.initializer)}
    for one in made.graph.initializer:
        one.name = names[one.name]
    for node in made.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    onnx.save(made, "model.onnx")
    Path("pair.yaml").write_text(
        "nodes: [{devices: 2, device: t4, link: {bandwidth: 16 GB/s, latency: 5 us}}]"
    )
    assert run(["train-graph", "model.onnx", "-o", "step.onnx", "--optimizer", "sgd"]) == 0
    for builder in ("AllReduce", "PartitionedPS"):
        built = ["strategy", "build", builder, "step.onnx", "--cluster", "pair.yaml", "-o", "s.json"]
        assert run(built) == 0
        used = ["--strategy", "s.json", "--cluster", "pair.yaml", "--budget", "600"]
        assert run(["optimize", "step.onnx", "-o", "out.onnx", "--objective", "training", *used]) == 0
    text = Path("s.json").read_text()
    Path("s.json").write_text(text.replace('"w:0"', '"v:0"'))
    capsys.readouterr()
    assert run(["optimize", "step.onnx", "-o", "out.onnx", *used]) == 2
    assert "strategy: 'v' is no parameter of the step; its parameters are w:0, w:1" in capsys.readouterr().err


def test_nodes_are_renamed_in_the_order_of_their_names() -> None:
    renamed = renamed_nodes(STRATEGY, 2)
    assert renamed.replicas == ("node0:GPU:0", "node1:GPU:0")
    assert list(renamed.devices())[2:] == ["node1:CPU:0", "node0:GPU:1"]
    with pytest.raises(InvalidOptionError, match="expected at most the 1 nodes of the cluster, got 2"):
        renamed_nodes(STRATEGY, 1)


def test_names_of_a_cluster_with_more_than_ten_nodes_stay() -> None:
    nodes = tuple(f"node{number}:GPU:0" for number in range(12))
    assert renamed_nodes(Strategy((), nodes), 12).replicas == nodes


def test_a_strategy_is_built_exported_imported_and_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_library: WithLibrary,
) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    zoo.save("light-mlp", tmp_path / "model.onnx", batch=8)
    names = ("model.onnx", "step.onnx", "s.json", "s.pb", "again.json", "out.onnx", "r.json", "pair.yaml")
    model, step, built, message, again, out, report, pair = (str(tmp_path / name) for name in names)
    Path(pair).write_text("nodes: [{devices: 2, device: t4, link: {bandwidth: 16 GB/s, latency: 5 us}}]")
    assert run(["train-graph", model, "-o", step, "--optimizer", "sgd"]) == 0
    assert run(["strategy", "build", "UnevenPartitionedPS", step, "--cluster", pair, "-o", built]) == 0
    assert run(["strategy", "export", built, "-o", message]) == 0
    assert run(["strategy", "import", message, "-o", again]) == 0
    assert Path(built).read_bytes() == Path(again).read_bytes()
    given = ["--cluster", pair, "--objective", "training", "--report", report, "--strategy", message]
    given += ["--budget", "600"]
    assert run(["optimize", step, "-o", out, *given]) == 0
    content = json.loads(Path(report).read_text())
    assert (content["returned"], content["equivalence"]["passed"]) == ("optimized", True)
    assert content["parallel"]["strategy"] == "UnevenPartitionedPS"
    assert content["parallel"]["synchronisation"] == json.loads(Path(built).read_text())
    shards, timeline, replayed = (str(tmp_path / name) for name in ("shards", "t.json", "replayed.onnx"))
    assert run(["shards", step, report, "-o", shards]) == 2
    assert "cluster: expected the description of 'cluster', with 2 devices" in capsys.readouterr().err
    assert run(["shards", step, report, "-o", shards, "--cluster", "dgx-a100"]) == 2
    assert "expected the 2 devices that the plan was made for, got 8" in capsys.readouterr().err
    assert run(["shards", step, report, "-o", shards, "--cluster", pair]) == 0
    assert run(["replay", step, report, "-o", replayed, "--cluster", pair]) == 0
    assert Path(replayed).read_bytes() == Path(out).read_bytes()
    evaluated = ["--cluster", pair, "--plan", report, "--search", "none"]
    assert run(["optimize", step, "-o", replayed, "--objective", "training", *evaluated]) == 0
    assert Path(replayed).read_bytes() == Path(out).read_bytes()
    capsys.readouterr()
    assert run(["timeline", step, report, "--cluster", pair, "-o", timeline, "--json"]) == 0
    predicted = content["parallel"]["predicted"]["total"]
    assert json.loads(capsys.readouterr().out)["microseconds"] == pytest.approx(predicted, rel=1e-5)


def test_a_plan_by_servers_is_replayed_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> None:
    """Its graph has no other nodes, and is written with its sizes."""
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    monkeypatch.chdir(tmp_path)
    zoo.save("light-ncf", tmp_path / "model.onnx", batch=8)
    assert run(["train-graph", "model.onnx", "-o", "s.onnx", "--loss", "cotangents"]) == 0
    planned = ["--cluster", "4x-t4", "--objective", "training", "--strategy", "PS", "--budget", "600"]
    assert run(["optimize", "s.onnx", "-o", "out.onnx", "--report", "r.json", *planned]) == 0
    assert run(["replay", "s.onnx", "r.json", "-o", "replayed.onnx"]) == 0
    assert Path("replayed.onnx").read_bytes() == Path("out.onnx").read_bytes()


@pytest.mark.parametrize(
    ("builder", "asked", "change", "caveat"),
    [
        ("PSLoadBalancing", ["--staleness", "2"], "6 gradients applied 2 steps later", ""),
        (
            "AllReduce",
            ["--compressor", "cast-with-feedback"],
            "6 gradients in half precision with feedback",
            "each device rounds its gradients before they are added",
        ),
    ],
)
def test_an_inexact_strategy_is_built_applied_planned_and_trained(
    builder: str,
    asked: list[str],
    change: str,
    caveat: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", str(tmp_path / "rules.db"))
    monkeypatch.chdir(tmp_path)
    zoo.save("light-mlp", tmp_path / "model.onnx", batch=8)
    on_pair = ["--cluster", "pair.yaml"]
    Path("pair.yaml").write_text(
        "nodes: [{devices: 2, device: t4, link: {bandwidth: 16 GB/s, latency: 5 us}}]"
    )
    assert run(["train-graph", "model.onnx", "-o", "step.onnx", "--optimizer", "momentum"]) == 0
    assert run(["strategy", "build", builder, "step.onnx", "-o", "s.json", *on_pair, *asked]) == 0
    planned = ["--strategy", "s.json", "--objective", "training", "--budget", "600", *on_pair]
    capsys.readouterr()
    assert run(["optimize", "step.onnx", "-o", "out.onnx", *planned]) == 2
    assert "write the step that is trained so with `superopt strategy apply`" in capsys.readouterr().err
    apply = ["strategy", "apply", "s.json", "step.onnx", "-o", "other.onnx", *on_pair]
    assert run([*apply, "--tolerance", "0"]) == 2
    assert "tolerance: expected at least " in capsys.readouterr().err
    assert not Path("other.onnx").exists()
    assert run([*apply, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["equal"], len(document["changes"])) == (False, 6)
    assert 0 < document["losses"]["error"] < 0.1
    assert run(apply) == 0
    assert f"{change}; not equal to the given step" in " ".join(capsys.readouterr().out.split())
    assert run(["optimize", "other.onnx", "-o", "out.onnx", *planned, "--report", "r.json"]) == 0
    content = json.loads(Path("r.json").read_text())
    assert (content["returned"], content["equivalence"]["passed"]) == ("optimized", True)
    assert caveat in content["why"]
    sent = content["parallel"]["communication_bytes"]
    assert sent == document["communication_bytes"]["applied"]
    assert run(["shards", "other.onnx", "r.json", "-o", "shards", *on_pair]) == 0
    assert run(["replay", "other.onnx", "r.json", "-o", "replayed.onnx", *on_pair]) == 0
    assert Path("replayed.onnx").read_bytes() == Path("out.onnx").read_bytes()
    step = Step(tmp_path / "other.onnx")
    data = {p.name: np.zeros((16, *(p.shape or ())[1:]), p.dtype) for p in step.data}
    np.savez("d.npz", allow_pickle=False, **data)
    assert run(["train", "out.onnx", "--data", "d.npz", "--steps", "3"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["build", "DDP", "step.onnx"], "builder: expected one of PS, PSLoadBalancing, "),
        (["import", "none.pb"], "none.pb: cannot be read as a strategy: No such file"),
        (["export", "s.json"], "output: expected a path that ends in .pb, got "),
    ],
)
def test_bad_words_are_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0] == "build":
        zoo.save("light-mlp", tmp_path / "model.onnx", batch=8)
        assert run(["train-graph", "model.onnx", "-o", "step.onnx"]) == 0
        words = [*words, "--cluster", "autodist-b4"]
    assert run(["strategy", *words, "-o", "out.json"]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.pb", b"", "expected a strategy, got an empty file"),
        ("list.json", b"[", "strategy: the document: Invalid JSON"),
    ],
)
def test_files_without_a_strategy(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidFileError, match=sentence):
        read_strategy(tmp_path / name)
