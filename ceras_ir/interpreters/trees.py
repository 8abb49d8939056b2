"""What `graph.tree_ensemble` means, in numpy."""

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import graph


@register_impls
class TreeFunctions(InterpreterFunctions):
    @impl(graph.TreeEnsembleOp)
    def tree_ensemble(self, interpreter: Interpreter, op: graph.TreeEnsembleOp, args: PythonValues):
        x, features, thresholds, children, roots, columns, leaves = args
        count = len(x)
        feature: NDArray[np.int64] = features.astype(np.int64)
        threshold: NDArray[np.float32] = thresholds
        at: NDArray[np.int64] = np.tile(roots.astype(np.int64), (count, 1))
        while (inner := at >= 0).any():
            # All rows of all trees take one step; those at a leaf stay.
            row, tree = np.nonzero(inner)
            node = at[row, tree]
            f, bound = feature[node], threshold[node]
            value: NDArray[np.float32] = x[row, np.where(f < 0, -1 - f, f)]
            is_right = np.where(f < 0, value > bound, ~(value <= bound))
            at[row, tree] = np.where(is_right, children[node, 1], children[node, 0])
        result = np.zeros(graph.shape_of(op.result), np.float32)
        width = leaves.shape[1]
        for tree, first in enumerate(columns.tolist()):
            result[:, first : first + width] += leaves[-1 - at[:, tree]]
        return (result,)
