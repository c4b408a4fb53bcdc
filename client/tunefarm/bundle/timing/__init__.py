"""The time of one run of a bundle's shared library, taken in fresh processes that have the device to themselves."""
