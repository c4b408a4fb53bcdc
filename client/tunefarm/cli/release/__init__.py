"""``tunefarm release``: keys, roles and channels of a repository that devices trust."""
