"""What a compiled kernel's shared library may contain, checked on its bytes before anything loads it.

The check reads what the dynamic loader reads: program headers and the dynamic section, never a manifest. It needs
neither TVM nor pydantic, so a process that only loads one library can afford it.
"""
