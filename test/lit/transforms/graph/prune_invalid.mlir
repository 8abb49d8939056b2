// RUN: not ceras-opt %s --prune="threshold=-1" 2>&1 | filecheck %s --check-prefix=THRESHOLD
// RUN: not ceras-opt %s --prune="sparsity=1" 2>&1 | filecheck %s --check-prefix=SPARSITY
// RUN: not ceras-opt %s --prune="method=luck" 2>&1 | filecheck %s --check-prefix=METHOD

// THRESHOLD: threshold must be at least 0 and finite, got -1.0
// SPARSITY: sparsity must be in [0, 1), got 1.0
// METHOD: option 'method' of pass 'prune' must be
func.func @main() {
  func.return
}
