// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[1, 0.5], [0, 1.5]], 'f'))"
// RUN: ceras-opt %s --correct-bias=calibration=%t.npz | filecheck %s
// RUN: ceras-opt %s --correct-bias | filecheck %s --check-prefix=SAME

// In steps of 1/4 0.875 becomes 1.0, half to even, and nothing else changes. Its input is 0.5 on
// average, so that 0.125 * 0.5 too much must go from the first bias.
// CHECK-LABEL: func.func @main(
// CHECK: %[[B:.*]] = graph.constant dense<[-6.250000e-02, 0.000000e+00]>
// CHECK: graph.matmul {{.*}} bias %[[B]]
// SAME-NOT: bias
func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64}) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[0.875, -0.5], [1.0, 0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w {graph.weight_exponent = -2 : i64, graph.exponent = -6 : i64}
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
