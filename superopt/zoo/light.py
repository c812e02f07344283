"""The nine real networks shipped with the onnx package's tests, with random weights inserted."""

from __future__ import annotations

from pathlib import Path

import onnx

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.zoo.materialise import materialise

__all__ = ["PREFIX", "build_light", "light_networks"]

PREFIX = "light-"

FILES = {
    "alexnet": "light_bvlc_alexnet",
    "densenet121": "light_densenet121",
    "inception_v1": "light_inception_v1",
    "inception_v2": "light_inception_v2",
    "resnet50": "light_resnet50",
    "shufflenet": "light_shufflenet",
    "squeezenet": "light_squeezenet",
    "vgg19": "light_vgg19",
    "zfnet512": "light_zfnet512",
}


def light_networks() -> tuple[str, ...]:
    """Names of the networks of the onnx package."""
    return tuple(PREFIX + name for name in FILES)


def build_light(name: str, batch: int, seed: int) -> onnx.ModelProto:
    """The light network ``name`` with seeded weights. Raises InvalidOptionError for a batch other than 1,
    MissingServiceError if the installed onnx package lacks its test networks."""
    if batch != 1:
        raise InvalidOptionError(
            f"{name}: its file fixes the batch at 1, got batch {batch}; "
            "networks that are not of the onnx package are built at any batch"
        )
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    path = folder / f"{FILES[name.removeprefix(PREFIX)]}.onnx"
    if not path.is_file():
        raise MissingServiceError(f"{name}: the installed onnx package has no {path.name}; reinstall onnx")
    model = onnx.load(path)  # pyright: ignore[reportUnknownMemberType]
    return materialise(model, seed)
