// RUN: python3 -c "import numpy; r = numpy.random.default_rng(0).uniform(-1, 1, (32, 2)); numpy.savez('%t.npz', input0=r.astype('f'))"
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=2" 2>/dev/null | filecheck %s
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=2 narrow" 2>/dev/null | filecheck %s --check-prefix=NARROW

// On a host, a slope per channel of a sum in 16 bits takes less time in floats than a table, and the
// sum keeps 15 bits. The host of an accelerator uses a table of 1024 entries.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[3.0, 0.0], [0.05, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %v = graph.constant dense<[[0.0, 1.0], [0.0, -1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // CHECK: graph.unary <leaky_relu, 0.25, -0.5> %{{.*}} {{{.*}}graph.form = "float"
  // NARROW: graph.unary <leaky_relu, 0.25, -0.5> %{{.*}} {{{.*}}graph.form = "table16"
  %1 = graph.unary <leaky_relu, 0.25, -0.5> %0 {input_exponents = array<i64: 0, 0>, result_exponents = array<i64: 0, 0>} : tensor<1x2xf32>
  %2 = graph.matmul %1, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}
