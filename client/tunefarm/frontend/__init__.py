"""Frontends: convert models of other frameworks to Relax. They run only in confined children."""
