"""The schedules that a workload can have, as sketches with decisions."""
