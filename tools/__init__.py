"""
The commands' entry points; what they do is in `ceras_ir.driver`.

Modules and IR make many objects that live to the end, and Python's default is to look through them
for garbage after every 700 new ones. Commands are short: they look less often.
"""

import gc

gc.set_threshold(50_000, 20, 100)
