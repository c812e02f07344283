"""Plans leave the system: as annotations of the model, and as one program of ONNX models per device."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt import zoo
from superopt.domains import Array
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir.graph import Graph, Input, Weight
from superopt.ir.plan import Parallelism, Plan
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import LiftedModel, build_model, lift, load_model, lower
from superopt.onnx_io.annotations import validate_annotations
from superopt.ops.elementwise.activation import Relu
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.parallel.annotation import annotate
from superopt.optimizer.parallel.execution import HostMachine, execute
from superopt.optimizer.parallel.execution.program import run_program, save_program
from superopt.optimizer.parallel.experts import experts
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.shards import Segment, programmed
from tests.onnx_io.kit import model, node, tensor, value
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.explicit_steps import explicit_step
from tests.optimizer.parallel.networks import devices
from tests.optimizer.parallel.random_plans import (
    DEVICES,
    random_arrays,
    random_graph,
    random_plan,
    random_residence,
)

MODELS = 12


def _models() -> Iterator[tuple[LiftedModel, Plan, dict[str, Array], dict[str, Array]]]:
    """Lifted random models with a plan, their inputs and their weights."""
    for number in range(MODELS):
        draw = random.Random(1000 + number)
        graph = random_graph(draw)
        arrays = dict(random_arrays(graph))
        lifted = lift(load_model(build_model(graph, arrays)))
        names = [node.operator.label for node in lifted.graph if isinstance(node.operator, Input)]
        inputs = {name: arrays.pop(name) for name in names}
        plan = random_plan(draw, lifted.graph)
        kept = random_residence(draw, lifted.graph)
        yield lifted, replace(plan, residence=kept), inputs, arrays


def test_programs_of_devices_compute_what_the_model_computes(tmp_path: Path) -> None:
    segments = 0
    for number, (lifted, plan, inputs, _) in enumerate(_models()):
        program = programmed(lifted.graph, plan)
        save_program(program, lifted, lifted.graph, tmp_path / str(number))
        result = run_program(tmp_path / str(number), inputs)
        whole = LoadedModel(lower(lifted, lifted.graph, Plan()).to_bytes(), threads=1).run(inputs)
        for expected, got in zip(whole, result.outputs, strict=True):
            np.testing.assert_allclose(got, np.asarray(expected), rtol=2e-4, atol=2e-5)
        weights = {label: lifted.weight(label) for label in lifted.source.constants} | dict(lifted.numbers)
        direct = execute(lifted.graph, plan, weights, inputs, HostMachine(lifted.source))
        assert result.moved_bytes == direct.moved_bytes
        segments += len({path.parent for path in (tmp_path / str(number)).rglob("*.onnx")})
    assert segments > 2 * MODELS


def test_programs_of_a_step_leave_its_next_states_where_it_reads_them(tmp_path: Path) -> None:
    step = explicit_step(zoo.build("light-mlp", batch=8), "adam", "cross-entropy")
    for expert in experts(step.subject, Mesh.of(devices(2))):
        folder = tmp_path / expert.name
        save_program(programmed(step.graph, expert.plan, step.states), step.lifted, step.graph, folder)
        result, direct = run_program(folder, step.feeds()), step.executed(expert.plan)
        assert result.moved_bytes == direct.moved_bytes, expert.name
        for expected, got in zip(direct.outputs, result.outputs, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


def test_work_of_which_nothing_is_read_is_left_out(tmp_path: Path) -> None:
    """The runtime refuses a model without outputs: here device 1 makes a copy that nobody reads."""
    b = Builder()
    first = b.add(Relu(), b.input("x", 4, 3))
    graph = b.graph(b.add(Relu(), first))
    copied, alone = Parallelism((1, 1), (0, 1), copies=2), Parallelism((1, 1), (0,))
    plan = Plan(parallel={first.node: copied, graph.outputs[0].node: alone})
    lifted = lift(load_model(build_model(graph, {})))
    program = programmed(graph, plan)
    assert [entry.device for entry in program.entries if isinstance(entry, Segment)] == [0]
    save_program(program, lifted, graph, tmp_path / "program")
    data = np.full((4, 3), 2.0, np.float32)
    np.testing.assert_array_equal(run_program(tmp_path / "program", {"x": data}).outputs[0], data)


def test_annotations_of_a_plan_are_valid_and_change_nothing_that_is_computed() -> None:
    for lifted, plan, inputs, _ in _models():
        lowered = lower(lifted, lifted.graph, Plan())
        names = [f"cpu:{device}" for device in range(DEVICES)]
        model = onnx.load_from_string(annotate(lowered, lifted.graph, plan, "test", names).to_bytes())
        validate_annotations(model)
        onnx.checker.check_model(model)
        assert [configuration.num_devices for configuration in model.configuration] == [DEVICES]
        annotated = [node for node in model.graph.node if node.device_configurations]
        assert annotated or not plan.parallel
        before = LoadedModel(lowered.to_bytes(), threads=1).run(inputs)
        after = LoadedModel(model.SerializeToString(), threads=1).run(inputs)
        for left, right in zip(before, after, strict=True):
            np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_outputs_that_nothing_computes_are_there(tmp_path: Path) -> None:
    editor = Graph.empty().edit()
    source = editor.add(Input("x", TensorType(ElementType.FLOAT, (2,))))
    weight = editor.add(Weight("w", TensorType(ElementType.FLOAT, (2,))))
    editor.set_outputs((source.value, editor.add(Relu(), weight.values).value))
    content = {"x": np.array([1, 2], np.float32), "w": np.array([-1, 3], np.float32)}
    lifted = lift(load_model(build_model(editor.build(), content)))
    save_program(programmed(lifted.graph, Plan()), lifted, lifted.graph, tmp_path / "program")
    outputs = run_program(tmp_path / "program", {"x": content["x"]}).outputs
    assert [output.tolist() for output in outputs] == [[1, 2], [0, 3]]


def test_a_scalar_stays_a_scalar(tmp_path: Path) -> None:
    made = model(
        [node("Gather", "x i", "row", axis=1), node("Relu", "row", "y")],
        [value("x", [4, 3])],
        [value("y", [4])],
        [tensor("i", 1, np.int64)],
    )
    lifted = lift(load_model(made))
    save_program(programmed(lifted.graph, Plan()), lifted, lifted.graph, tmp_path / "program")
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert run_program(tmp_path / "program", {"x": data}).outputs[0].tolist() == [1, 4, 7, 10]


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    lifted, plan, inputs, _ = next(_models())
    with pytest.raises(InvalidOptionError, match="expected a directory that does not exist"):
        save_program(programmed(lifted.graph, plan), lifted, lifted.graph, tmp_path)
    with pytest.raises(InvalidFileError, match="not a program manifest"):
        run_program(tmp_path, inputs)
    save_program(programmed(lifted.graph, plan), lifted, lifted.graph, tmp_path / "program")
    with pytest.raises(InvalidOptionError, match="missing: x"):
        run_program(tmp_path / "program", {})
