"""Typed instances of equations: one search by propagation, and its uses.

- ``search``: the decisions (ranks, attribute values, sizes) and what follows from them;
- ``exhaustive``: every case up to a bound; ``drawn``: small instances in random order, none twice;
  ``schemes``: random ranks and attribute values with symbols for sizes, ``sampler``: numbers for these;
- ``values``: the values that attributes take; ``ranks``: the ranks that operators accept;
- ``program``: an equation, its terms numbered.
"""
