"""The parts of superopt profile that measure with JAX: collectives of devices, and kernels to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from superopt.cli.output import Output, shown
from superopt.cli.progress import described
from superopt.errors import InvalidOptionError
from superopt.files import is_standard_output, require_writable

_DOUBTFUL = 0.3
"""Residual from which on the text says that the time is not linear in bytes."""


def refuse(given: Sequence[str], why: str) -> None:
    """Raises InvalidOptionError for options that have no meaning beside the others."""
    if given:
        raise InvalidOptionError(f"{given[0]}: expected {why}")


def profile_collectives(devices: int | None, largest: str | None, out: Path | None, *, as_json: bool) -> None:
    """Measures collectives, writes the cluster description, prints the fits with their residuals."""
    from superopt.journeys.planning.collectives import LARGEST, bandwidth_of, measure_collectives

    output = Output.beside(as_json, out)
    if out is not None:
        require_writable(out)
    size = LARGEST if largest is None else _size(largest)
    with described("measuring with JAX") as show:
        found = measure_collectives(devices, size, show)
    if out is not None:
        found.write(out)
    output.document({**found.document(), "path": None if out is None else str(out)})
    peaks, fits = (
        found.peaks,
        {**{str(kind): fit for kind, fit in found.collectives.items()}, "send": found.link},
    )
    output.pairs(
        {
            "devices": f"{found.devices} x {found.device} ({found.platform}), JAX {found.jax}",
            "each": f"{peaks.flops / 1e9:,.1f} GFLOP/s, {peaks.memory_bandwidth / 1e9:,.2f} GB/s, "
            f"{peaks.launch:,.1f} us to launch",
        }
    )
    rows = [
        (
            kind,
            f"{fit.time.per_byte * 1e6:,.1f}",
            f"{bandwidth_of(fit.time) / 1e9:,.3f}",
            f"{fit.time.fixed:,.1f}",
        )
        for kind, fit in fits.items()
    ]
    output.table(["T = C bytes + D", "C, us/MB", "1/C, GB/s", "D, us"], rows)
    sizes = [one.bytes for one in found.link.samples]
    output.table(
        ["residual at", *(f"{size >> 10} KiB" for size in sizes)],
        [(kind, *(f"{residual:+.0%}" for residual in fit.residuals)) for kind, fit in fits.items()],
    )
    doubtful = [
        kind
        for kind, fit in fits.items()
        if max(map(abs, fit.residuals)) > _DOUBTFUL or fit.time.per_byte == 0
    ]
    notes = {
        "note": f"not linear in bytes, or no slower with more of them: {', '.join(doubtful)}; measure up to "
        "your sizes by --largest, on a machine that does nothing else"
    }
    written = {} if out is None else {"use it": f"superopt optimize STEP -o OUT --cluster {shown(out)}"}
    output.pairs({**(notes if doubtful else {}), **written})


def _size(text: str) -> int:
    """Bytes of a size with its unit; raises InvalidOptionError."""
    from superopt.optimizer.parallel.documents.quantities import Quantity

    try:
        return int(Quantity.SIZE.parse(text))
    except ValueError as error:
        raise InvalidOptionError(f"largest: {error}, got {text!r}") from None


def profile_estimator(steps: Sequence[str], kernels: int | None, out: Path | None, *, as_json: bool) -> None:
    """Measures kernels, learns an estimator, writes it, prints its errors for unseen kernels."""
    from superopt.journeys.planning.estimator import KERNELS, STEPS, Sampling, train_estimator

    if out is None or is_standard_output(out):
        raise InvalidOptionError("output: --estimator needs a file that ends in .json; give it by --output")
    if out.suffix != ".json":
        raise InvalidOptionError(f"output: expected a path that ends in .json, got {out}")
    output = Output.beside(as_json, out)
    require_writable(out)
    sampling = Sampling(tuple(steps) or STEPS, KERNELS if kernels is None else kernels)
    with described("learning kernels") as show:
        found = train_estimator(sampling, out, show)
    errors = {kind: asdict(error) for kind, error in found.errors.items()}
    output.document({"path": str(out), "origin": asdict(found.origin), "errors": errors})
    output.pairs({"estimator": f"{shown(out)}: {found.origin.device}, JAX {found.origin.jax}"})
    output.table(
        [
            "unseen kernels",
            "number",
            "within 10 %",
            "within 14 %",
            *(f"{q} % below" for q in (50, 75, 90, 99)),
        ],
        [
            (
                kind,
                error.kernels,
                f"{error.within_10:.0%}",
                f"{error.within_14:.0%}",
                *(f"{quantile:.1%}" for quantile in error.quantiles.values()),
            )
            for kind, error in found.errors.items()
        ],
    )
    output.pairs(
        {"use it": f"device: {{flops: …, memory_bandwidth: …, estimator: {out.name}}} in a --cluster"}
    )
