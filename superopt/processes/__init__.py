"""Child processes: starting, limits, monitoring, ending.

``supervised`` starts a process with a ``channel`` of messages to it; in the process ``child_main.Parent``
ends it with its parent, and ``confinement`` limits it. On top of it are ``child`` (one function, JSON; also
for hostile input) and ``pool`` (many items, pickled). What differs: ``server.process.sandbox`` forks from a
supervised process, in milliseconds; the workers of ``server.process.serve`` take jobs from the database and
end gracefully; Dask (``generator.run.executors``) supervises processes on other machines itself.
"""
