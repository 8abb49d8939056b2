"""Add a systolic array as a target of ceras_ir; start with `target.py`."""
