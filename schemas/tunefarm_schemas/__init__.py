"""The types of tunefarm, as frozen pydantic models with JSON round trips.

This package defines the terms that all other packages share: targets, workloads, traces, candidates, measurements,
failures, tuning records, jobs, artifacts and devices. It depends on neither TVM nor a database nor a web framework, so
that any process can import it cheaply.
"""

from typing import Final

SCHEMA_VERSION: Final = 1
"""Version of the JSON form of all types here. Incremented when an old reader could misread a new document."""
