"""Jobs and other resources of a service, for ``Client`` and ``AsyncClient``.

``http`` describes and executes the calls; this package converts modules, submits jobs and reads their results.
"""
