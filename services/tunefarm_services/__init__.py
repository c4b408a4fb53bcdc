"""The long-lived parts of tunefarm: the store of records, and the tuner that leads jobs through it.

This package owns tables, migrations, blobs, leases, and the supervisor of a job. It never loads TVM: what needs a
compiler runs in a confined child.
"""
