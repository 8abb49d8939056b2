// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[1, 0.5], [0, 1.5]], 'f'))"
// RUN: ceras-opt %s --correct-bias=calibration=%t.npz | filecheck %s
// RUN: ceras-opt %s --correct-bias | filecheck %s --check-prefix=SAME

// In steps of 1/4 0.875 becomes 1.0, half to even, and no other weight changes; 8 bits in steps of
// 1/128 hold 127/128 of the inputs 1 and 1.5. So the sums are on average 1 * 127/256 - 0.5 * 191/256
// instead of 0.875 * 0.5 - 0.5 * 1, which is 0.185546875 too much, and 0.0673828125 too little.
// CHECK-LABEL: func.func @main(
// CHECK: %[[B:.*]] = graph.constant dense<[-0.185546875, 0.0673828125]>
// CHECK: graph.matmul {{.*}} bias %[[B]]
// SAME-NOT: bias
func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64}) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[0.875, -0.5], [1.0, 0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w {graph.weight_exponent = -2 : i64, graph.exponent = -6 : i64}
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
