"""Times training steps beside PyTorch, torch.compile and JAX, and beside an inference forward pass.

    python -m benchmarks training [NETWORK[:BATCH] ...] [--light] [--rounds 7] [--without COLUMN ...]

All run AdamW on the same ONNX graph of the zoo, with the same weights and batch, cross-entropy as the loss
and no dropout, on one core. A round runs each once, in random order. Cells are medians in milliseconds and,
in brackets, the median of the quotients by superopt's time in the same round. The column of a framework that
is not installed is empty (``pip install --target build/bench-torch torch``). Each framework's first losses
are compared with superopt's. Compilers may take minutes for large graphs: ``--without torch.compile JAX``.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.training.rows import PEERS, Request, Row, measured

FULL = ("resnet50:4", "mobilenet-v3:4", "bert-base:2", "gpt2:1", "lstm-lm:8")
LIGHT = ("light-resnet18:16", "light-bert:4", "light-gpt2:4", "light-lstm-lm:8")
HEADER = (
    "| network | batch | superopt | PyTorch | torch.compile | JAX | forward pass |",
    "|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    networks: tuple[str, ...]
    rounds: int
    torch: Path
    out: Path
    skipped: tuple[str, ...]

    @staticmethod
    def parse() -> Options:
        """Reads ``sys.argv``."""
        parser = argparse.ArgumentParser(prog="benchmarks training", description=__doc__)
        parser.add_argument("networks", nargs="*", help="names of the zoo, with a batch size")
        parser.add_argument("--light", action="store_true", help="small networks by default")
        parser.add_argument("--rounds", type=int, default=7)
        parser.add_argument("--torch", type=Path, default=Path("build/bench-torch"), help="where PyTorch is")
        parser.add_argument("--out", type=Path, default=Path("build/training"))
        parser.add_argument("--without", nargs="+", choices=PEERS, default=[], help="columns to leave out")
        given = parser.parse_args()
        chosen = given.networks or (LIGHT if given.light else FULL)
        return Options(tuple(chosen), given.rounds, given.torch, given.out, tuple(given.without))


def main() -> None:
    """Prints the table row by row and writes it to ``training.md``."""
    options = Options.parse()
    options.out.mkdir(parents=True, exist_ok=True)
    sys.stdout.write("\n".join(HEADER) + "\n")
    rows: list[Row] = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as executor:
        for text in options.networks:
            name, _, batch = text.partition(":")
            request = Request(
                name, int(batch or 1), options.rounds, options.torch, options.out, options.skipped
            )
            rows.append(executor.submit(measured, request).result())
            sys.stdout.write(rows[-1].text + "\n")
            sys.stdout.flush()
    notes = [f"- {row.network}: {note}" for row in rows for note in row.notes]
    sys.stdout.write("".join(f"{note}\n" for note in notes))
    lines = (*HEADER, *(row.text for row in rows), "", *notes)
    (options.out / "training.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
