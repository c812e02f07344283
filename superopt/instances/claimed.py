"""Instances about which an equation claims something."""

from __future__ import annotations

from collections.abc import Iterator

from superopt.instances.instance import Instance
from superopt.instances.sampler import MAX_ELEMENTS, InstanceSampler
from superopt.ops.sharding import divisions_of, replicas_of
from superopt.rewriting.divisions import divisions_needed, variable_type


class ClaimedInstances(InstanceSampler):
    """Samples only instances in which each variable is divided as combine, reduce and batch require, and no
    further."""

    def instances(self, schemes: int, per_scheme: int, largest: int = MAX_ELEMENTS) -> Iterator[Instance]:
        """As ``InstanceSampler.instances``, without the others."""
        return filter(self._is_claimed, super().instances(schemes, per_scheme, largest))

    def _is_claimed(self, instance: Instance) -> bool:
        ranks = {name: type_.rank for name, type_ in instance.types.items()}
        needed = divisions_needed(self.equation, ranks, instance.attributes)
        asked = {name: variable_type(name, type_.shape, needed) for name, type_ in instance.types.items()}
        return all(
            (divisions_of(type_), replicas_of(type_)) == (divisions_of(asked[name]), replicas_of(asked[name]))
            for name, type_ in instance.types.items()
        )
