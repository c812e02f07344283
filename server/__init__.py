"""The service: models are optimised over HTTP by workers that take jobs from the database.

``server.process.serve.serve`` is the whole service, ``server.worker.loop.run_worker`` a worker alone,
``server.http.app.create_app`` the application, ``server.settings.Settings`` what can be set. Nothing is
imported here: a child process of a job loads only what it needs.
"""
