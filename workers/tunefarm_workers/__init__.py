"""Everything that happens on a measuring host.

This package owns building, timing and checking candidates, lanes that hold a device alone while its clock runs, the
identity and health of devices, and the local farm that offers one machine's lanes to a tuner.
"""
