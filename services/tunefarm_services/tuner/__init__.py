"""The supervisor of jobs: leases, commits, budgets; search itself runs in a confined child."""
