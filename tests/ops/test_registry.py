"""Every registered operator, found in the registry: a new one is tested here without writing a test."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import z3

from superopt.domains import ExactDomain, FieldArray, FloatDomain, PrimeFieldDomain
from superopt.domains.prime_field import MODULUS
from superopt.domains.symbolic import SymbolicDomain
from superopt.equations import format_term, parse_term
from superopt.errors import IllTypedError, UnsupportedError
from superopt.ir import AttributeVariable, ElementType, TensorType, UnknownType, Variable, symbol
from superopt.ir.terms import AttributeTerm
from superopt.ops import OPERATORS, Operator, attribute_defaults, attribute_names
from superopt.ops.terms import application
from tests.ops.examples import every_operator, examples


@every_operator
def test_examples_are_found(name: str) -> None:
    assert len(examples(name)) >= 1


@every_operator
def test_floats_have_the_inferred_shapes(name: str) -> None:
    domain = FloatDomain()
    generator = np.random.default_rng(0)
    for example in examples(name):
        arrays = [generator.uniform(0.5, 2, (2, *shape)) for shape in example.shapes]
        results = example.evaluated(domain, *arrays)
        assert tuple(domain.shape(array) for array in results) == example.result
        assert all(array.shape[0] in (1, 2) for array in results)
        assert all(np.isfinite(array).all() for array in results)


@every_operator
def test_the_prime_field_has_the_inferred_shapes_and_is_deterministic(name: str) -> None:
    domain = PrimeFieldDomain()
    for example in examples(name):
        generator = np.random.default_rng(1)
        arrays = [domain.random(generator, 3, shape) for shape in example.shapes]
        results = example.evaluated(domain, *arrays)
        assert tuple(domain.shape(array) for array in results) == example.result
        for first, second in zip(results, example.evaluated(domain, *arrays), strict=True):
            assert (first.residue == second.residue).all()
            assert ((first.residue >= 0) & (first.residue < MODULUS)).all()


@every_operator
def test_floats_and_the_prime_field_agree_with_exact_numbers(name: str) -> None:
    exact, field, floats = ExactDomain(), PrimeFieldDomain(), FloatDomain()
    generator = np.random.default_rng(2)
    for example in examples(name)[::2]:
        arrays = [exact.random(generator, 1, shape) for shape in example.shapes]
        try:
            results = example.evaluated(exact, *arrays)
        except UnsupportedError:
            continue
        in_floats = example.evaluated(floats, *(array.astype(np.float64) for array in arrays))
        in_field = example.evaluated(field, *(_in_field(array) for array in arrays))
        assert tuple(exact.shape(array) for array in results) == example.result
        for precise, rounded, residues in zip(results, in_floats, in_field, strict=True):
            np.testing.assert_allclose(rounded, precise.astype(np.float64), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(residues.shadow, precise.astype(np.float64), rtol=1e-9, atol=1e-9)
            assert (residues.residue == _in_field(precise).residue).all()


def _in_field(array: np.ndarray[tuple[int, ...], np.dtype[np.object_]]) -> FieldArray:
    tops = np.vectorize(lambda number: number.numerator, otypes=[object])(array[0])
    bottoms = np.vectorize(lambda number: number.denominator, otypes=[object])(array[0])
    return PrimeFieldDomain().constant(tops, bottoms)


@every_operator
def test_symbolic_reals_have_the_inferred_shapes_and_the_exact_values(name: str) -> None:
    exact = ExactDomain()
    generator = np.random.default_rng(3)
    tried = [e for e in examples(name) if sum(int(np.prod(s)) for s in e.shapes) <= 60][:3]
    for example in tried:
        context = z3.Context()
        domain = SymbolicDomain(context)
        symbols = [domain.variables(f"x{i}", shape) for i, shape in enumerate(example.shapes)]
        results = example.evaluated(domain, *symbols)
        assert tuple(domain.shape(array) for array in results) == example.result
        numbers = [exact.random(generator, 1, shape) for shape in example.shapes]
        try:
            expected = example.evaluated(exact, *numbers)
        except UnsupportedError:
            continue
        known = [
            (variable, z3.Q(number.numerator, number.denominator, context))
            for array, values in zip(symbols, numbers, strict=True)
            for variable, number in zip(array.flat, values.flat, strict=True)
        ]
        for array, values in zip(results, expected, strict=True):
            for expression, number in list(zip(array.flat, values.flat, strict=True))[:6]:
                whole = expression
                for definition in reversed(domain.definitions):
                    whole = z3.substitute(whole, tuple(definition.children()))
                for divisor, inverted in reversed(domain.inverses):
                    whole = z3.substitute(whole, (inverted, 1 / divisor))
                assert z3.simplify(z3.substitute(whole, *known)).as_fraction() == number


@every_operator
def test_text_gives_every_attribute_back(name: str) -> None:
    for example in examples(name):
        attributes = {key: getattr(example.operator, key) for key in attribute_names(name)}
        inputs = [Variable("xyz"[i]) for i in range(len(example.shapes))]
        for chosen in (attributes, _open(attributes, name)):
            term = application(name, chosen, *inputs)
            assert parse_term(format_term(term)) == term


def _open(attributes: Mapping[str, object], name: str) -> dict[str, AttributeTerm]:
    """Attribute variables for what types do not determine."""
    return {key: AttributeVariable(f"a{key}") for key in attributes if key not in OPERATORS[name].implicit}


@every_operator
def test_work_is_positive(name: str) -> None:
    for example in examples(name):
        work = example.operator.work(example.types, example.operator.infer(*example.types))
        assert isinstance(work.flops, int)
        assert work.flops > 0
        assert isinstance(work.bytes, int)
        assert work.bytes > 0


@every_operator
def test_wrong_operands_are_named_errors(name: str) -> None:
    for example in examples(name)[:3]:
        for types in (
            (*example.types, TensorType(ElementType.FLOAT, (2, 2))),
            (UnknownType("a sequence"), *example.types[1:]),
            tuple(TensorType(ElementType.FLOAT, (7,) * (t.rank + 3)) for t in example.types),
        ):
            message = _refusal(example.operator, types)
            assert message is None or name in message


def _refusal(operator: Operator, types: tuple[TensorType | UnknownType, ...]) -> str | None:
    try:
        operator.infer(*types)
    except IllTypedError as error:
        return str(error)
    return None


@every_operator
def test_shapes_of_symbols_are_shapes_of_numbers(name: str) -> None:
    """What infer says for a symbolic batch is, with a number put in, what it says for that number."""
    for example in examples(name):
        if not example.shapes or len(example.shapes[0]) < 3:
            continue
        first = example.types[0]
        symbolic = first.with_shape((symbol("n"), *first.shape[1:]))
        try:
            results = example.operator.infer(symbolic, *example.types[1:])
        except IllTypedError:
            continue
        number = {"n": example.shapes[0][0]}
        assert tuple(type_.substitute(number).shape for type_ in results) == example.result


@every_operator
def test_defaults_are_what_text_leaves_out(name: str) -> None:
    defaults = attribute_defaults(name)
    required = [n for n in attribute_names(name) if n not in defaults and n not in OPERATORS[name].implicit]
    if required:
        with pytest.raises(IllTypedError, match=f"{name} needs the attribute {required[0]}"):
            application(name, {})
    else:
        assert application(name, defaults).attributes == ()
