"""Commands superopt zoo list and build: benchmark networks of the papers."""

from __future__ import annotations

from typing import Annotated

import typer

from superopt.cli.output import JsonOption, NoDatabaseOption, Output, OutputOption


def register(zoo_group: typer.Typer) -> None:
    """Adds the commands to those of ``superopt zoo``."""
    zoo_group.command("list")(list_networks)
    zoo_group.command("build")(build)


def list_networks(database: NoDatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the networks that can be built. llama-LxW, a LLaMA decoder of L blocks of width W, can be too."""
    from superopt import zoo

    del database
    output = Output(as_json)
    networks = [zoo.describe(name) for name in zoo.names()]
    output.document(
        [
            {
                "name": n.name,
                "summary": n.summary,
                "source": n.source,
                "batch": n.batch,
                "parameters": n.parameters,
            }
            for n in networks
        ]
    )
    output.table(
        ("name", "batch", "parameters", "what it is", "source"),
        [
            (
                n.name,
                "any" if n.batch is None else str(n.batch),
                _count(n.parameters),
                n.summary,
                n.source,
            )
            for n in networks
        ],
    )


def _count(parameters: int | None) -> str:
    if parameters is None:
        return ""
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e5 else f"{parameters / 1e3:.1f} k"


def build(
    name: Annotated[str, typer.Argument(help="Name as shown by `superopt zoo list`, or llama-LxW.")],
    out: OutputOption,
    batch: Annotated[int, typer.Option(help="Batch size.")] = 1,
    sequence: Annotated[
        int | None, typer.Option(help="Number of tokens, of transformers. [default: 128]", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights.")] = 0,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build a network with seeded weights and write it as ONNX, with weights over 1 GB as external data."""
    from superopt import zoo
    from superopt.optimizer.explanation.amounts import amount

    del database
    output = Output.beside(as_json, out)
    size = zoo.save(name, out, batch=batch, sequence=sequence, seed=seed)
    output.document(
        {"name": name, "batch": batch, "sequence": sequence, "seed": seed, "path": str(out), "bytes": size}
    )
    output.line(f"{out}: {name}, batch {batch}, {amount(size, 'bytes')}")
