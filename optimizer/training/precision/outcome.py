"""What was planned and checked about the precision of a step, for reports and for the model's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from superopt.errors import InvalidOptionError
from superopt.onnx_io import LoweredModel
from superopt.optimizer.training.compared_losses import LossComparison, compare_losses
from superopt.optimizer.training.precision.planning import Planned
from superopt.optimizer.training.running import Step
from superopt.optimizer.training.trial_batches import Feeds
from superopt.step_options import PrecisionSettings

PROPERTY = "superopt.precision"
"""The key of the metadata property of a step in mixed precision."""

NOT_EQUAL = "in mixed precision, which is not equal to the step in float32"


@dataclass(frozen=True)
class PrecisionOutcome:
    """A plan with what was compared; ``losses`` is None where no budget was given, and nothing was run."""

    settings: PrecisionSettings
    planned: Planned
    losses: LossComparison | None = None

    def document(self) -> Mapping[str, object]:
        """The section ``precision`` of a report about a step."""
        planned, plan = self.planned, self.planned.plan
        return {
            "precision": plan.format,
            "error_budget": self.settings.error_budget,
            "nodes": {"low": len(plan.low), "of": planned.candidates},
            "multiplications": planned.multiplications,
            "casts": {
                "exclusive": planned.mixed.exclusive_casts,
                "shared": planned.mixed.shared_casts,
                "results": len(planned.mixed.rounded),
            },
            "loss_scale": planned.loss_scale if plan.format == "f16" else None,
            "predicted": None if planned.predicted is None else asdict(planned.predicted),
            "observed": self._observed(),
            "not_predicted": list(planned.missing),
            "device": self.settings.priced_for,
            "microseconds": {"f32": planned.before, "mixed": planned.after},
            "why": self._why,
            "summary": self.sentence(),
        }

    def sentence(self) -> str:
        """What was done, and the errors, in a line."""
        planned, plan, observed = self.planned, self.planned.plan, self.planned.observed
        if not plan.low:
            return self._why
        nodes = f"{len(plan.low)} of {planned.candidates} nodes in {plan.format}"
        share = f"{planned.multiplications:.0%} of multiplications"
        if observed is None or planned.predicted is None or self.losses is None:
            return f"{nodes}, {share}; errors not checked without an error budget"
        return (
            f"{nodes}, {share}; error of gradients {observed.gradients:.2g} (predicted "
            f"{planned.predicted.gradients:.2g}), of the loss {observed.loss:.2g} (predicted "
            f"{planned.predicted.loss:.2g}), of {len(self.losses.exact)} losses {self.losses.error:.2g}"
        )

    @property
    def _why(self) -> str:
        if self.planned.plan.low:
            return NOT_EQUAL
        if self.settings.error_budget is None:
            return "in float32: no node may run in low precision"
        return "in float32: no nodes in low precision are within the budget and faster"

    def metadata(self) -> Mapping[str, str]:
        """The metadata property."""
        plan = self.planned.plan
        content = {"format": 1, "precision": plan.format, "low": len(plan.low)}
        return {PROPERTY: json.dumps({**content, "error_budget": self.settings.error_budget})}

    def _observed(self) -> Mapping[str, object] | None:
        observed, losses = self.planned.observed, self.losses
        if observed is None or losses is None:
            return None
        return {
            "loss": observed.loss,
            "gradients": observed.gradients,
            "worst_gradient": {"parameter": observed.worst, "error": observed.of_worst},
            "steps": len(losses.exact),
            "losses": losses.error,
            "last_loss": {"f32": losses.exact[-1], "mixed": losses.other[-1]},
        }


def checked(
    settings: PrecisionSettings,
    planned: Planned,
    exact: LoweredModel,
    mixed: LoweredModel,
    batches: tuple[Feeds, ...],
) -> PrecisionOutcome:
    """The outcome of a plan after consecutive steps of both models. Raises InvalidOptionError where losses
    differ by more than the budget."""
    budget = settings.error_budget
    if budget is None:
        return PrecisionOutcome(settings, planned)
    own, other = (Step(model.to_bytes(), threads=1) for model in (exact, mixed))
    losses = compare_losses(own, other, batches)
    if losses.error > budget:
        raise InvalidOptionError(
            f"error budget: expected at least {losses.error:.2g}, by which the losses of "
            f"{len(losses.exact)} steps in {planned.plan.format} differ from those in float32, got {budget:g}"
        )
    return PrecisionOutcome(settings, planned, losses)


__all__ = ["NOT_EQUAL", "PROPERTY", "PrecisionOutcome", "checked"]
