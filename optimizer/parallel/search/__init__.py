"""The search for plans: dynamic programming over choices on a mesh, shares, pipelines, substitutions."""
