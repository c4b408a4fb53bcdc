"""Loads and runs models. Imports the standard library only, so that programs that run models stay small."""
