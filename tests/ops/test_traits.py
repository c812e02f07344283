"""Every registered operator does what its traits say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from superopt.domains import FloatDomain
from superopt.ops import OPERATORS, Operator, attributes_of
from superopt.ops.roles import Divided
from superopt.ops.traits import ALIASES, GROUPED, HALVES, graph_name, rule_names, traits
from tests.ops.examples import Example, every_operator, examples

Numbers = npt.NDArray[np.float64]


class _Watching(FloatDomain):
    """Floats; notes whether two numbers were compared."""

    compared = False

    def maximum(self, left: Numbers, right: Numbers) -> Numbers:
        self.compared = True
        return super().maximum(left, right)

    def minimum(self, left: Numbers, right: Numbers) -> Numbers:
        self.compared = True
        return super().minimum(left, right)

    def select(self, condition: Numbers, left: Numbers, right: Numbers) -> Numbers:
        self.compared = True
        return super().select(condition, left, right)

    def rows(self, table: Numbers, indices: Numbers) -> Numbers:
        self.compared = True
        return super().rows(table, indices)

    def max_along(self, array: Numbers, axis: int) -> Numbers:
        self.compared = True
        return super().max_along(array, axis)


def _arrays(example: Example) -> list[Numbers]:
    generator = np.random.default_rng(0)
    return [generator.uniform(0.5, 2, (1, *shape)) for shape in example.shapes]


def _results(example: Example, *arrays: Numbers) -> tuple[Numbers, ...]:
    return example.evaluated(FloatDomain(), *(arrays or _arrays(example)))


@every_operator
def test_comparing_is_said(name: str) -> None:
    for example in examples(name):
        domain = _Watching()
        example.evaluated(domain, *_arrays(example))
        assert example.operator.compares(attributes_of(example.operator)) == domain.compared


@every_operator
def test_what_only_moves_makes_no_new_number(name: str) -> None:
    for example in examples(name) if OPERATORS[name].moves else ():
        arrays = _arrays(example)
        given = np.concatenate([array.ravel() for array in arrays])
        assert all(np.isin(result, given).all() for result in _results(example, *arrays))
    for example in examples(name) if OPERATORS[name].renames else ():
        ((array,), (result,)) = (_arrays(example), _results(example))
        assert result.ravel().tolist() == array.ravel().tolist()


@every_operator
def test_types_are_as_said(name: str) -> None:
    operator = OPERATORS[name]
    for example in examples(name):
        types, (output, *_) = example.types, example.operator.infer(*example.types)
        assert not operator.equal_inputs or set(types) == {output}
        if operator.side_rank is not None:
            assert output == types[0]
            assert {type_.rank for type_ in types[1:]} == {operator.side_rank}
        assert not operator.constant or not types
        assert not operator.ranks or types[0].rank in operator.ranks
        assert (example.operator.window(*types) is not None) == operator.windowed
        if operator.kernel_input is not None:
            assert types[operator.kernel_input].rank == 4


@every_operator
def test_a_neutral_number_changes_nothing(name: str) -> None:
    neutral = OPERATORS[name].neutral
    for example in examples(name) if neutral is not None else ():
        first, second = _arrays(example)
        (result,) = _results(example, first, np.full_like(second, neutral))
        assert result.tolist() == first.tolist()


@every_operator
def test_what_is_known_to_be_the_input_is_the_input(name: str) -> None:
    for example in examples(name):
        if not example.types:
            continue
        (output, *_) = example.operator.infer(*example.types)
        if example.operator.why_same(example.types, output) is not None:
            (array, *_), (result, *_) = _arrays(example), _results(example)
            assert result.tolist() == array.tolist()


@every_operator
def test_permutations_are_as_said(name: str) -> None:
    for example in examples(name):
        permutation = example.operator.permutation(example.types[0].rank) if example.types else None
        if permutation is not None:
            ((array,), (result,)) = (_arrays(example), _results(example))
            assert result[0].tolist() == np.transpose(array[0], permutation).tolist()


@every_operator
def test_a_constant_that_fills_has_one_number(name: str) -> None:
    for example in examples(name) if OPERATORS[name].fills else ():
        (result,) = _results(example)
        assert len(np.unique(result)) <= 1


def test_halves_are_the_pieces_of_what_graphs_have_for_them() -> None:
    assert [traits(half).half for half in HALVES] == [0, 1]
    (whole,) = {graph_name(half) for half in HALVES}
    assert set(rule_names(whole)) == {whole, *HALVES}
    assert all(graph_name(name) == name for name in OPERATORS if name not in HALVES)


def test_what_gathers_undoes_what_divides() -> None:
    for name, operator in OPERATORS.items():
        assert not operator.gathers or operator.divides in Divided
        if operator.undone_by is not None:
            assert traits(operator.undone_by).divides is operator.divides, name
            assert operator.gathers
            assert not traits(operator.undone_by).gathers


@pytest.mark.parametrize("name", ["input", "weight", "opaque", ""])
def test_what_is_no_operator_has_no_traits(name: str) -> None:
    assert traits(name) is Operator


def test_groups_of_operators() -> None:
    without = {name for name in GROUPED if OPERATORS[name].kernel_input is None}
    assert without == {"bilinear_conv", "conv_weight_gradient"}  # of transformed kernels, and to a kernel
    assert all(OPERATORS[name].moves for name in ALIASES)
