"""Discovery gives the same wherever its arrays are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from superopt.domains.arrays import Device
from superopt.generator import generate, in_process, load_preset
from superopt.generator.enumerate.enumeration import Enumeration
from tests.devices import GPU, STRICT


@pytest.mark.parametrize("device", [STRICT, GPU])
@pytest.mark.parametrize("name", ["attention", "convolution", "gates", "normalisation"])
def test_enumerations_are_the_same_on_every_device(name: str, device: Device) -> None:
    for stage in load_preset(name).stages_to(2):
        here, there = Enumeration(stage).complete(), Enumeration(stage, device=device).complete()
        assert np.array_equal(here.table.keys, there.table.keys)
        assert np.array_equal(here.terms.classes, there.terms.classes)
        assert np.array_equal(here.terms.arguments, there.terms.arguments)


@pytest.mark.parametrize("device", [STRICT, GPU])
def test_values_in_files_are_the_same_on_every_device(device: Device) -> None:
    (stage, *_) = load_preset("gates").stages_to(3)
    here, there = Enumeration(stage), Enumeration(stage, device=device, memory_bytes=0)
    assert np.array_equal(here.complete().table.keys, there.complete().table.keys)


@pytest.mark.parametrize("device", [GPU])
def test_candidates_found_on_a_gpu_are_those_found_without(device: Device) -> None:
    preset = load_preset("taso")
    found = generate(preset, max_ops=2, workers=replace(in_process(), device=device.name))
    assert found.candidates == generate(preset, max_ops=2).candidates
