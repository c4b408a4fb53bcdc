"""The schedules of a workload, as sketches with decisions."""
