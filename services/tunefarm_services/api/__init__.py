"""The service as HTTP: FastAPI routes over the store, with everything that takes TVM done in a confined child.

``app.create_app`` puts it together. This process never loads TVM, XGBoost or NumPy; ``intake_child`` is the only file
here that does, and it runs in children of a zygote only.
"""
