"""
Import operators on values with extents that data decide.

Such a value has the maximum shape in the IR, and `Emitter.table` has its extents. Elements outside
of the extents are arbitrary; each importer here masks them if the result depends on them.
"""
