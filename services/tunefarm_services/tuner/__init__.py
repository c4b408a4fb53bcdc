"""The tuner: leases, commits and budgets of jobs. The search itself runs in a confined child."""
