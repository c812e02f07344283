"""Rules that changed the outputs of a model are made suspect in the database, with the evidence."""

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
    accusations: Sequence[Mapping[str, object]],
    *,
    found_by: str,
    model: str,
    sha256: str,
    seed: int,
    database: str | None,
) -> None:
    """Records accusations (``superopt.journeys.accusation``), so that no job uses those rules from now on.

    A database that does not answer is logged: what the job itself gave back was made without them.
    """
    evidence = {
        str(accused["rule"]): Evidence(
            found_by=found_by,
            model=model,
            sha256=sha256,
            seed=seed,
            difference=str(accused["difference"]),
            report=cast("Mapping[str, object]", accused["report"]),
        )
        for accused in accusations
    }
    try:
        with open_database(database) as opened:
            opened.quarantine.record(evidence)
            opened.library.renew(current(), f"without rules that are suspect: {', '.join(sorted(evidence))}")
    except SuperoptError as error:
        _LOG.error("suspect rules could not be recorded (%s): %s", ", ".join(evidence), error)
