"""Plan search: dynamic programming over divisions on a mesh, device shares, pipelines and substitutions."""
