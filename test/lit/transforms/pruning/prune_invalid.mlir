// RUN: not ceras-opt %s --prune="threshold=-1" 2>&1 | filecheck %s --check-prefix=THRESHOLD
// RUN: not ceras-opt %s --prune="sparsity=1" 2>&1 | filecheck %s --check-prefix=SPARSITY
// RUN: not ceras-opt %s --prune="method=luck" 2>&1 | filecheck %s --check-prefix=METHOD
// RUN: not ceras-opt %s --prune="method=filter" 2>&1 | filecheck %s --check-prefix=FILTER
// RUN: not ceras-opt %s --prune="method=global" 2>&1 | filecheck %s --check-prefix=GLOBAL
// RUN: not ceras-opt %s --prune="method=nm pattern=4:4" 2>&1 | filecheck %s --check-prefix=PATTERN
// RUN: not ceras-opt %s --prune="method=nm sparsity=0.5" 2>&1 | filecheck %s --check-prefix=SHARE
// RUN: not ceras-opt %s --prune="method=block block=4 sparsity=0.5" 2>&1 | filecheck %s --check-prefix=BLOCK
// RUN: not ceras-opt %s --prune="ratios=fc" 2>&1 | filecheck %s --check-prefix=RATIOS
// RUN: not ceras-opt %s --prune="ratios=fc:1.5" 2>&1 | filecheck %s --check-prefix=RATIO
// RUN: not ceras-opt %s --prune="target-bytes=9 target-loss=3" 2>&1 | filecheck %s --check-prefix=TARGETS
// RUN: not ceras-opt %s --prune="target-bytes=0" 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not ceras-opt %s --prune="target-bytes=9 sparsity=0.5" 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not ceras-opt %s --prune="bits=4" 2>&1 | filecheck %s --check-prefix=BITS

// FILTER: method filter needs sparsity, ratios or a target
// GLOBAL: method global needs sparsity, the share of all layers together
// PATTERN: pattern must be N:M with N below M, got '4:4'
// SHARE: method nm has the share of the pattern; omit sparsity and ratios
// BLOCK: block must be FILTERSxPRODUCTS of positive numbers, got '4'
// RATIOS: ratios must be NAME:SHARE, got 'fc'
// RATIO: sparsity must be in [0, 1), got 1.5
// TARGETS: give only one of target-bytes, target-products and target-loss
// ZERO: a target must be positive, got 0
// BOTH: a target determines the shares; omit sparsity and ratios
// BITS: bits must be 8, 16 or 32, got 4
// THRESHOLD: threshold must be at least 0 and finite, got -1.0
// SPARSITY: sparsity must be in [0, 1), got 1.0
// METHOD: option 'method' of pass 'prune' must be
func.func @main() {
  func.return
}
