"""Convolutions of volumes are those of images: of the slices, or along the depth."""

from __future__ import annotations

import pytest

from superopt.equations import rule_id
from superopt.generator.bilinear.filters import filters
from superopt.generator.bilinear.rules import filter_rules
from superopt.ir import Plan
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.ops.images.convolution import Conv
from superopt.optimizer.search import RuleSet
from superopt.rewriting import apply_match, substitutions_of
from tests.onnx_io.forcing import written_anew, written_as_it_was
from tests.onnx_io.kit import assert_same_results, model, node, operators, value, weight

MANY = 64


def volume(
    kernel: tuple[int, int, int],
    *,
    sizes: tuple[int | str, ...] = (4, 5, 6),
    samples: int | str = 2,
    channels: int = MANY,
    outputs: int = MANY,
    bias: bool = True,
    **attributes: object,
) -> bytes:
    """A convolution of a volume, with a bias where that is asked for."""
    weights = [weight("w", outputs, channels, *kernel), *([weight("b", outputs)] if bias else [])]
    made = node("Conv", "x w b" if bias else "x w", "y", **attributes)
    return model(
        [made], [value("x", [samples, channels, *sizes])], [value("y", [None] * 5)], weights, opset=13
    ).SerializeToString()


def convolutions(lifted: LiftedModel) -> list[Conv]:
    return [node.operator for node in lifted.graph if isinstance(node.operator, Conv)]


SLICES = {
    "same": volume((3, 3, 3), pads=[1] * 6),
    "valid, without a bias": volume((2, 3, 1), bias=False),
    "margins of all kinds": volume((3, 2, 3), pads=[2, 0, 1, 0, 1, 2]),
    "dilated": volume((2, 3, 2), pads=[1] * 6, dilations=[2, 1, 3]),
    "slices alone": volume((1, 3, 3), pads=[0, 1, 1, 0, 1, 1]),
    "one slice is left": volume((3, 3, 3), sizes=(3, 5, 6)),
}


@pytest.mark.parametrize("content", SLICES.values(), ids=SLICES)
def test_the_slices_of_a_volume_are_convolved(content: bytes) -> None:
    lifted = lift(load_model(content))
    assert not lifted.opaque
    assert len(convolutions(lifted)) == 1
    assert "Transpose" in operators(written_anew(content))
    assert_same_results(content, written_anew(content), rtol=1e-4)
    assert written_as_it_was(content) == content


@pytest.mark.parametrize("attributes", [{}, {"pads": [2, 0, 0, 1, 0, 0]}, {"strides": [2, 1, 1]}])
def test_a_kernel_along_the_depth_reads_an_image_of_all_positions(attributes: dict[str, object]) -> None:
    """Few channels are enough: nothing is moved."""
    content = volume((3, 1, 1), channels=3, outputs=2, **attributes)
    assert operators(written_anew(content)) == "Reshape Conv Reshape"
    assert_same_results(content, written_anew(content))


def test_samples_rows_and_columns_may_be_open() -> None:
    content = volume((3, 3, 3), sizes=(4, "h", "w"), samples="n", pads=[1] * 6)
    assert not lift(load_model(content)).opaque
    for n, h, w in [(1, 4, 4), (3, 1, 5)]:
        assert_same_results(content, written_anew(content), rtol=1e-4, n=n, h=h, w=w)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (volume((3, 3, 3), channels=32), "fewer than 64 channels"),
        (volume((3, 3, 3), outputs=32), "fewer than 64 channels"),
        (volume((3, 3, 3), strides=[1, 2, 2]), "with strides"),
        (volume((3, 3, 3), sizes=("d", 5, 6), pads=[1] * 6), "open depth"),
        (volume((3, 3, 3), auto_pad="SAME_UPPER"), "margins that follow from its size"),
    ],
)
def test_what_is_not_convolved_so_stays(content: bytes, reason: str) -> None:
    ((_, _, why),) = lift(load_model(content)).opaque
    assert reason in why


def test_a_volume_of_few_channels_has_gradients() -> None:
    content = volume((3, 3, 3), channels=2, outputs=3, pads=[1] * 6, strides=[1, 2, 2])
    assert lift(load_model(content)).opaque
    assert not lift(load_model(content), for_gradients=True).opaque
    assert_same_results(content, written_anew(content, for_gradients=True), rtol=1e-4)


def test_rules_about_images_apply_to_volumes() -> None:
    """What convolves an image by fewer multiplications convolves the slices."""
    content = volume((3, 3, 3), sizes=(3, 9, 10), samples=1, pads=[1] * 6)
    lifted = lift(load_model(content))
    equations = [rule.equation for rule in filter_rules(filters(2, 3)[0])]
    rules = [rule for equation in equations for rule in substitutions_of(equation, rule_id(equation))]
    matches = RuleSet(tuple(rules)).matches(lifted.graph, frozenset())
    assert len({match.substitution.rule_id for match in matches}) == len(equations) > 1
    for match in matches:
        rewrite = apply_match(lifted.graph, match)
        assert rewrite is not None
        written = lower(lifted, rewrite.graph, Plan()).to_bytes()
        assert operators(written).count("Conv") > 1
        assert_same_results(content, written, rtol=1e-3)
