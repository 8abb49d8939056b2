// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[1, -0.5], [0.5, 1]], 'f'))"
// RUN: ceras-opt %s --equalize-channels=calibration=%t.npz | filecheck %s
// RUN: ceras-opt %s --equalize-channels | filecheck %s --check-prefix=SAME

// Between the products the second channel reaches 0.0145, the first 1.25: 2^7 would make them
// need the same scale, and a bit stays free: 2^6. The second row and its bias are multiplied by it, the column of the next product is
// divided by it. Inputs and outputs stay.
// CHECK-LABEL: func.func @main({{.*}} attributes {graph.equalized} {
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, 5.000000e-01], [6.400000e-01, -3.200000e-01]]>
// CHECK-DAG: dense<[2.500000e-01, 1.280000e-01]>
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, 1.562500e+00]]>
// CHECK: func.return
// SAME: func.func @main(
// SAME-NOT: graph.equalized
// SAME-NOT: 6.400000e-01
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 0.5], [0.01, -0.005]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[0.25, 0.002]> : tensor<2xf32> : tensor<2xf32>
  %v = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w bias %b : tensor<2xf32> {activation = #graph.function<relu>}
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %0, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}
