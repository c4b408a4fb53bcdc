"""What a device keeps on disk, whole at any instant."""
