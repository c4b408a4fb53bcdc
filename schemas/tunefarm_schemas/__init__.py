"""The nouns of tunefarm, as frozen pydantic types with JSON round trips.

This package owns the words that every other package speaks: targets, workloads, traces, candidates, measurements,
failures, tuning records, jobs, artifacts and devices. It knows neither TVM nor a database nor a web framework, so any
process may import it cheaply.
"""

from typing import Final

SCHEMA_VERSION: Final = 1
"""Version of the JSON form of every type here. Raised when an old reader could misread a new document."""
