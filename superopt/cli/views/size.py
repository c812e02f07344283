"""Text output of the sizes chosen for symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast


def frozen_pairs(section: object, sizes: object = None) -> dict[str, object]:
    """Summary lines from a report's ``model`` about what was changed before it was optimised, and the sizes
    that it was frozen at, with what that gains from its ``sizes``; none for a model as it was given."""
    from superopt.optimizer.pipeline.reporting.sizes import written

    model = cast("Mapping[str, object]", section or {})
    frozen = cast("Mapping[str, int]", model.get("frozen") or {})
    adapted = cast("Sequence[str]", model.get("adapted") or ())
    changed = {"changed": " and ".join(adapted)} if adapted else {}
    given = cast("Mapping[str, object]", sizes or {}).get("given")
    gain = f"; {_speed_up(given)} as the model with open sizes" if given else ""
    return {**changed, **({"frozen": f"for {written(frozen)} only{gain}"} if frozen else {})}


def checked_pairs(checked: Sequence[Mapping[str, int]]) -> dict[str, object]:
    """The summary line of the sizes at which models were compared; none without symbolic dimensions."""
    from superopt.optimizer.pipeline.reporting.sizes import written

    return {"sizes": "; ".join(map(written, checked))} if checked else {}


def size_pairs(section: object) -> dict[str, object]:
    """Summary lines from a report's ``sizes``; none for a model without symbolic dimensions."""
    from superopt.optimizer.pipeline.reporting.sizes import written

    sizes = cast("Mapping[str, object]", section or {})
    priced = cast("Mapping[str, int]", sizes.get("priced") or {})
    if not priced:
        return {}
    guessed = cast("Sequence[str]", sizes.get("guessed") or ())
    text = written(priced) + (f" (guessed: {', '.join(guessed)})" if guessed else "")
    timed = cast("Mapping[str, int] | None", sizes.get("timed"))
    if timed is not None and timed != priced:
        text += f"; timed at {written(timed)}"
    checked = cast("Sequence[Mapping[str, int]]", sizes.get("checked") or ())
    also = [written(others) for others in checked if others != priced]
    if also:
        text += f"; also checked at {', '.join(also)}"
    notes = [_at_smaller(cast("Mapping[str, object] | None", sizes.get("smaller")))]
    request = sizes.get("request")
    notes += [f"give the sizes you run with: {request}"] if request else []
    told = "; ".join(filter(None, notes))
    return {"sizes": text, **({"": told} if told else {})}


def _at_smaller(section: Mapping[str, object] | None) -> str:
    """The speed-up at smaller sizes; empty where it was not measured."""
    from superopt.optimizer.pipeline.reporting.sizes import written

    if section is None:
        return ""
    return f"at {written(cast('Mapping[str, int]', section['sizes']))}: {_speed_up(section)}"


def _speed_up(section: object) -> str:
    found = cast("Mapping[str, float]", section)
    return f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f}) times as fast"
