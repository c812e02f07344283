"""The cases of a rule are all cases: every well-typed instance that can be found is an instance of one."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.errors import IllTypedError, RankMismatchError, SuperoptError, UnfitTypesError
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler
from superopt.ir.dimensions import Dimension, SymbolicDimension, substitute, symbol, symbols_of
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Equation
from superopt.ir.types import ElementType, ShardedType, TensorType
from superopt.ops.attributes import PADDING_WORDS
from superopt.ops.base import OPERATORS, Operator, operator_from_attributes
from superopt.ops.elementwise.activation import activation_from_text
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.typing import infer_terms
from superopt.verifier.certificates.attribute_cases import attribute_cases
from superopt.verifier.certificates.cases import UndecidedCasesError, cases_of
from superopt.verifier.certificates.dropped_cases import require_refused
from superopt.verifier.certificates.rank_bound import largest_rank
from superopt.verifier.certificates.rank_classes import axes_of_one_rank

RULES = """
relu(x) => tanh(x)
concat[axis=a](relu(x), y) => relu(concat[axis=a](x, y))
softmax[axis=-3](concat[axis=3](x, y)) => concat[axis=3](softmax[axis=-3](x), softmax[axis=-3](y))
matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)
conv[stride=s, padding=p, activation=c](x, y) => conv[stride=s, padding=p, activation=c](relu(x), y)
conv(conv(x, y: f32[5, 3, 1, 1]), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y)))
conv(x, concat[axis=0](y, z)) => concat[axis=1](conv(x, y), conv(x, z)) where groups(x, y) = 1
maxpool[kernel=k, stride=s](maxpool[kernel=k](x)) => maxpool[kernel=k, stride=s](x)
mul(x, broadcast(y)) => broadcast(mul(x, y))
softmax[axis=a](x) => div(exp(x), broadcast(reduce_sum[axis=a](exp(x))))
transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))
add(split0[axis=a](x), y) => split0[axis=a](x)
bias_add[axis=a](concat[axis=b](x, y), s) => concat[axis=b](bias_add[axis=a](x, s), bias_add[axis=a](y, s))
kernel_response(w, bias_add[axis=0](v, u)) => add(kernel_response(w, v), kernel_response(w, u))
reduce_sum[axis=a](x) => x where dim(x, a) = 1
""".strip().splitlines()

DIVIDED = """
combine[axis=a, degree=d](relu(x)) => relu(combine[axis=a, degree=d](x))
reduce[degree=d](matmul(partition[axis=-1, degree=d](x), partition[axis=-2, degree=d](y))) => matmul(x, y)
conv(replicate[degree=d](x), partition[axis=0, degree=d](w)) => conv(x, w) where groups(x, w) = 1
partition[axis=0, degree=d](partition[axis=0, degree=e](x)) => partition[axis=0, degree=e](x)
""".strip().splitlines()


@pytest.mark.parametrize("text", [*RULES, *DIVIDED])
def test_sampled_instances_are_instances_of_cases(text: str) -> None:
    """Schemes are found by another search, at random."""
    equation = parse_equation(text)
    cases = list(cases_of(equation, max(5, largest_rank(equation))))
    sampler = InstanceSampler(equation, 5)
    sampled = [i for i in sampler.instances(40, 1) if _is_plain(i) or text in DIVIDED]
    assert len(sampled) >= 3
    for sample in sampled:
        instance = _from_front(equation, sample)
        if all(type_.rank <= 5 for type_ in instance.types.values()):
            assert any(_is_instance(instance, case) for case in cases) or _outside(instance, cases), str(
                instance
            )


def _from_front(equation: Equation, instance: Instance) -> Instance:
    """The instance with axes counted from the front, where all tensors of an axis variable have one rank."""
    attributes = dict(instance.attributes)
    for term in equation.applications:
        name = term.attribute("axis")
        if isinstance(name, AttributeVariable) and name.name in axes_of_one_rank(equation):
            axis, rank = attributes[name.name], instance.typing.types[term.inputs[0]].rank
            assert isinstance(axis, int)
            attributes[name.name] = axis % rank
    return Instance(instance.types, attributes, instance.typing)


def _outside(instance: Instance, cases: Sequence[Instance]) -> bool:
    """Whether the instance has degrees that others stand for, or variables divided further than is asked."""
    degrees = {name: value for name, value in instance.attributes.items() if name in "de"}
    known = any(degrees.items() <= case.attributes.items() for case in cases)
    return not known or any(isinstance(type_, ShardedType) for type_ in instance.types.values())


def _is_plain(instance: Instance) -> bool:
    return not any(isinstance(type_, ShardedType) for type_ in instance.types.values())


def _is_instance(instance: Instance, case: Instance) -> bool:
    """Whether numbers for the symbols of the case make it the instance, found size by size."""
    pairs: list[tuple[object, object]] = [
        *((case.attributes[name], value) for name, value in instance.attributes.items())
    ]
    for name, type_ in instance.types.items():
        if case.types[name].rank != type_.rank or type(case.types[name]) is not type(type_):
            return False
        pairs.extend(zip(case.types[name].shape, type_.shape, strict=True))
    equations: list[tuple[Dimension, int]] = []
    for general, special in pairs:
        parts = (general, special) if isinstance(general, tuple) and isinstance(special, tuple) else None
        if parts and len(parts[0]) != len(parts[1]):
            return False
        for one, other in zip(*parts, strict=True) if parts else [(general, special)]:
            if isinstance(one, SymbolicDimension) and isinstance(other, int):
                equations.append((one, other))
            elif one != other and (isinstance(other, str) or isinstance(one, int | str | SymbolicDimension)):
                return False  # numbers of which a case has one for many may differ
    return _solvable(equations, {}, 2 + 2 * max([1, *(number for _, number in equations)]))


def _solvable(equations: list[tuple[Dimension, int]], known: Mapping[str, Dimension], largest: int) -> bool:
    """Whether positive numbers solve all equations, by trying the divisors and parts of each."""
    left = [(substitute(size, known), number) for size, number in equations]
    if any(isinstance(size, int) and size != number for size, number in left):
        return False
    open_ = [(size, number) for size, number in left if not isinstance(size, int)]
    if not open_:
        return True
    size, _ = min(open_, key=lambda pair: (len(symbols_of(pair[0])), pair[1]))
    name = min(symbols_of(size))
    return any(_solvable(open_, {name: value}, largest) for value in range(1, largest))


def _small_types(names: tuple[str, ...], ranks: tuple[int, ...]) -> Iterator[dict[str, TensorType]]:
    element = InstanceSampler(parse_equation("relu(x) => x"), 0)
    type_ = next(element.instances(1, 1)).types["x"]
    generator = random.Random(1)
    for chosen in itertools.product(ranks, repeat=len(names)):
        for _ in range(12):
            yield {
                name: TensorType(type_.element, tuple(generator.choice((1, 2, 3)) for _ in range(rank)))
                for name, rank in zip(names, chosen, strict=True)
            }


@pytest.mark.parametrize("text", [rule for rule in RULES if "[" not in rule or "axis=a" in rule])
def test_small_types_that_fit_are_instances_of_cases(text: str) -> None:
    """All ranks to 3, random sizes: whatever ``infer`` accepts on both sides is in a case."""
    equation = parse_equation(text)
    bound = max(3, largest_rank(equation))
    cases = list(cases_of(equation, bound))
    names = tuple(cases[0].types)
    fitting = 0
    for attributes in attribute_cases(equation, 3, 3):
        for types in _small_types(names, (0, 1, 2, 3)):
            if not _fits(equation, types, attributes):
                continue
            fitting += 1
            instance = Instance(types, attributes, cases[0].typing)
            assert any(_is_instance(instance, case) for case in cases), str(instance)
    assert fitting >= 5


def _fits(equation: Equation, types: Mapping[str, TensorType], attributes: Mapping[str, object]) -> bool:
    pairs = list(zip(equation.left, equation.right, strict=True))
    try:
        typing = infer_terms(equation.terms, types, attributes, equal=pairs)
    except IllTypedError:
        return False
    met = all(holds(condition, types, attributes) for condition in equation.conditions)
    sizes = (size for type_ in typing.types.values() for size in type_.shape)
    return met and as_declared(equation.types, types) and all(isinstance(n, int) and n > 0 for n in sizes)


def test_words_take_all_their_values() -> None:
    equation = parse_equation(
        "conv[padding=p, activation=c](x, y) => relu(conv[padding=p, activation=c](x, y))"
    )
    every = list(attribute_cases(equation, 4, 4))
    assert {case["p"] for case in every if isinstance(case["p"], str)} == set(PADDING_WORDS)
    assert {case["c"] for case in every} == {"none", "relu", "sigmoid", "tanh"}
    assert all(activation_from_text(str(case["c"])) for case in every)
    assert any(isinstance(case["p"], tuple) for case in every)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("combine[axis=0, degree=d](relu(x)) => relu(combine[axis=0, degree=d](x)) where d > 2", "a degree"),
        ("scale(x, full[value=v]) => scale(x, full[value=v]) where v = dim(x, 0)", "a number or a degree"),
        (
            "partition[axis=0, degree=d](partition[axis=1, degree=e](partition[axis=2, degree=f](x))) => x",
            "too many cases",
        ),
        (
            "partition[axis=a, degree=d](concat[axis=1](x: f32[n, 3], y: f32[n, 4])) => x where a >= 0",
            "whether an open degree divides 7 has too many cases",
        ),
        (
            "partition[axis=1, degree=d](concat[axis=1](concat[axis=1](x, x), reduce_sum[axis=1](x))) => x",
            "has too many cases",
        ),
        ("reshape[shape=s](partition[axis=0, degree=d](x)) => x", "depends on which sizes are 1"),
    ],
)
def test_what_is_not_gone_through_is_said(text: str, said: str) -> None:
    with pytest.raises(SuperoptError, match=said):
        list(cases_of(parse_equation(text), 4))


def test_too_many_cases_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superopt.verifier.certificates.cases.MOST_CASES", 3)
    with pytest.raises(UndecidedCasesError, match="more than 3 cases"):
        list(cases_of(parse_equation("concat[axis=a](x, y) => concat[axis=a](x, y)"), 4))


REFUSALS = (
    "^a condition relates",
    "^what values (rows|algorithm)=. takes is not known",
    "^at which sizes (reshape|upsample_linear_gradient|maxpool_gradient) is well-typed is not known",
    "^for which sizes .* is not known",
    "^whether an open degree divides .* has too many cases",
    "^how a divided tensor lies that is reshaped",
    "^a shape that is left out may be of any rank",
    "^. stands for several attributes: degree, value",
    "^to find all cases takes more than",
)


def test_axioms_have_cases() -> None:
    """All but few, and of each of these it is said why."""
    refused: dict[str, str] = {}
    axioms = load_axioms().equations
    for axiom in axioms:
        try:
            assert any(True for _ in cases_of(axiom, min(5, largest_rank(axiom)))), axiom.name
        except SuperoptError as error:
            refused[axiom.name] = str(error)
    assert len(refused) < len(axioms) / 25, refused
    assert all(any(re.search(reason, said) for reason in REFUSALS) for said in refused.values()), refused


def test_a_case_is_not_dropped_if_numbers_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that accepts several groups, but would not say so."""
    assert list(cases_of(parse_equation("conv(x, k) => conv(x, k)"), 5))
    monkeypatch.setattr("superopt.ops.images.convolution.Conv.grouped", Operator.grouped)
    with pytest.raises(UndecidedCasesError, match="for which sizes conv is well-typed is not known"):
        list(cases_of(parse_equation("conv(x, k) => conv(x, k)"), 5))


def test_a_case_is_dropped_only_where_the_operator_says_that_no_numbers_fit() -> None:
    operator, symbolic = operator_from_attributes("relu", {}), TensorType(ElementType.FLOAT, (symbol("n"),))
    require_refused(operator, [symbolic.with_shape((3,))], IllTypedError("of numbers"))
    require_refused(operator, [symbolic], RankMismatchError("relu", "2", 1))
    with pytest.raises(UndecidedCasesError, match="for which sizes relu is well-typed is not known"):
        require_refused(operator, [symbolic], IllTypedError("of symbols"))
    with pytest.raises(UndecidedCasesError, match="for which sizes relu is well-typed is not known"):
        require_refused(operator, [symbolic], UnfitTypesError("though some numbers fit"))


def test_a_case_is_not_dropped_if_its_groups_are_not_seen() -> None:
    """t[n, m] has m groups of channels, and m is a sum of too many sizes to divide by."""
    parts = "y0"
    for number in range(1, 17):
        parts = f"concat[axis=a]({parts}, y{number})"
    kept = f"relu(t), conv(u, w), add(t, {parts})"
    rule = parse_equation(
        f"({kept}, softmax[axis=a](t)) => ({kept}, softmax[axis=0](t)) where a >= 0, rank(t) = 2,"
        " channels(u) = product(dim(t, 1), channels(w)), dim(w, 2) = 13"
    )
    with pytest.raises(UndecidedCasesError, match="how many groups conv has is not known"):
        list(cases_of(rule, 4))


def test_operators_with_groups_say_so() -> None:
    """All that compute a number of groups from sizes."""
    found = {name for name, operator in OPERATORS.items() if hasattr(operator, "groups")}
    found |= {"conv_data_gradient", "conv_weight_gradient", "kernel_response"}
    assert {"conv", "bilinear_conv"} <= found
    assert all(OPERATORS[name].grouped is not Operator.grouped for name in found)
