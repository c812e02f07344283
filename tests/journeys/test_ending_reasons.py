"""Why a supervised job ended without an answer, in words."""

from __future__ import annotations

from superopt.journeys.ending_reasons import reason_of
from superopt.processes.child import OutOfMemory, OutOfTime


def test_the_reason_names_a_budget_for_a_model_that_was_not_loaded_in_time() -> None:
    why, is_broken = reason_of(OutOfTime(), None, 15.0, 17.1)
    assert why == (
        "the budget of 15 s was overrun: stopped after 17.1 s, when the model was being read and loaded; "
        "that needs a budget of at least 35 s, perhaps more"
    )
    assert not is_broken
    assert reason_of(OutOfMemory(), "search", 15.0, 5.0)[0] == "not enough memory, in the phase 'search'"
