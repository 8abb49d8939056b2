// RUN: ceras-opt %s --keep-in-float="rules=affines" | filecheck %s
// RUN: ceras-opt %s --keep-in-float="rules=affines besides=bands" | filecheck %s --check-prefix=BESIDES

// A batch normalization of two sub-bands of four rows. A product with equal constants, and one
// without a sum after it, remain integers.
!b = tensor<1x2x4x3xf32>
// BESIDES-NOT: graph.precision
func.func @main(%x: !b) -> !b {
  %k = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32> : tensor<2x1x1xf32>
  %t = graph.constant dense<[[[0.5]], [[0.25]]]> : tensor<2x1x1xf32> : tensor<2x1x1xf32>
  %h = graph.constant dense<0.5> : tensor<2x1x1xf32> : tensor<2x1x1xf32>
  // CHECK: graph.binary mul {{.*}}graph.precision = "f32", graph.float_reason = "scales and offsets
  // CHECK-NEXT: graph.binary add {{.*}}graph.precision = "f32"
  %0 = graph.binary mul %x, %k : (!b, tensor<2x1x1xf32>) -> !b loc("bands")
  %1 = graph.binary add %0, %t : (!b, tensor<2x1x1xf32>) -> !b
  // CHECK-NOT: graph.precision
  // CHECK: func.return
  %2 = graph.binary mul %1, %h : (!b, tensor<2x1x1xf32>) -> !b
  %3 = graph.binary add %2, %t : (!b, tensor<2x1x1xf32>) -> !b
  %4 = graph.binary mul %3, %k : (!b, tensor<2x1x1xf32>) -> !b
  func.return %4 : !b
}
