"""A preloaded process that forks confined, limited, killable children.

This package owns the isolation of code that may misbehave: the fork server, the confinement a child puts on before it
runs anything (user, Landlock, seccomp, resource limits), and the handles by which its parent talks to it, holds it
still, and ends it. It knows nothing about compilers or tuning.
"""
