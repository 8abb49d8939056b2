// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[1, -0.5], [1, -0.25]], 'f'))"
// RUN: ceras-opt %s --equalize-channels=calibration=%t.npz | filecheck %s

// A constant for each channel takes the factor of the sum: the second channel is raised by 2^6, on
// both sides of the addition. One for all channels leaves the sum behind it as it is.
// CHECK-LABEL: func.func @main({{.*}} attributes {graph.equalized} {
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, 5.000000e-01], [6.400000e-01, -3.200000e-01]]>
// CHECK-DAG: dense<[2.500000e-01, 1.280000e-01]>
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, 1.562500e+00], [1.000000e-02, 1.562500e-02]]>
// CHECK-DAG: dense<2.500000e-01>
// CHECK: func.return
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 0.5], [0.01, -0.005]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[0.25, 0.002]> : tensor<2xf32> : tensor<2xf32>
  %v = graph.constant dense<[[1.0, 100.0], [0.01, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %c = graph.constant dense<0.25> : tensor<1xf32> : tensor<1xf32>
  %u = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.binary add %0, %b : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %2 = graph.matmul %1, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %3 = graph.binary add %2, %c : (tensor<1x2xf32>, tensor<1xf32>) -> tensor<1x2xf32>
  %4 = graph.matmul %3, %u : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %4 : tensor<1x1xf32>
}
