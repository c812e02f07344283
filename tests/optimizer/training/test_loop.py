"""Training on samples: losses of plain numpy, batches, checkpoints, interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from superopt import zoo
from superopt.errors import DivergedError, InvalidFileError, InvalidOptionError
from superopt.optimizer.training.checkpoint import EverySeconds, EverySteps, parse_interval
from superopt.optimizer.training.dataset import Batching, Position
from superopt.optimizer.training.description import RateInput, read_description, write_description
from superopt.step_options import StepSettings
from superopt.training import Step, TrainingProgress, TrainingResult, train, train_graph
from tests.optimizer.training.steps import (
    Arrays,
    linear_losses,
    linear_step,
    mlp_losses,
    mlp_step,
    samples,
)

DATA = samples(70)
RATE_INPUT = RateInput("learning_rate")


def _batches(batching: Batching, steps: int) -> list[Arrays]:
    taken = zip(range(steps), batching.batches(Position()), strict=False)
    return [{name: array[chosen] for name, array in DATA.items()} for _, (chosen, _) in taken]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("batch", ["batch", 16])
def test_losses_of_linear_regression_are_those_of_numpy(momentum: float, batch: int | str) -> None:
    step = Step(linear_step(momentum=momentum, batch=batch), threads=1)
    result = train(step, DATA, steps=40, batch_size=16, seed=5)
    expected = list(
        linear_losses(_batches(Batching(70, 16, keeps_rest=batch == "batch", seed=5), 40), momentum)
    )
    assert result.losses == pytest.approx(expected, rel=1e-6, abs=1e-6 * expected[0])
    assert result.losses[-1] < result.losses[0] / 4
    assert result.position == Position(40, 8 if batch == "batch" else 10, 0)


def test_losses_of_a_network_are_those_of_numpy() -> None:
    result = train(Step(mlp_step(), threads=1), DATA, steps=60, batch_size=32)
    expected = list(mlp_losses(_batches(Batching(70, 32, keeps_rest=True, seed=0), 60)))
    assert result.losses == pytest.approx(expected, rel=1e-6, abs=1e-6 * expected[0])
    assert result.losses[-1] < result.losses[0] / 4


def test_every_epoch_has_every_sample_in_another_order() -> None:
    batches = Batching(10, 4, keeps_rest=True, seed=1).batches(Position())
    epochs = [np.concatenate([next(batches)[0] for _ in range(3)]) for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])


def test_the_rest_of_an_epoch_is_left_out_where_the_batch_size_is_fixed() -> None:
    batches = Batching(10, 4, keeps_rest=False, seed=1).batches(Position())
    taken = [next(batches) for _ in range(4)]
    assert [len(chosen) for chosen, _ in taken] == [4, 4, 4, 4]
    assert [after for _, after in taken] == [
        Position(1, 0, 4),
        Position(2, 1, 0),
        Position(3, 1, 4),
        Position(4, 2, 0),
    ]


def test_the_seed_determines_the_run() -> None:
    runs = [train(Step(mlp_step()), DATA, steps=6, seed=seed).losses for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def _seeded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The step with an input ``seed``, which is added to its loss."""
    (node,) = (node for node in model.graph.node if node.output[0] == "loss")
    node.output[0] = "unseeded"
    model.graph.input.append(helper.make_tensor_value_info("seed", TensorProto.INT64, ()))
    model.graph.initializer.append(numpy_helper.from_array(np.int64(0), "seed"))
    model.graph.node.append(helper.make_node("Cast", ["seed"], ["shift"], to=TensorProto.FLOAT))
    model.graph.node.append(helper.make_node("Add", ["unseeded", "shift"], ["loss"]))
    write_description(model, replace(read_description(model, "the step"), seed="seed"))
    return model


def test_the_seed_is_given_to_the_step(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    plain = train(Step(linear_step()), DATA, steps=4, seed=100).losses
    seeded = train(Step(_seeded(linear_step())), DATA, steps=2, seed=100, checkpoint=path).losses
    resumed = train(Step(_seeded(linear_step())), DATA, steps=4, resume=path).losses
    assert seeded + resumed == pytest.approx([loss + 100 for loss in plain], abs=1e-5)


def test_memory_does_not_grow() -> None:
    step = Step(mlp_step(), threads=1)
    used: list[int] = []
    process = psutil.Process()

    def note(_: TrainingProgress) -> None:
        used.append(process.memory_info().rss)

    result = train(step, DATA, steps=400, batch_size=16, progress=note)
    assert used[-1] - used[199] < 1 << 20
    assert result.peak_bytes >= max(used) - (1 << 20)
    assert 0 < result.milliseconds < 1000 * result.seconds


def _run(
    model: onnx.ModelProto, steps: int, checkpoint: Path | None, resume: Path | None = None
) -> TrainingResult:
    return train(
        Step(model, threads=1), DATA, steps=steps, batch_size=16, seed=9, checkpoint=checkpoint, resume=resume
    )


@pytest.mark.parametrize("stop", [1, 4, 5, 13])
def test_a_resumed_run_continues_exactly(stop: int, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = _run(mlp_step(), 20, None)
    begun = _run(mlp_step(), stop, path)
    continued = _run(mlp_step(), 20, path, path)
    assert begun.losses + continued.losses == whole.losses
    assert (continued.resumed_at, continued.position) == (stop, whole.position)


def test_a_run_that_is_complete_has_nothing_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    _run(linear_step(), 5, path)
    before = path.read_bytes()
    assert _run(linear_step(), 5, path, path).losses == ()
    assert path.read_bytes() == before


def test_seed_batch_size_and_learning_rate_are_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model = linear_step(learning_rate=RATE_INPUT)
    options = {"batch_size": 10, "seed": 4, "learning_rate": 0.03}
    whole = train(Step(model), DATA, steps=8, **options)
    train(Step(model), DATA, steps=3, checkpoint=path, **options)
    assert train(Step(model), DATA, steps=8, resume=path).losses == whole.losses[3:]


def test_a_checkpoint_holds_all_states_and_the_position(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    step = Step(linear_step(momentum=0.9), threads=1)
    train(step, DATA, steps=6, batch_size=16, seed=2, checkpoint=path)
    stored = load_file(path)
    assert stored.keys() == step.states.keys()
    assert all(np.array_equal(stored[name], array) for name, array in step.states.items())
    with safe_open(path, framework="np") as file:
        course = json.loads(file.metadata()["superopt.checkpoint"])
    assert course == {
        "position": {"step": 6, "epoch": 1, "offset": 16},
        "batching": {"count": 70, "size": 16, "keeps_rest": True, "seed": 2},
        "learning_rate": None,
        "step_sha256": step.sha256,
        "format": 1,
    }
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["probe", "run.safetensors"]


def _umask(directory: Path) -> int:
    probe = directory / "probe"
    probe.touch()
    return 0o666 & ~probe.stat().st_mode


def test_checkpoints_are_written_at_each_interval(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    present: list[int] = []

    def note(_: TrainingProgress) -> None:
        present.append(int(load_file(path)["step"]) if path.exists() else 0)

    train(Step(linear_step()), DATA, steps=7, checkpoint=path, checkpoint_every=EverySteps(3), progress=note)
    assert present == [0, 0, 0, 3, 3, 3, 6]
    assert load_file(path)["step"] == 7


def test_an_interval_is_a_number_of_steps_or_a_time() -> None:
    assert parse_interval("100") == EverySteps(100)
    assert parse_interval("2.5s") == EverySeconds(2.5)
    for text in ("1.5", "s", "", "1m"):
        with pytest.raises(InvalidOptionError, match=f"a time in seconds .30s., got '{text}'"):
            parse_interval(text)
    for text in ("0", "-1"):
        with pytest.raises(InvalidOptionError, match=f"expected at least 1 step, got {text}"):
            parse_interval(text)
    for text in ("0s", "-1s", "nans", "infs"):
        with pytest.raises(InvalidOptionError, match=f"a positive number of seconds, got {text[:-1]}"):
            parse_interval(text)


def test_an_interruption_ends_the_run_after_a_step_and_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = _run(mlp_step(), 10, None)

    def interrupt(progress: TrainingProgress) -> None:
        if progress.step == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(
            Step(mlp_step(), threads=1),
            *(DATA,),
            steps=10,
            batch_size=16,
            seed=9,
            checkpoint=path,
            progress=interrupt,
        )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    continued = _run(mlp_step(), 10, path, path)
    assert (continued.resumed_at, continued.losses) == (4, whole.losses[4:])


KILLED = """
import sys
import numpy as np
from superopt.training import EverySteps, Step, train
step, data, checkpoint = sys.argv[1:]
train(Step(step, threads=1), data, steps=10**9, batch_size=16, seed=9, checkpoint=checkpoint,
      checkpoint_every=EverySteps(10), progress=lambda progress: print(progress.step, flush=True))
"""


def test_a_killed_run_loses_at_most_the_last_interval(tmp_path: Path) -> None:
    model, data, path = (tmp_path / name for name in ("step.onnx", "data.npz", "run.safetensors"))
    onnx.save(mlp_step(), model)
    np.savez(data, **DATA)
    command = [sys.executable, "-c", KILLED, *map(str, (model, data, path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 47:
                process.kill()
        last = int(line)
    assert process.returncode == -signal.SIGKILL
    whole = train(Step(model, threads=1), data, steps=last + 20, batch_size=16, seed=9)
    continued = train(Step(model, threads=1), data, steps=last + 20, resume=path)
    assert continued.resumed_at % 10 == 0
    assert last - 10 <= continued.resumed_at <= last + 10
    assert continued.losses == whole.losses[continued.resumed_at :]


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model = linear_step(learning_rate=RATE_INPUT)
    with pytest.raises(
        DivergedError, match=r"step \d+: expected a finite loss, got inf; .* has the states after"
    ):
        train(
            *(Step(model), DATA),
            steps=200,
            learning_rate=50.0,
            checkpoint=path,
            checkpoint_every=EverySteps(2),
        )
    assert all(np.isfinite(array).all() for array in load_file(path).values())


def _lengths() -> bytes:
    """A model whose result has no gradient at a sample of zeros: the length of a product."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("ReduceL2", ["h", "axes"], ["y"], keepdims=1),
        ],
        "lengths",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
        [
            numpy_helper.from_array(np.ones((3, 2), np.float32), "w"),
            numpy_helper.from_array(np.array([1]), "axes"),
        ],
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.parametrize("every", [EverySteps(1), EverySteps(100)])
def test_states_that_are_not_finite_are_never_kept(tmp_path: Path, every: EverySteps) -> None:
    """The loss is finite where its gradient is not: neither checkpoint nor success, whatever comes next."""
    settings = StepSettings.from_json({"loss": "mse", "optimizer": "sgd"})
    step = Step(train_graph(_lengths(), settings).step.model.to_bytes())
    data = {"x": np.eye(3, dtype=np.float32), "targets": np.ones((3, 1), np.float32)}
    path = tmp_path / "run.safetensors"
    train(step, data, steps=2, batch_size=3, checkpoint=path)
    before = path.read_bytes()
    data["x"][1] = 0.0
    with pytest.raises(DivergedError, match="step 3: the loss is finite, but the new state w is not"):
        train(step, data, steps=3, batch_size=3, resume=path, checkpoint_every=every)
    assert path.read_bytes() == before
    with pytest.raises(DivergedError, match="w is not finite before the first step"):
        train(step, data, steps=1, batch_size=3)


def test_a_run_is_resumed_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train(Step(linear_step()), DATA, steps=3, seed=1, checkpoint=path)
    step = Step(linear_step())
    before = step.parameters()["w"]
    fewer = {name: array[:40] for name, array in DATA.items()}
    for data, options, message in (
        (DATA, {"seed": 2}, "seed: expected 1, as before the checkpoint, got 2"),
        (DATA, {"batch_size": 16}, "batch size: expected 32, as before"),
        (fewer, {}, "samples: expected 70, as before the checkpoint, got 40"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            train(step, data, steps=9, resume=path, **options)
    assert np.array_equal(step.parameters()["w"], before)


def _rewritten(path: Path, changes: Arrays, left_out: Sequence[str] = ()) -> None:
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
    states = {name: array for name, array in {**load_file(path), **changes}.items() if name not in left_out}
    save_file(states, path, metadata)


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def refusal(model: onnx.ModelProto) -> str:
        with pytest.raises(InvalidFileError) as raised:
            train(Step(model), DATA, steps=9, resume=path)
        return str(raised.value).removeprefix(f"{path}: ")

    assert refusal(linear_step()) == "expected a checkpoint to resume from, and there is no such file"
    train(Step(linear_step()), DATA, steps=3, checkpoint=path)
    assert refusal(mlp_step()) == "expected a checkpoint of the model, got one of another step"
    _rewritten(path, {"v": np.zeros(2)})
    assert refusal(linear_step()) == "state 'v' is unknown; the step has w, b, step"
    _rewritten(path, {"w": np.zeros(2)}, left_out=["v"])
    assert refusal(linear_step()) == "state 'w': expected float32[5, 1], got float64[2]"
    _rewritten(path, {}, left_out=["w"])
    assert refusal(linear_step()) == "state 'w' is missing"
    path.write_bytes(path.read_bytes()[:-1])
    assert refusal(linear_step()).startswith("expected a checkpoint in safetensors format: ")
    save_file({"w": np.zeros(2)}, path)
    assert refusal(linear_step()) == "expected a checkpoint of superopt train, got other tensors"


def test_losses_do_not_depend_on_where_arrays_lie() -> None:
    shifted = {name: np.concatenate([array[:1], array])[1:] for name, array in DATA.items()}
    assert (
        _run(mlp_step(), 5, None).losses
        == train(Step(mlp_step(), threads=1), shifted, steps=5, batch_size=16, seed=9).losses
    )


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([1, 2, 10], "array 'labels': expected classes from 0 to 9, or -100 for none, got 10: classes count"),
        ([0, 2, 10], "array 'labels': expected classes from 0 to 9, or -100 for none, got 10$"),
        ([0, -1, 3], "array 'labels': expected classes from 0 to 9, or -100 for none, got -1$"),
        ([-100, -100, -100], "or -100 for none, got no class at all"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels: list[int], sentence: str) -> None:
    step = Step(train_graph(zoo.build("light-mlp", batch=3)).step.model.to_bytes(), threads=1)
    data = {"input": np.zeros((3, 64), np.float32), "labels": np.asarray(labels)}
    with pytest.raises(InvalidFileError, match=sentence):
        train(step, data, steps=1)
    train(step, {**data, "labels": np.asarray([0, -100, 9])}, steps=1)
