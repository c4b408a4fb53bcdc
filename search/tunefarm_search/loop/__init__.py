"""The search loop: propose, submit, collect, learn, stop."""
