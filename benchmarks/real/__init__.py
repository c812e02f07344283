"""Models as people have them: where they come from, how they are run, tables of results."""
