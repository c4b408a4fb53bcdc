"""Records in TVM's own database format, and schedules for human eyes."""
