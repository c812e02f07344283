"""Every axiom agrees with what operators do, and a wrong one that is planted is found."""

# ruff: noqa: E501

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from superopt.axioms import load_axioms
from superopt.cli.main import run
from superopt.equations import parse_equation
from superopt.instances.values import Bound
from superopt.ir.terms import Equation
from superopt.verifier.axiom_checks.exhaustive.identity import IdentityTest
from superopt.verifier.axiom_checks.validation import (
    AxiomValidation,
    Thoroughness,
    validate_axiom,
    validate_axioms,
)
from superopt.verifier.content_cache import ContentCache
from superopt.verifier.refute.refutation import Effort

SMALL = Thoroughness(Bound(2, 3), symbolic=0, sampled=None)
IMAGES = Thoroughness(Bound(2), symbolic=0, sampled=None)
BOUNDED = Thoroughness(Bound(3), symbolic=0, sampled=None)
PARTIAL_CASES = 100
WINDOWS = {
    "conv",
    "bilinear_conv",
    "filter_transform",
    "avgpool",
    "maxpool",
    "enlarge",
    "global_avgpool",
    "lrn",
}
SAMPLED = Thoroughness(Bound(1), symbolic=0, sampled=Effort(schemes=8, per_scheme=2, stack=2))

PLANTED = {
    "activation is not linear (the dissertation's own example)": (
        "conv[stride=s, padding=p, activation=c](add(x, y), z) = "
        "add(conv[stride=s, padding=p, activation=c](x, z), conv[stride=s, padding=p, activation=c](y, z))"
    ),
    "enlarging under any padding": (
        "conv[stride=s, padding=p, activation=c](x, y) = conv[stride=s, padding=p, activation=c](x, enlarge[kernel=k](y))"
    ),
    "enlarging at stride 2 on even sizes": (
        "conv[stride=s, padding=same_upper](x, y) = conv[stride=s, padding=same_upper](x, enlarge[kernel=k](y)) where dim(y, 2) = 1, dim(y, 3) = 1"
    ),
    "upper is lower": "maxpool[kernel=k, stride=s, padding=same_upper](x) = maxpool[kernel=k, stride=s, padding=same_lower](x)",
    "average pooling that ignores padding as a convolution": (
        "avgpool[kernel=k, stride=s, padding=p](x) = conv[stride=s, padding=p](x, avgpool_kernel[kernel=k])"
    ),
    "outputs of any convolution": "concat[axis=1](conv(x, y), conv(x, z)) = conv(x, concat[axis=0](y, z))",
    "channels of any convolution": (
        "conv(concat[axis=1](x, z), concat[axis=1](y, w)) = add(conv(x, y), conv(z, w)) where groups(x, y) = groups(z, w)"
    ),
    "one kernel after another": "conv(conv(x, y), z) = conv(x, conv(y, z))",
    "identity of any kernel": "conv(x, identity_kernel[kernel=k]) = x",
    "a mean of a padded constant": (
        "avgpool[kernel=k, stride=s, padding=p, includes_padding=i](bias_add[axis=1](x, v)) = "
        "bias_add[axis=1](avgpool[kernel=k, stride=s, padding=p, includes_padding=i](x), v)"
    ),
    "a stride forgotten where there is one window only": "maxpool[kernel=2, stride=s](x) = maxpool[kernel=2](maxpool[kernel=1, stride=s](x))",
    "dilation of kernels of one": "conv[dilation=d](x, y) = conv(x, y) where dim(y, 2) = 1",
    "rows tied to columns by a condition": "maxpool[kernel=k](x) = avgpool[kernel=k](x) where dim(x, 2) = dim(x, 3), dim(x, 2) > 1",
    "any kernel but one": "maxpool[kernel=k](x) = maxpool[kernel=k](relu(x)) where k != (1, 1)",
    "rows for columns of a kernel": "conv(x, y) = conv(x, transpose[perm=(0, 1, 3, 2)](y))",
    "windows across a cut": "maxpool[kernel=3, padding=same](x) = concat[axis=2](maxpool[kernel=3, padding=same](split0[axis=2](x)), maxpool[kernel=3, padding=same](split1[axis=2](x)))",
    "blocks along one axis twice": (
        "concat[axis=a](concat[axis=b](x, y), concat[axis=b](z, w)) = concat[axis=b](concat[axis=a](x, z), concat[axis=a](y, w))"
    ),
    "blocks that are aligned at all square shapes": (
        "matmul(concat[axis=-1](x, y), concat[axis=-2](x, z)) = matmul(concat[axis=-1](y, x), concat[axis=-2](z, x))"
    ),
    "rows for columns, at square shapes": "bias_add[axis=-1](x, s) = transpose(bias_add[axis=-1](transpose(x), s))",
    "wrong at size 1 only": "sub(x, y) = add(x, y) where dim(x, 0) = 1, rank(x) = 2",
    "wrong at size 2 only": "relu(x) = x where dim(x, -1) = 2, dim(x, -2) = 2",
    "wrong at rank 3 only": "mul(x, y) = add(x, y) where rank(x) = 3",
    "relu and factors": "relu(scale(x, w)) = scale(relu(x), w)",
    "roots of squares": "sqrt(mul(x, x)) = x",
    "any two vectors": "channel_scale[axis=a](x, s) = channel_scale[axis=b](x, s)",
    "reshape is no transpose": "reshape[shape=s](transpose(x)) = reshape[shape=s](x)",
    "a transposition of types": "transpose(x) = x",
    "permutations commute": "transpose[perm=p](transpose[perm=q](x)) = transpose[perm=q](transpose[perm=p](x))",
    "halves in the wrong order": "concat[axis=a](split1[axis=a](x), split0[axis=a](x)) = x",
    "repeated along the wrong axis": "add(x, broadcast(s)) = bias_add[axis=0](x, s) where rank(s) = 1",
    "softmax along any axis": "softmax[axis=a](bias_add[axis=b](x, s)) = softmax[axis=a](x)",
    "sigmoid is odd": "sigmoid(sub(x, y)) = sub(ones(), sub(ones(), sigmoid(sub(y, x))))",
    "never well-typed": "matmul(x, scale(y, x)) = x",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_wrong_axiom_is_found(text: str) -> None:
    validation = validate_axiom(parse_equation(text, "planted"), BOUNDED)
    assert not validation.valid
    assert validation.reason


TRUE = {
    "what differs twice, by chance and by law": "softmax[axis=-1](bias_add[axis=-2](x, s)) => softmax[axis=-1](x)",
    "a law of the exponential": "tanh(x) = sub(sigmoid(add(x, x)), sub(ones(), sigmoid(add(x, x))))",
    "order of many": "relu(sub(relu(x), relu(y))) = sub(relu(x), relu(sub(relu(x), relu(sub(relu(x), relu(y))))))",
    "a constant with as many channels as it needs": "avgpool[kernel=k, stride=s, padding=p, includes_padding=1](x) = conv[stride=s, padding=p](x, avgpool_kernel[kernel=k])",
    "two halves of a sum": "sigmoid(x) = sub(ones(), sigmoid(sub(sub(x, x), x)))",
}


@pytest.mark.parametrize("text", TRUE.values(), ids=TRUE)
def test_a_true_one_holds(text: str) -> None:
    validation = validate_axiom(parse_equation(text, "true"), BOUNDED)
    assert validation.valid, validation.reason
    assert validation.error_bits > 64
    assert validation.cases > 3


def test_a_counterexample_is_the_first_case_in_which_the_sides_differ() -> None:
    wrong = parse_equation("sub(x, y) = sub(y, x) where dim(x, 0) > 1", "planted")
    reason = validate_axiom(wrong, SMALL).reason
    assert reason.startswith("x: f32[2], y: f32[2]: left[0] = ")
    types = parse_equation("transpose(x) = x", "planted")
    assert (
        validate_axiom(types, SMALL).reason
        == "x: f32[1, 2]: left has type f32[2, 1], right has type f32[1, 2]"
    )


def test_activations_count_as_cases_and_are_decided_at_once() -> None:
    axiom = parse_equation("conv[activation=c](x, y) = conv[activation=c](x, identity(y))", "activations")
    validation = validate_axiom(axiom, IMAGES)
    assert (validation.valid, validation.cases) == (True, 4 * validation.evaluated)
    assert validation.evaluated == 39


@pytest.mark.parametrize("axiom", load_axioms().equations, ids=lambda axiom: axiom.name)
def test_axiom_is_valid(axiom: Equation) -> None:
    """All cases up to 2x2x2, of those with images one in four, and about 100 with undefined elements;
    ``superopt axioms validate`` goes to 4x4x4x4, and to 5,000 with undefined elements."""
    has_images = {step.operator for step in axiom.applications} & WINDOWS
    thoroughness = replace(IMAGES, every=4) if has_images else SMALL
    validation = validate_axiom(axiom, replace(thoroughness, definedness=PARTIAL_CASES))
    if validation.cases == 0:
        validation = validate_axiom(axiom, replace(SAMPLED, definedness=PARTIAL_CASES))
    assert validation.valid, validation.reason


def test_symbolic_execution_decides_for_all_inputs() -> None:
    names = ("mul-over-add", "matmul-associative", "maxpool-of-relu", "conv-enlarge", "affine-definition")
    told: list[tuple[int, int]] = []
    axioms = [load_axioms().by_name[name] for name in names]
    results = list(
        validate_axioms(
            axioms, thoroughness=replace(IMAGES, symbolic=2), progress=lambda *counts: told.append(counts)
        )
    )
    assert [(r.name, r.valid, r.symbolic, r.undecided, r.reason) for r in results] == [
        (name, True, 2, 0, "") for name in names
    ]
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def _without_time(validation: AxiomValidation) -> AxiomValidation:
    return replace(validation, seconds=0.0)


def test_what_is_known_is_not_worked_out_again(tmp_path: Path) -> None:
    axiom, cache = load_axioms().by_name["relu-idempotent"], ContentCache(tmp_path)
    thoroughness = replace(SMALL, symbolic=1, sampled=Effort(schemes=2, per_scheme=1))
    first = validate_axiom(axiom, thoroughness, cache)
    assert validate_axiom(axiom, thoroughness, cache) == first
    for path in tmp_path.rglob("*.json"):
        document = json.loads(path.read_text())
        if "cases" in document:
            path.write_text(json.dumps(document | {"cases": 12345}))
    assert validate_axiom(axiom, thoroughness, cache).cases == 12345
    assert validate_axiom(axiom, thoroughness) == replace(first, seconds=pytest.approx(0, abs=60))
    renamed = parse_equation("relu(relu(z)) = relu(z)", "relu-idempotent")
    assert validate_axiom(renamed, thoroughness, cache).cases == first.cases


LATE = "softmax[axis=b](concat[axis=a](x, y)) = concat[axis=a](softmax[axis=b](x), softmax[axis=b](y)) where rank(x) = 4, axis(x, b) = 3"
"""True along the axes before the last, which come first."""


@dataclass(frozen=True)
class _Interrupted(ContentCache):
    """Keeps what it is given, and is interrupted right then."""

    def put(self, key: str, document: object) -> None:
        super().put(key, document)
        raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    axiom = load_axioms().by_name["conv-over-add-kernel"]
    whole = validate_axiom(axiom, IMAGES)
    with pytest.raises(KeyboardInterrupt):
        validate_axiom(axiom, IMAGES, _Interrupted(tmp_path))
    (path,) = tmp_path.rglob("*.json")
    document = json.loads(path.read_text())
    assert 0 < document["position"] < whole.evaluated
    assert "done" not in document
    resumed = validate_axiom(axiom, IMAGES, ContentCache(tmp_path))
    assert _without_time(resumed) == _without_time(whole)


def test_going_on_from_a_block_decides_the_same() -> None:
    wrong = parse_equation(LATE, "planted")
    whole = list(IdentityTest(wrong, Bound(3)).run())
    assert whole[0].failure is None
    assert whole[-1].failure is not None
    again = list(IdentityTest(wrong, Bound(3)).run(whole[0].position, whole[0].cases))
    assert (again[-1].failure, again[-1].cases) == (whole[-1].failure, whole[-1].cases)


def test_processes_decide_the_same(tmp_path: Path) -> None:
    axioms = [load_axioms().by_name[name] for name in ("add-commutative", "relu-idempotent")]
    axioms.append(parse_equation("sub(x, y) = sub(y, x)", "planted"))
    apart = list(validate_axioms(axioms, jobs=2, thoroughness=SMALL, cache=ContentCache(tmp_path)))
    together = list(validate_axioms(axioms, thoroughness=SMALL))
    assert list(map(_without_time, apart)) == list(map(_without_time, together))


def test_the_command_says_how_much_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "axioms",
        "validate",
        "--max-dim",
        "2",
        "--jobs",
        "1",
        "--no-cache",
        "--axiom",
        "add-commutative",
    ]
    assert run(arguments) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["axiom", "cases", "error", "real", "symbolic", "sampled", "partial", "seconds"]
    assert second.split()[:2] == ["add-commutative", "31"]
    assert last.startswith(
        "1 of 1 axioms hold: 31 cases with dimensions up to 2, each with an error of at most 2^-"
    )
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["cases"], document["invalid"], document["error_log2"] < -64) == (31, [], True)
    assert document["results"][0]["name"] == "add-commutative"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--axiom", "none-such"), "there is no axiom none-such"),
        (("--family", "none"), "there is no family none"),
        (("--max-dim", "0"), "max-dim"),
    ],
)
def test_bad_usage(option: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["axioms", "validate", *option]) == 2
    assert message in capsys.readouterr().err
