"""Laws of logarithms, roots, activations and normalisations, and what looks like them."""

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.axioms.loader import axioms_from_text
from superopt.equations import parse_equation
from superopt.instances.values import Bound
from superopt.verifier.axiom_checks.validation import Thoroughness, validate_axiom
from superopt.verifier.refute.validation import validate
from superopt.verifier.verification import Status, Verdict, verify

CENTRED = "sub(x, broadcast(reduce_mean[axis=-1](x)))"
ROOT = f"sqrt(add(reduce_mean[axis=-1](power[exponent=2]({CENTRED})), full[value=e]))"
CHANNELS_LAST = "transpose[perm=(0, 2, 3, 1)]"


def _judged(text: str) -> Verdict:
    return verify(parse_equation(text), load_axioms())


TRUE = (
    "exp(log(x)) => x",
    "log(exp(x)) <=> x",
    "add(log(x), log(y)) => log(mul(x, y))",
    "sub(log(x), log(y)) => log(div(x, y))",
    "log(sqrt(x)) <=> scale(log(x), full[value=1/2])",
    "mul(sqrt(x), sqrt(y)) => sqrt(mul(x, y))",
    "power[exponent=2](sqrt(x)) => x",
    "sqrt(power[exponent=2](x)) <=> absolute(x)",
    "mul(x, div(y, x)) => y",
    "div(div(x, y), div(z, w)) => div(mul(x, w), mul(y, z))",
    "exp(log_softmax[axis=a](x)) <=> softmax[axis=a](x)",
    "log_softmax[axis=a](x) <=> sub(x, broadcast(log(reduce_sum[axis=a](exp(x)))))",
    "softmax[axis=a](add(x, full[value=v])) <=> softmax[axis=a](x)",
    "div(exp(x), add(exp(x), ones())) <=> sigmoid(x)",
    "tanh(scale(x, full[value=-1])) <=> scale(tanh(x), full[value=-1])",
    "erf(scale(x, full[value=-1])) <=> scale(erf(x), full[value=-1])",
    "erf(sub(x, y)) <=> scale(erf(sub(y, x)), full[value=-1])",
    "sin(scale(x, full[value=-1])) <=> scale(sin(x), full[value=-1])",
    "cos(sub(x, y)) <=> cos(sub(y, x))",
    "cos(concat[axis=a](x, x)) <=> concat[axis=a](cos(x), cos(x))",
    "scale(mul(x, clip[low=0, high=6](add(x, full[value=3]))), full[value=1/6]) <=> hard_swish(x)",
    "maximum(x, scale(x, full[value=v])) <=> leaky_relu[alpha=v](x) where v <= 1",
    "select(greater(x, full[value=0]), x, scale(x, full[value=v])) <=> leaky_relu[alpha=v](x)",
    "select(greater(x, y), x, y) <=> maximum(x, y)",
    (
        f"bias_add[axis=-1](channel_scale[axis=-1](div({CENTRED}, broadcast({ROOT})), g), b)"
        " <=> layer_normalization[epsilon=e](x, g, b) where rank(x) <= 3"
    ),
    (
        "conv[stride=2, padding=(3, 3, 3, 3)](x, w) => conv[stride=2, padding=same](x, w)"
        " where dim(w, 2) = 7, dim(w, 3) = 7"
    ),
    f"{CHANNELS_LAST}(reduce_mean[axis=1](x)) <=> reduce_mean[axis=3]({CHANNELS_LAST}(x))",
    f"{CHANNELS_LAST}(softmax[axis=1](x)) <=> softmax[axis=3]({CHANNELS_LAST}(x))",
    (
        "reduce_sum[axis=a](mul(x, broadcast(y))) <=> mul(reduce_sum[axis=a](x), y)"
        " where rank(x) = rank(y), dim(y, a) = 1"
    ),
)

FALSE = (
    "log(mul(x, y)) => add(log(x), log(y))",
    "sqrt(mul(x, y)) => mul(sqrt(x), sqrt(y))",
    "x => exp(log(x))",
    "x => power[exponent=2](sqrt(x))",
    "sqrt(mul(x, x)) => x",
    "add(log(x), log(y)) => log(add(x, y))",
    "log(exp(x)) => add(x, full[value=1/1000])",
    "log(scale(x, full[value=2])) => scale(log(x), full[value=2])",
    "sqrt(scale(x, full[value=v*v])) => scale(sqrt(x), full[value=v])",
    "erf(scale(x, full[value=-1])) => erf(x)",
    "cos(scale(x, full[value=-1])) => scale(cos(x), full[value=-1])",
    "sin(add(x, y)) => add(sin(x), sin(y))",
    "sin(mul(x, x)) => mul(sin(x), sin(x))",
    "mul(x, div(ones(), y)) => ones()",
    "ones() => mul(x, div(ones(), x))",
    "maximum(x, scale(x, full[value=2])) => leaky_relu[alpha=2](x)",
    "select(greater(x, y), y, x) => maximum(x, y)",
    "exp(softmax[axis=a](x)) => log_softmax[axis=a](x)",
    "clip[low=l, high=h](scale(x, full[value=-1])) => scale(clip[low=l, high=h](x), full[value=-1])",
    "reduce_mean[axis=a](x) => scale(reduce_sum[axis=a](x), full[value=1/2])",
)


@pytest.mark.parametrize("text", TRUE)
def test_a_true_law_is_proved(text: str) -> None:
    verdict = _judged(text)
    assert verdict.status is Status.VERIFIED, verdict.reason


@pytest.mark.parametrize(
    ("others", "used"), [("# Once more.\ntwice: relu(relu(x)) = relu(x)\n", "twice"), ("", "thrice")]
)
def test_a_late_axiom_is_used_only_where_there_is_no_proof_without_it(others: str, used: str) -> None:
    late = "# late: Twice more.\nthrice: relu(relu(relu(x))) = relu(x)\n"
    axioms = axioms_from_text({"some": others + late})
    assert axioms.late == {"thrice"}
    verdict = verify(parse_equation("relu(relu(relu(x))) => relu(x)"), axioms)
    assert verdict.axioms_used == (used,)


@pytest.mark.parametrize("text", FALSE)
def test_a_false_law_is_refuted(text: str) -> None:
    assert _judged(text).status is Status.REFUTED


@pytest.mark.parametrize(
    ("name", "is_exact"),
    [("log-of-exp", False), ("root-of-square", False), ("erf-of-negative", False), ("exp-of-sum", True)],
)
def test_laws_that_residues_do_not_know_are_compared_on_real_numbers(name: str, is_exact: bool) -> None:  # noqa: FBT001
    axiom = load_axioms().by_name[name]
    found = validate_axiom(axiom, Thoroughness(Bound(2, 2), symbolic=0, sampled=None, definedness=0))
    assert found.valid, found.reason
    assert (found.cases > 0, found.real > 0) == (is_exact, not is_exact)


@pytest.mark.parametrize(
    "text", ["wrong: log(mul(x, y)) = log(add(x, y))", "wrong: sqrt(mul(x, x)) = x", "wrong: erf(x) = log(x)"]
)
def test_wrong_axioms_about_them_are_found_on_real_numbers(text: str) -> None:
    found = validate_axiom(
        parse_equation(text), Thoroughness(Bound(2, 2), symbolic=0, sampled=None, definedness=0)
    )
    assert not found.valid
    assert "left" in found.reason


@pytest.mark.parametrize(
    "text",
    [
        "log(mul(exp(x), exp(y))) => add(x, y)",
        "log(div(exp(x), y)) => sub(x, log(y))",
        "div(exp(x), reduce_sum[axis=0](exp(x))) => exp(sub(x, log(reduce_sum[axis=0](exp(x)))))",
        "sqrt(exp(x)) => exp(scale(x, full[value=1/2]))",
        "div(sqrt(x), sqrt(y)) => sqrt(div(x, y))",
    ],
)
def test_laws_hold_for_symbols(text: str) -> None:
    validation = validate(parse_equation(text))
    assert validation.failure is None
    assert validation.validated


@pytest.mark.parametrize(
    "text",
    [
        "log(mul(x, y)) => add(log(x), log(y))",
        "sqrt(mul(x, x)) => x",
        "log(add(x, y)) => add(log(x), log(y))",
    ],
)
def test_what_holds_for_some_symbols_only_is_not_shown(text: str) -> None:
    assert validate(parse_equation(text)).failure
