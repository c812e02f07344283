"""Quarantine of rules that changed the outputs of a model: marks them suspect in the database."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import cast

from superopt.errors import SuperoptError
from superopt.substitution_db import open_database
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import Evidence

_LOG = logging.getLogger(__name__)


def quarantine(
    suspects: Sequence[Mapping[str, object]],
    *,
    found_by: str,
    model: str,
    sha256: str,
    seed: int,
    database: str | None,
) -> None:
    """Records suspects (``superopt.journeys.suspect_evidence``), so that no later job uses those rules.

    An unavailable database is only logged, because the job's result does not use those rules.
    """
    evidence = {
        str(suspect["rule"]): Evidence(
            found_by=found_by,
            model=model,
            sha256=sha256,
            seed=seed,
            difference=str(suspect["difference"]),
            report=cast("Mapping[str, object]", suspect["report"]),
        )
        for suspect in suspects
    }
    try:
        with open_database(database) as opened:
            opened.quarantine.record(evidence)
            opened.library.renew(current(), f"without rules that are suspect: {', '.join(sorted(evidence))}")
    except SuperoptError as error:
        _LOG.warning("suspect rules could not be recorded (%s): %s", ", ".join(evidence), error)
