// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[1, -0.5], [1, -0.25]], 'f'))"
// RUN: python3 -c "import numpy; numpy.savez('%t.apart.npz', input0=numpy.array([[1, -0.5], [0.5, 1]], 'f'))"
// RUN: ceras-opt %s --equalize-channels=calibration=%t.npz | filecheck %s
// RUN: ceras-opt %s --equalize-channels="calibration=%t.npz rows=true" | filecheck %s
// RUN: ceras-opt %s --equalize-channels="calibration=%t.apart.npz rows=true" | filecheck %s --check-prefix=APART
// RUN: python3 -c "import numpy; numpy.savez('%t.chance.npz', input0=numpy.array([[1, -0.5], [0.6, -1.3]], 'f'))"
// RUN: ceras-opt %s --equalize-channels="calibration=%t.chance.npz rows=true" | filecheck %s --check-prefix=CHANCE
// RUN: python3 -c "import numpy; numpy.savez('%t.units.npz', input0=numpy.array([[1000, -0.5], [1000, -0.5]], 'f'))"
// RUN: ceras-opt %s --equalize-channels="calibration=%t.units.npz rows=true" | filecheck %s --check-prefix=UNITS
// RUN: ceras-opt %s --equalize-channels="calibration=%t.units.npz rows=true inputs=false" | filecheck %s --check-prefix=ONE
// RUN: ceras-opt %s --equalize-channels | filecheck %s --check-prefix=SAME

// Between the products the second channel reaches 0.0145, the first 1.125: 2^7 would make them
// need the same scale, and a bit stays free: 2^6. The second row and its bias are multiplied by it,
// the column of the next product is divided by it. The third channel is never seen, and stays.
// Inputs and outputs stay. Where the second channel is 0.0145 in one half of the samples and 0.002
// in the other, four bits more stay free. Three do where it is 0.0145 in both, but the first channel
// is 1 in one half and 0.2 in the other.
// A channel of the input that is 2000 times smaller could be multiplied by 2^10; one bit stays free.
// UNITS: [[F:%.*]] = graph.constant dense<[1.000000e+00, 5.120000e+02]>
// UNITS: graph.binary mul %{{.*}}, [[F]] {graph.precision = "f32"
// ONE-NOT: graph.binary
// CHECK-LABEL: func.func @main({{.*}} attributes {graph.equalized} {
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, 5.000000e-01], [6.400000e-01, -3.200000e-01], [-1.000000e+00, 0.000000e+00]]>
// CHECK-DAG: dense<[2.500000e-01, 1.280000e-01, 0.000000e+00]>
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, 1.562500e+00, 5.000000e-01]]>
// CHECK: func.return
// APART-DAG: dense<[2.500000e-01, 8.000000e-03, 0.000000e+00]>
// CHANCE-DAG: dense<[2.500000e-01, 1.600000e-02, 0.000000e+00]>
// SAME: func.func @main(
// SAME-NOT: graph.equalized
// SAME-NOT: 6.400000e-01
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 0.5], [0.01, -0.005], [-1.0, 0.0]]> : tensor<3x2xf32> : tensor<3x2xf32>
  %b = graph.constant dense<[0.25, 0.002, 0.0]> : tensor<3xf32> : tensor<3xf32>
  %v = graph.constant dense<[[1.0, 100.0, 0.5]]> : tensor<1x3xf32> : tensor<1x3xf32>
  %0 = graph.matmul %x, %w bias %b : tensor<3xf32> {activation = #graph.function<relu>}
      : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<1x3xf32>
  %1 = graph.matmul %0, %v : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}
