"""Contradictions among axioms are found and explained; those that types prevent are told from real ones."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.axioms import AxiomSet, axioms_from_text, load_axioms
from superopt.equations import format_equation, format_term, parse_equation, parse_term
from superopt.ir.terms import Equation
from superopt.ir.types import ElementType, TensorType
from superopt.verifier.axiom_checks.consistency import (
    Consistency,
    Depth,
    Kind,
    check_consistency,
    search_around,
)
from superopt.verifier.axiom_checks.consistency.goals import instance_equation
from superopt.verifier.axiom_checks.consistency.interpretation import Interpretation, classify, difference
from superopt.verifier.axiom_checks.consistency.overlaps import has_open_shape, overlaps
from superopt.verifier.axiom_checks.consistency.saturation import Extent, Saturation
from superopt.verifier.axiom_checks.consistency.search import search_for_collapse
from superopt.verifier.content_cache import ContentCache
from superopt.verifier.prove.chain import instantiated
from superopt.verifier.prove.solver import AxiomInstance, SolverLimits

QUICK = Depth(questions=2, limits=SolverLimits(resources=100_000))
CONCAT = "concat[axis=a](x, concat[axis=a](y, z)) = concat[axis=a](concat[axis=a](x, y), z)"

FALSE = {
    "concat forgets where it is cut": (CONCAT, Kind.IMPLICIT),
    "concat forgets it behind a relu": (
        "relu(concat[axis=a](x, concat[axis=a](y, z))) = concat[axis=a](concat[axis=a](relu(x), relu(y)), relu(z))",
        Kind.IMPLICIT,
    ),
    "concat commutes": ("concat[axis=a](x, y) = concat[axis=a](y, x)", Kind.TYPED),
    "sub commutes": ("sub(x, y) = sub(y, x)", Kind.TYPED),
    "relu does nothing": ("relu(x) = x", Kind.TYPED),
    "tanh is relu": ("tanh(x) = relu(x)", Kind.TYPED),
    "matmul commutes": ("matmul(x, y) = matmul(y, x)", Kind.TYPED),
    "matmul commutes where it can": ("matmul(x, y) = matmul(y, x) where dim(x, 0) = dim(y, 1)", Kind.TYPED),
    "transpose does nothing": ("transpose(x) = x", Kind.TYPED),
    "halves are equal": ("split0[axis=a](x) = split1[axis=a](x)", Kind.TYPED),
    "the first of two": ("add(x, y) = x", Kind.TYPED),
    "all tensors are equal": ("x = y", Kind.TYPED),
    "two constants": ("full[value=2]() = ones()", Kind.TYPED),
}


FEW = tuple(
    load_axioms().by_name[name]
    for name in (
        *("split0-of-concat", "split1-of-concat", "concat-of-halves", "concat-of-relu", "concat-of-sub"),
        *(
            "add-commutative",
            "sub-of-add",
            "mul-by-ones",
            "full-of-one",
            "relu-idempotent",
            "relu-of-sigmoid",
        ),
        *("matmul-associative", "matmul-over-sub-right", "transpose-involutive", "transpose-of-matmul"),
    )
)


def _with(text: str) -> AxiomSet:
    return AxiomSet((*FEW, parse_equation(text, "planted-0")), {})


def _around(axioms: AxiomSet, depth: Depth = QUICK) -> Consistency:
    return check_consistency(axioms, names=["planted-0"], jobs=0, depth=depth)


@pytest.mark.parametrize(("text", "kind"), FALSE.values(), ids=FALSE)
def test_a_planted_contradiction_is_found(text: str, kind: Kind) -> None:
    found = _around(_with(text))
    assert kind in {falsehood.kind for falsehood in found.inconsistencies}
    assert all("planted-0" in falsehood.axioms for falsehood in found.inconsistencies)
    assert all(falsehood.steps and falsehood.difference for falsehood in found.inconsistencies)


NOTHING = Extent(rounds=0)
ALONE = {
    "overlap": Depth(questions=0, extent=NOTHING),
    "saturation": Depth(questions=0, overlap_schemes=0),
    "z3": Depth(overlap_schemes=0, extent=NOTHING),
}


@pytest.mark.parametrize(("search", "depth"), ALONE.items(), ids=ALONE)
def test_each_search_finds_associativity_of_concat_by_itself(search: str, depth: Depth) -> None:
    axioms = _with(CONCAT)
    found = search_around(axioms.by_name["planted-0"], axioms.equations, depth)
    assert {(falsehood.found_by, falsehood.kind) for falsehood in found.falsehoods} == {
        (search, Kind.IMPLICIT)
    }


def test_a_contradiction_comes_with_its_chain() -> None:
    (falsehood, *_) = _around(_with(CONCAT), ALONE["overlap"]).inconsistencies
    assert (falsehood.equation, falsehood.instance, falsehood.difference, falsehood.reason) == (
        "x = split0[axis=0](concat[axis=0](concat[axis=0](x, y), z))",
        "x: f32[2], y: f32[1], z: f32[2]",
        "one has type f32[2], the other f32[3]",
        "every step is well-typed, but types determine a term differently in two steps",
    )
    assert list(falsehood.steps) == [
        "  x",
        "= split0[axis=0](concat[axis=0](x, concat[axis=0](y, z)))  by split0-of-concat, right to left",
        "= split0[axis=0](concat[axis=0](concat[axis=0](x, y), z))  by planted-0, at input 1",
    ]


def test_two_axioms_that_contradict_only_each_other_are_found() -> None:
    """Neither is false where 1 is 1 and where gelu is what they say it is; together they make ones zero."""
    axioms = axioms_from_text({"f": "one: mul(x, y) = add(x, y)\ntwo: mul(x, x) = x"})
    found = check_consistency(axioms, jobs=0, depth=QUICK)
    assert {falsehood.axioms for falsehood in found.inconsistencies} == {("one",), ("two",)}


def test_what_a_condition_prevents_is_a_note() -> None:
    one = parse_equation("softmax[axis=0](x) = ones() where rank(x) = 1, dim(x, 0) = 1", "softmax-of-one")
    bias = parse_equation("softmax[axis=0](bias_add[axis=1](x, s)) = softmax[axis=0](x)", "planted-0")
    found = _around(AxiomSet((one, bias), {}))
    assert found.inconsistencies == ()
    assert {(note.kind, note.found_by, note.reason) for note in found.notes} == {
        (Kind.SHAPELESS, "z3", "softmax-of-one does not apply there: where rank(x) = 1 does not hold")
    }


def test_a_half_that_may_be_cut_anywhere_is_no_contradiction() -> None:
    """With halves of exp(concat(x, y)) cut where x ends, both axioms are true; elsewhere only the first.

    Which of the instances that are tried has such a half is chance, so three axioms of the kind are looked at.
    """
    reasons: list[str] = []
    for name in ("concat-of-sigmoid", "concat-of-tanh", "concat-of-exp"):
        axioms = AxiomSet((*FEW, load_axioms().by_name[name]), {})
        found = check_consistency(axioms, names=[name], jobs=0)
        assert found.inconsistencies == ()
        reasons.extend(note.reason for note in found.notes)
    assert {"has several types" in reason for reason in reasons} == {True}


def test_a_constant_of_two_shapes_is_no_contradiction() -> None:
    axioms = {e.name: e for e in (parse_equation("nothing: sub(x, x) = full[value=0]()"),)}
    interpretation = Interpretation({"x": _f32(2), "y": _f32(3)}, {})
    steps = [AxiomInstance("nothing", (("x", parse_term(name)),), ()) for name in ("x", "y")]
    chain = [parse_term(text) for text in ("sub(x, x)", "full[value=0]()", "sub(y, y)")]
    kind, reason = classify(interpretation, axioms, chain, [[step] for step in steps])
    assert (kind, reason) == (
        Kind.SHAPELESS,
        "full[value=0] has several types, and the steps need two of them",
    )


@pytest.mark.parametrize("name", ["split0-of-concat", "transpose-involutive"])
def test_no_contradiction_around_shipped_axioms(name: str) -> None:
    found = check_consistency(load_axioms(), names=[name], jobs=0, depth=QUICK)
    assert (found.axioms, found.inconsistencies, found.undecided) == (1, (), ())
    assert found.counts.compared > 10


def test_no_contradiction_among_a_few_shipped_axioms() -> None:
    found = check_consistency(AxiomSet(FEW, {}), jobs=0, depth=QUICK)
    assert (found.axioms, found.inconsistencies, found.undecided) == (len(FEW), (), ())


def test_all_axioms_together_make_no_two_inputs_equal_unless_they_do() -> None:
    axioms = axioms_from_text({"f": "first: add(x, y) = x\nadd-commutative: add(x, y) = add(y, x)"})
    found = search_for_collapse(axioms.equations, SolverLimits(resources=200_000))
    assert found is not None
    assert (found.kind, list(found.steps)) == (
        Kind.TYPED,
        [
            "  x",
            "= add(x, y)  by first, right to left",
            "= add(y, x)  by add-commutative",
            "= y          by first",
        ],
    )
    consistent = axioms_from_text({"f": "add-commutative: add(x, y) = add(y, x)"})
    assert search_for_collapse(consistent.equations, SolverLimits(resources=200_000)) is None


def _f32(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


def test_overlaps_of_two_axioms() -> None:
    inner = parse_equation("swap: add(x, y) = add(y, x)")
    outer = parse_equation("whole: mul(add(x, y), z) = add(mul(x, z), mul(y, z))")
    found = [
        f"{format_term(o.peak)}: {format_term(o.first)} or {format_term(o.second)}"
        for o in overlaps(inner, outer)
    ]
    assert found == [
        "mul(add(x_i, y_i), z_o): add(mul(x_i, z_o), mul(y_i, z_o)) or mul(add(y_i, x_i), z_o)",
        "add(mul(x_o, z_o), mul(y_o, z_o)): mul(add(x_o, y_o), z_o) or add(mul(y_o, z_o), mul(x_o, z_o))",
    ]


def test_overlaps_fill_in_attributes() -> None:
    inner = parse_equation("exchange: concat[axis=a](x, y) = concat[axis=a](y, x)")
    outer = parse_equation(
        "rows: transpose(concat[axis=-2](x, y)) = concat[axis=-1](transpose(x), transpose(y))"
    )
    axioms = {axiom.name: axiom for axiom in (inner, outer)}
    for overlap in overlaps(inner, outer):
        for step in overlap.steps:
            assert step.axiom in axioms
            assert overlap.peak in _parts(instantiated(axioms[step.axiom], step)) or step.axiom == "exchange"
    attributes = {dict(overlap.inner.attributes)["a"] for overlap in overlaps(inner, outer)}
    assert attributes == {-1, -2}


def _parts(equation: Equation) -> tuple[object, ...]:
    return equation.terms


def test_a_term_is_not_unified_with_a_part_of_itself() -> None:
    inner = parse_equation("inner: relu(x) = tanh(x)")
    outer = parse_equation("outer: add(x, relu(x)) = x")
    peaks = [format_term(overlap.peak) for overlap in overlaps(inner, outer)]
    assert peaks == ["add(x_i, relu(x_i))"]
    assert not list(overlaps(parse_equation("p: add(x, x) = x"), parse_equation("q: add(y, relu(y)) = y")))


def test_conditions_of_both_axioms_are_sampled_for() -> None:
    inner = parse_equation("i: relu(x) = x where rank(x) = 1")
    outer = parse_equation("o: sub(relu(x), y) = tanh(x) where dim(x, 0) = 3")
    (overlap,) = overlaps(inner, outer)
    equation = instance_equation(overlap.steps, {"i": inner, "o": outer})
    assert len(equation.conditions) == 2
    assert len(equation.left) == 4
    assert format_equation(equation).endswith("where dim(x'0, 0) = 3, rank(x'1) = 1")


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("ones()", True),
        ("relu(ones())", True),
        ("add(ones(), ones())", True),
        ("add(ones(), x)", False),
        ("scale(ones(), x)", True),
        ("channel_scale[axis=0](x, ones())", False),
        ("matmul(x, ones())", True),
        ("broadcast(x)", True),
        ("x", False),
        ("split0[axis=0](x)", False),
    ],
)
def test_terms_whose_shape_nothing_determines(term: str, *, expected: bool) -> None:
    assert has_open_shape(parse_term(term)) is expected


def test_saturation_connects_what_axioms_make_equal() -> None:
    interpretation = Interpretation({name: _f32(2, 2) for name in "xyz"}, {})
    axioms = [
        load_axioms().by_name[name]
        for name in ("add-commutative", "relu-idempotent", "matmul-over-add-right")
    ]
    saturation = Saturation(interpretation, axioms, Extent())
    terms = ("matmul(x, add(y, relu(relu(z))))", "add(matmul(x, relu(z)), matmul(x, y))", "matmul(x, y)")
    one, other, third = (saturation.add(parse_term(term)) for term in terms)
    saturation.run()
    again = [saturation.add(parse_term(term)) for term in terms]
    assert again == [one, other, third]
    assert saturation.equal(one, other)
    assert not saturation.equal(one, third)
    assert list(saturation.merged()) == []


def test_saturation_keeps_to_its_extent_and_to_types() -> None:
    associative = load_axioms().by_name["add-associative"]
    interpretation = Interpretation({"x": _f32(2), "y": _f32(2), "z": _f32(3)}, {})
    saturation = Saturation(interpretation, [associative], Extent(steps=5))
    saturation.add(parse_term("add(x, add(y, add(x, add(y, x))))"))
    saturation.add(parse_term("add(x, add(x, z))"))
    saturation.run()
    assert len(saturation.steps) == 5
    assert not any("z" in format_equation(equation) for equation in saturation.steps.values())


def test_differences_are_of_types_or_of_values_of_both_kinds() -> None:
    interpretation = Interpretation({"x": _f32(2), "y": _f32(3)}, {})
    terms = ("x", "y", "add(x, x)", "scale(x, full[value=2]())", "sqrt(x)", "add(sqrt(x), sqrt(x))")
    x, y, twice, scaled, root, _ = (interpretation.meaning(parse_term(term)) for term in terms)
    assert x is not None
    assert y is not None
    assert twice is not None
    assert scaled is not None
    assert root is not None
    assert difference(x, y) == "one has type f32[2], the other f32[3]"
    assert difference(twice, scaled) is None
    assert str(difference(x, twice)).startswith("at [0] one is ")
    assert interpretation.meaning(parse_term("ones()")) is None
    assert interpretation.meaning(parse_term("add(x, y)")) is None


def test_answers_are_kept_and_a_budget_is_kept_to(tmp_path: Path) -> None:
    axioms = axioms_from_text({"f": "first: relu(x) = x\nsecond: add(x, y) = add(y, x)"})
    without_time = check_consistency(axioms, jobs=0, seconds=0, cache=ContentCache(tmp_path), depth=QUICK)
    assert [(s.axiom, s.reason) for s in without_time.undecided] == [
        (name, "the time did not suffice") for name in ("first", "second", "two inputs are equal")
    ]
    found = check_consistency(axioms, jobs=0, cache=ContentCache(tmp_path), depth=QUICK)
    known = check_consistency(axioms, jobs=0, seconds=0, cache=ContentCache(tmp_path), depth=QUICK)
    assert found.inconsistencies
    assert known == found
    changed = axioms_from_text({"f": "first: relu(x) = x\nsecond: add(x, y) = add(y, y)"})
    assert (
        len(
            check_consistency(changed, jobs=0, seconds=0, cache=ContentCache(tmp_path), depth=QUICK).undecided
        )
        == 3
    )
