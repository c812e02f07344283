"""How a plan is printed."""

from __future__ import annotations

import pytest

from superopt.cli.output import Output
from superopt.cli.views.plan import print_plan


def _section(*stages: int) -> dict[str, object]:
    return {
        "cluster": {"name": "some", "devices": 4, "nodes": 1},
        "objective": "training",
        "predicted": {"total": 10.0, "compute": 8.0, "communication": 2.0},
        "baselines": [{"name": "one device", "total": 20.0}],
        "memory": [{"device": 0, "bytes": 1, "limit": 2}],
        "communication_bytes": 5,
        "stages": 1 + max(stages),
        "microbatches": 1,
        "operators": [
            {
                "operator": "relu",
                "degrees": [2],
                "kinds": ["sample"],
                "devices": [2 * stage, 2 * stage + 1],
                "copies": 1,
                "stage": stage,
            }
            for stage in stages
        ],
    }


@pytest.mark.parametrize(
    ("stages", "rows"),
    [
        ((0, 0, 0), [["3", "relu", "sample", "2", "0-1"]]),
        ((0, 0, 1), [["0", "2", "0-1", "sample", "2"], ["1", "1", "2-3", "sample", "2"]]),
    ],
)
def test_operators_are_one_row_for_each_kind_or_stage(
    stages: tuple[int, ...], rows: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(_section(*stages), Output(as_json=False))
    *_, table = capsys.readouterr().out.strip().split("\n\n")
    assert [line.split() for line in table.splitlines()[1:]] == rows


def test_inputs_in_parts_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    residence: list[object] = [{"fetches": [1, 2]}, {"fetches": [3]}]
    print_plan({**_section(0), "residence": residence}, Output(as_json=False))
    assert "2 inputs, gathered by 3 exchanges" in capsys.readouterr().out


def test_a_plan_that_takes_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    free = {"total": 0.0, "compute": 0.0, "communication": 0.0}
    section = {**_section(0), "predicted": free, "baselines": [{"name": "one device", "total": 0.0}]}
    print_plan(section, Output(as_json=False))
    plans = capsys.readouterr().out.split("\n\n")[1]
    assert [line.split() for line in plans.splitlines()[1:]] == [
        ["this", "plan", "0"],
        ["one", "device", "0"],
    ]
