"""The HTTP service: FastAPI routes over the store. All work that needs TVM runs in a confined child.

``app.create_app`` assembles it. This process never loads TVM, XGBoost or NumPy; only ``intake_child`` does, which runs
in children of a fork server.
"""
