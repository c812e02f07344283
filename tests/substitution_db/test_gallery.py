"""Which rules gain what, of which sort they are, and where they apply."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.gallery import library_page, write_page
from superopt.journeys.library.gallery.gains import best_gain, gains
from superopt.journeys.library.gallery.kinds import Kind, kind_of
from superopt.journeys.library.gallery.uses import sites
from superopt.rewriting import substitutions_of
from superopt.substitution_db.rules.shipped import SHIPPED_LIBRARY
from tests.equations.test_abbreviation import KARATSUBA

CONV = "conv[stride=s, padding=p]"
MERGED = "conv[stride=4](x, concat[axis=0](y, z))"
MERGE = (
    f"(conv[stride=4](x, y), conv[stride=4](x, z)) => (split0[axis=1]({MERGED}), split1[axis=1]({MERGED})) "
    "where groups(x, y) = 1"
)
TOGETHER, APART = "relu(concat[axis=a](x, y))", "concat[axis=a](relu(x), relu(y))"


@pytest.mark.parametrize(
    ("rule", "kind", "at_least"),
    [
        ("transpose(transpose(x)) => x", Kind.CANCELLATION, 100),
        ("mul(x, hard_sigmoid[alpha=1/6](x)) <=> hard_swish(x)", Kind.FUSION, 1.4),
        (f"relu({CONV}(x, w)) => conv[stride=s, padding=p, activation=relu](x, w)", Kind.FUSION, 1.1),
        ("matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)", Kind.FOLDING, 10),
        (
            f"channel_scale[axis=1]({CONV}(x, w), y) => {CONV}(x, channel_scale[axis=0](w, y))",
            Kind.FOLDING,
            1.1,
        ),
        ("add(mul(x, y), mul(x, z)) => mul(x, add(y, z))", Kind.FACTORING, 1.3),
        (MERGE, Kind.MERGING, 1.05),
        (
            "relu(maxpool[kernel=2, stride=2](x)) <=> maxpool[kernel=2, stride=2](relu(x))",
            Kind.REASSOCIATION,
            1.1,
        ),
        ("transpose(relu(transpose(x))) <=> relu(x)", Kind.LAYOUT, 2.5),
    ],
)
def test_what_a_rule_gains_and_how(rule: str, kind: Kind, at_least: float) -> None:
    equation = parse_equation(rule)
    gain = best_gain(equation)
    assert gain is not None
    assert gain.ratio >= at_least
    assert kind_of(equation, gain) is kind


@pytest.mark.parametrize("rule", ["add(x, y) <=> add(y, x)", "relu(x) => relu(relu(x))"])
def test_a_rule_that_gains_nothing_the_way_it_may_be_used(rule: str) -> None:
    assert best_gain(parse_equation(rule)) is None


def test_parameters_are_always_known_and_some_work_always_remains() -> None:
    rule = parse_equation(f"channel_scale[axis=1]({CONV}(x, w), y) => {CONV}(x, channel_scale[axis=0](w, y))")
    assert {gain.known for gain in gains(rule)} == {("w", "y")}
    chain = parse_equation("matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)")
    assert {gain.known for gain in gains(chain)} == {(), ("x", "y"), ("x", "z"), ("y", "z")}


def test_sites_in_a_network() -> None:
    rules = {
        "together": f"{APART} => {TOGETHER}",
        "apart": f"{TOGETHER} => {APART}",
        "tanh": "tanh(tanh(x)) => x",
    }
    ways = [way for name, rule in rules.items() for way in substitutions_of(parse_equation(rule), name)]
    found = {rule: dict(counts) for rule, counts in sites(ways, ["squeezenet"]).items()}
    assert found == {"together": {"squeezenet": 8}}


def test_a_page_abbreviates_algorithms(tmp_path: Path) -> None:
    lines = map(json.loads, SHIPPED_LIBRARY.read_text(encoding="utf-8").splitlines())
    idempotent = next(line for line in lines if line["equation"] == "relu(relu(x)) => relu(x)")
    conv = "bilinear_conv[columns={0}](x, filter_transform[columns={0}](y))"
    rule = f"relu(relu({conv})) => relu({conv})"
    equation, short = rule.format(KARATSUBA), rule.format("F(2,2)")
    line = {**idempotent, "id": rule_id(parse_equation(equation)), "equation": equation}
    library = tmp_path / "one.jsonl"
    library.write_text(json.dumps(line) + "\n", encoding="utf-8")
    page = library_page(library, "page", [])
    assert f"```\n{short}\n```" in page.text
    (picture,) = page.pictures.values()
    assert ">columns=F(2,2)</text>" in picture
    assert "(((" not in page.text + picture


def test_a_page_of_two_rules(tmp_path: Path) -> None:
    library = tmp_path / "two.jsonl"
    lines = SHIPPED_LIBRARY.read_text(encoding="utf-8").splitlines()
    rules = {line["equation"]: line for line in map(json.loads, lines)}
    chosen = [rules["transpose(transpose(x)) => x"], rules["relu(relu(x)) => relu(x)"]]
    library.write_text("".join(json.dumps(line) + "\n" for line in chosen), encoding="utf-8")
    page = library_page(library, "page", ["squeezenet"])
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "old.svg").touch()
    write_page(page, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "The library has **2 rules**." in text
    first, second = (line["id"] for line in chosen)
    assert text.index(f"#### `{first}`") < text.index(f"#### `{second}`")
    assert f'<img src="page/{first}.svg" alt="transpose(transpose(x)) =&gt; x">' in text
    assert "- proof: 1 step, " in text
    assert {path.name for path in (tmp_path / "page").iterdir()} == {f"{first}.svg", f"{second}.svg"}
    root = ElementTree.fromstring((tmp_path / "page" / f"{first}.svg").read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
