// RUN: ceras-opt %s --prune="method=filter sparsity=0.5" | filecheck %s --check-prefix=FILTER
// RUN: ceras-opt %s --prune="method=global sparsity=0.5" | filecheck %s --check-prefix=GLOBAL
// RUN: ceras-opt %s --prune="method=nm pattern=1:4" | filecheck %s --check-prefix=NM
// RUN: ceras-opt %s --prune="method=block block=2x1 sparsity=0.5" | filecheck %s --check-prefix=TALL
// RUN: ceras-opt %s --prune="method=block block=1x2 sparsity=0.5" | filecheck %s --check-prefix=WIDE
// RUN: ceras-opt %s --prune="ratios=second:0.75,fir*:0.25" | filecheck %s --check-prefix=RATIOS
// RUN: ceras-opt %s --prune="ratios=second:0.75 sparsity=0.5" | filecheck %s --check-prefix=REST

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  // Each filter keeps two; of all eight together, none of the first filter stays.
  // FILTER: graph.matmul {{.*}} {sparse.mask = #sparse.mask<4 of [2, 4], "0xAC">}
  // GLOBAL: graph.matmul {{.*}} {sparse.mask = #sparse.mask<4 of [2, 4], "0xF0">}
  // NM: graph.matmul {{.*}} {sparse.mask = #sparse.mask<2 of [2, 4], "0x88">}
  // TALL: graph.matmul {{.*}} {sparse.mask = #sparse.mask<4 of [2, 4], "0xAA">}
  // WIDE: graph.matmul {{.*}} {sparse.mask = #sparse.mask<4 of [2, 4], "0xF0">}
  // RATIOS: graph.matmul {{.*}} {sparse.mask = #sparse.mask<6 of [2, 4], "0xFC">}
  // REST: graph.matmul {{.*}} {sparse.mask = #sparse.mask<4 of [2, 4], "0xF0">}
  %w0 = graph.constant dense<[[0.1, -0.2, 0.3, -0.4], [1.0, 8.0, -2.0, 9.0]]> : tensor<2x4xf32> : tensor<2x4xf32>
  %0 = graph.matmul %x, %w0 : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32> loc("first")
  // FILTER: graph.matmul {{.*}} {sparse.mask = #sparse.mask<2 of [2, 2], "0x06">}
  // GLOBAL: graph.matmul {{.*}} {sparse.mask = #sparse.mask<2 of [2, 2], "0x06">}
  // NM: graph.matmul {{.*}} {sparse.mask = #sparse.mask<2 of [2, 2], "0x06">}
  // RATIOS: graph.matmul {{.*}} {sparse.mask = #sparse.mask<1 of [2, 2], "0x02">}
  // REST: graph.matmul {{.*}} {sparse.mask = #sparse.mask<1 of [2, 2], "0x02">}
  %w1 = graph.constant dense<[[0.5, 4.0], [3.0, 0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %1 = graph.matmul %0, %w1 : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("second")
  func.return %1 : tensor<1x2xf32>
}
