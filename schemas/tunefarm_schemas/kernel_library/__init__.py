"""Rules for the shared library of a compiled kernel, checked on its bytes before it is loaded.

The check reads what the dynamic loader reads: program headers and the dynamic section, never a manifest. It needs
neither TVM nor pydantic, so that a process that only loads one library can afford it.
"""
