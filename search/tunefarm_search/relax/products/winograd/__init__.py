"""Convolutions of 3 x 3 by Winograd's algorithm, with fewer multiplications."""
