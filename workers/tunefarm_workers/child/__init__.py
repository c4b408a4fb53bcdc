"""What runs in confined children: one candidate, or several compared."""
