"""A preloaded process that forks confined, limited, killable children.

This package isolates code that may misbehave. It contains the fork server, the confinement that a child applies to
itself before it runs anything (user, Landlock, seccomp, resource limits), and the handles by which the parent exchanges
messages with a child, stops it and kills it. It knows nothing about compilers or tuning.
"""
