"""Typed instances of equations: one search by propagation, with a policy for each use.

- ``search``: the decisions (ranks, attribute values, sizes) and what follows from them;
- ``exhaustive``: every case up to a bound; ``drawn``: small instances in random order, none twice;
- ``schemes``: symbols for sizes: the most general scheme for given ranks and attribute values, random ones,
  those with convolutions in groups; ``sampler``: numbers for the symbols;
- ``values``: the values that attributes take; ``ranks``: the ranks that operators accept; ``channels``: sizes
  of channels that fit into groups;
- ``program``: an equation, its terms numbered.
"""
