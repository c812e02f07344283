"""HTTP service for model optimization: a server that stores jobs, and workers that run them.

``server.process.serve.serve`` runs the whole service, ``server.worker.loop.run_worker`` a single worker;
``server.http.app.create_app`` makes the ASGI application, ``server.settings.Settings`` holds its settings.
Nothing is imported here, so that the child process of a job loads only what it needs.
"""
