// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[1, 1], [0.5, 0.5]], 'f'))"
// RUN: ceras-opt %s --round-weights=calibration=%t.npz | filecheck %s
// RUN: ceras-opt %s --round-weights | filecheck %s --check-prefix=SAME

// Both inputs are always equal, so that only the sum of a row's weights matters, here in steps
// of a half: 1.2 becomes 1.0. 0.6 becomes 0.5, where both weights to nearest would make 1.0.
// The bias takes up what is missing at the mean input, .75: .2 and .1 times that.
// CHECK-LABEL: func.func @main(
// CHECK: dense<{{\[\[}}5.000000e-01, 5.000000e-01], [5.000000e-01, 0.000000e+00]]>
// CHECK: dense<[1.15{{[0-9e+]*}}, 1.075{{[0-9e+]*}}]>
// SAME: func.func @main(
// SAME-NOT: 5.000000e-01
func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64}) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[0.6, 0.6], [0.3, 0.3]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.matmul %x, %w bias %b : tensor<2xf32> {graph.weight_exponent = -1 : i64, graph.exponent = -6 : i64}
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
