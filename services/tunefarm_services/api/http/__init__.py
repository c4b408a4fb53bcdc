"""Requests and answers on the wire, before and after any route."""
