// RUN: python3 -c "import numpy; r = numpy.random.default_rng(0).uniform(-1, 1, (32, 4)); numpy.savez('%t.npz', input0=r.astype('f'))"
// RUN: ceras-opt %s --calibrate="calibration=%t.npz" --check-outputs="calibration=%t.npz" 2>&1 >/dev/null | filecheck %s
// RUN: ceras-opt %s --calibrate="calibration=%t.npz" --check-outputs 2>&1 >/dev/null | filecheck %s --allow-empty --check-prefix=NODATA

// Two outputs of one layer each: steps of 8 bits are larger than the range of the first. Without data, nothing is checked.
// CHECK: check-outputs: warning: output 'pressure' has 2 different integers in 32 samples, and 32 different values in float
// CHECK-SAME: (--int16 'offset')
// CHECK-NOT: check-outputs
// NODATA-NOT: check-outputs
func.func @main(%x: tensor<1x4xf32>)
    -> (tensor<1x1xf32> {graph.name = "pressure"}, tensor<1x1xf32> {graph.name = "difference"}) {
  %w = graph.constant dense<[[0.25, -0.5, 0.125, 0.25]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %b = graph.constant dense<1012.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.matmul %x, %w bias %b : tensor<1xf32> : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32> loc("offset")
  %1 = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32> loc("plain")
  func.return %0, %1 : tensor<1x1xf32>, tensor<1x1xf32>
}
