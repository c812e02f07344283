"""The batched enumeration against a plain one that builds every term and evaluates it by itself."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest

from superopt.domains import PrimeFieldDomain
from superopt.equations import format_term
from superopt.generator import load_preset, parse_preset
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.recorded import RecordedTerms
from superopt.generator.enumerate.rows import TermBuilder
from superopt.generator.enumerate.spill import Overflow
from superopt.ir.terms import Term, Variable, operator_count
from superopt.ir.types import ElementType, TensorType
from superopt.ops.terms import application
from superopt.rewriting import evaluate_terms, infer_terms

PRESET = parse_preset(
    """
name = "tiny"
description = "sums, products and relu"
max_ops = 2
[types]
matrix = { role = "tensor", shape = [3, 3] }
[[inputs]]
names = ["x", "y"]
type = "matrix"
[[operators]]
operator = "matmul"
signatures = ["tensor, tensor -> tensor"]
[[operators]]
operator = "add"
signatures = ["tensor, tensor -> tensor"]
[[operators]]
operator = "relu"
signatures = ["tensor -> tensor"]
""",
    "tiny.toml",
)


def _classes(enumeration: Enumeration) -> dict[Term, int]:
    recorded = RecordedTerms(enumeration)
    terms = TermBuilder(recorded.rows())
    return {terms.term(row): number for row, number in enumerate(recorded.classes.tolist())}


def _all_terms(most: int) -> list[Term]:
    found: list[Term] = [Variable("x"), Variable("y")]
    for _ in range(most):
        made = [application("relu", {}, term) for term in found]
        made += [
            application(name, {}, left, right)
            for name in ("matmul", "add")
            for left, right in itertools.product(found, repeat=2)
        ]
        found = list(dict.fromkeys((*found, *(term for term in made if operator_count(term) <= most))))
    return found


def _values(terms: list[Term]) -> dict[Term, bytes]:
    domain = PrimeFieldDomain()
    random = np.random.default_rng(5)
    arrays = {name: domain.random(random, 3, (3, 3)) for name in ("x", "y")}
    types = {name: TensorType(ElementType.FLOAT, (3, 3)) for name in ("x", "y")}
    values = evaluate_terms(terms, infer_terms(terms, types), domain, arrays)
    return {term: value.residue.tobytes() for term, value in zip(terms, values, strict=True)}


def test_every_value_is_found_and_equal_terms_share_a_class() -> None:
    (stage,) = PRESET.stages_to(3)
    rows = _classes(Enumeration(stage).complete())
    values = _values([*rows, *(term for term in _all_terms(2) if term not in rows)])
    by_class: dict[int, set[bytes]] = {}
    for term, number in rows.items():
        by_class.setdefault(number, set()).add(values[term])
    assert all(len(found) == 1 for found in by_class.values())
    assert len(set().union(*by_class.values())) == len(by_class)
    assert {values[term] for term in _all_terms(2)} <= {values[term] for term in rows}


def test_what_is_not_recorded_of_the_last_level_is_alone_in_its_class() -> None:
    (stage,) = PRESET.stages_to(3)
    enumeration = Enumeration(stage).complete()
    last = enumeration.levels[-1]
    recorded = int((enumeration.terms.sizes == 3).sum())
    assert last.terms - recorded == last.classes - enumeration.table.count > 0


def test_commutativity_is_noticed_and_used() -> None:
    (stage,) = PRESET.stages_to(3)
    enumeration = Enumeration(stage).complete()
    assert [stage.instances[number].name for number in enumeration.commutative] == ["add"]
    texts = {format_term(term) for term in _classes(enumeration)}
    assert ("add(x, relu(x))" in texts) != ("add(relu(x), x)" in texts)


def test_levels_count_terms_and_classes() -> None:
    (stage,) = PRESET.stages
    first, second = Enumeration(stage).complete().levels
    assert (first.ops, first.terms, first.classes) == (1, 10, 11)
    assert second.terms > second.classes - first.classes > 0


DIFFERENT = (
    ("relu(scale(x, s))", "scale(relu(x), s)"),
    ("relu(scale(relu(x), s))", "scale(relu(x), s)"),
    ("relu(scale(x, s))", "scale(x, s)"),
    ("matmul(x, y)", "matmul(y, x)"),
    ("add(x, y)", "add(x, relu(y))"),
    ("relu(add(x, y))", "add(relu(x), relu(y))"),
    ("matmul(transpose(x), y)", "matmul(x, transpose(y))"),
    ("relu(mul(x, y))", "mul(relu(x), relu(y))"),
)


def test_what_differs_is_told_apart_and_what_is_equal_is_not() -> None:
    stage = load_preset("matrix").stages_to(4)[0]
    enumeration = Enumeration(stage)
    classes = {format_term(term): number for term, number in _classes(enumeration).items()}
    assert all(classes[left] != classes[right] for left, right in DIFFERENT)
    assert classes["relu(relu(x))"] == classes["relu(x)"]
    assert classes["scale(transpose(x), s)"] == classes["transpose(scale(x, s))"]


def test_neither_parts_nor_files_change_what_is_found() -> None:
    operators = ["matmul", "add", "concat", "split0", "split1"]
    stage = load_preset("matrix").restricted_to(operators).stages_to(4)[0]
    whole = Enumeration(stage).complete()
    spilled = Enumeration(stage, memory_bytes=0)
    elsewhere = Enumeration(stage)
    blocks = [pickle.loads(pickle.dumps(elsewhere.last_level(part))) for part in range(spilled.parts)]
    assert len(blocks) > 1
    spilled.finish(blocks)
    assert spilled.levels == whole.levels
    assert all(
        (getattr(spilled.terms, name) == getattr(whole.terms, name)).all()
        for name in ("instances", "arguments", "classes", "sizes")
    )
    assert (spilled.table.columns.parts == whole.table.columns.parts).all()


def test_what_overflows_has_no_name_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    overflow = Overflow()
    arrays = [
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
        np.zeros((0, 3), np.int64),
        np.ones(5, bool),
    ]
    written = [overflow.write(array) for array in arrays]
    assert all(np.array_equal(overflow.mapped(w), a) for w, a in zip(written, arrays, strict=True))
    assert all(overflow.mapped(w).dtype == a.dtype for w, a in zip(written, arrays, strict=True))
    assert not list(tmp_path.iterdir())
