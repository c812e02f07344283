"""Optimises a model at a service: submits it, follows its progress, downloads model and report."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from superopt.client import Client, Event
from superopt.errors import SuperoptError


def main() -> int:
    """Writes ``NAME-optimised.onnx`` and ``NAME-report.json`` into the output directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="as http://127.0.0.1:8080")
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for model and report")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for the optimization")
    parser.add_argument("--key", help="the API key, where the service asks for one")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    model, report = (
        arguments.output / f"{arguments.model.stem}{end}" for end in ("-optimised.onnx", "-report.json")
    )

    with Client(arguments.server, key=arguments.key) as client:
        job = client.submit(arguments.model, options={"budget": arguments.budget})
        print(f"{job.id}: {job.state}")
        try:
            job = client.wait(job.id, on_event=show)
        except KeyboardInterrupt:
            client.cancel(job.id)
            raise
        if not job.succeeded:
            print(f"{job.id}: {job.state}: {job.problem}", file=sys.stderr)
            return 1
        client.save_model(job.id, model)
        client.download_report(job.id, report)
    found = json.loads(report.read_text(encoding="utf-8"))
    print(f"{found['returned']}: {found['why']}")
    print(f"written: {model}, {report}")
    return 0


def show(event: Event) -> None:
    """Prints what happens to the optimization."""
    content = event.content
    if event.kind == "state":
        print(f"state: {content['state']}")
    else:
        print(f"{content.get('phase')}: {content.get('candidates')} candidates")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuperoptError as error:
        sys.exit(f"submit: {error}")
