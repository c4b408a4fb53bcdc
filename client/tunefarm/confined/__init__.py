"""Work that needs TVM or runs user code, in a confined child that sends one answer and exits.

``call`` runs in the command; the other modules contain the entry points of the children.
"""
