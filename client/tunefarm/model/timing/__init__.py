"""The time of one run of a whole model, taken in fresh processes that have the device to themselves."""
