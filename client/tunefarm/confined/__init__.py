"""Work that needs TVM or a user's code, done in a confined child that answers once and ends.

``call`` runs in the command; the entries of the children stand beside what they do.
"""
