"""A systolic array as a target of ceras_ir: begin to read in `target.py`."""
