"""The long-lived parts of tunefarm: the store, the tuner and the API.

This package owns tables, migrations, blobs, leases, and the supervisor of a job. It never loads TVM: code that needs a
compiler runs in a confined child.
"""
