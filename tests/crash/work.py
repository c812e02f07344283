"""What the jobs of these tests do, in real child processes (see ``superopt.processes.child_main``)."""

from __future__ import annotations

import errno
import json
import os
import signal
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from superopt.errors import InvalidOptionError

Json = Mapping[str, object]
Progress = Callable[[Json], None]


def quick(arguments: Json, progress: Progress) -> Json:
    """Writes a result that no other attempt writes, after two reports of progress; the option ``ending`` asks
    for another ending.
    """
    options = arguments["options"]
    assert isinstance(options, dict)
    progress({"step": 1})
    match options.get("ending"):
        case "refuse":
            raise InvalidOptionError("target: expected cpu or cuda, got abacus")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fill":
            raise OSError(errno.ENOSPC, "No space left on device")
        case "wait":
            while True:
                signal.sigtimedwait([], 0.02)
                progress({"step": 2})
    directory = Path(str(arguments["directory"]))
    (directory / "output").mkdir()
    (directory / "output" / "model.onnx").write_text(f"{options.get('seed')} {uuid.uuid4()}")
    report = {"schema": 1, "seed": options.get("seed"), "model": {"name": arguments["model_name"]}}
    (directory / "report.json").write_text(json.dumps(report))
    progress({"step": 2})
    return {
        "result": "output/model.onnx",
        "outcome": {"returned": "original", "ratio": 1.0, "measured": False},
    }
