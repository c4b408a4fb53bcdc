"""Models of torch: exported or traced programs, and ``.pt2`` archives."""
