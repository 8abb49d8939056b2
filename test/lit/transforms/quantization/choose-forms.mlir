// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.random.default_rng(0).uniform(-1, 1, (12, 8)).astype('f'))"
// RUN: ceras-opt %s --calibrate="calibration=%t.npz silu=table16" --choose-forms=calibration=%t.npz 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t.err
// RUN: ceras-opt %s --calibrate="calibration=%t.npz silu=piecewise" --choose-forms=calibration=%t.npz 2>/dev/null | filecheck %s --check-prefix=SHIFTS
// RUN: ceras-opt %s --calibrate="calibration=%t.npz silu=table16" --choose-forms="calibration=%t.npz when-chosen" | filecheck %s --check-prefix=SAME
// RUN: not ceras-opt %s --calibrate=silu=table16 --choose-forms 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not ceras-opt %s --set-silu=silu=table16 --choose-forms=calibration=%t.npz 2>&1 | filecheck %s --check-prefix=FIRST

// NOTE: choose-forms: note: table for 2, table16 for 1 of 3 functions: before weights are rounded {{[0-9.]+}} dB ({{[0-9.]+}} dB as offered, {{[0-9.]+}} dB with table for all, on 8 samples)
// SAME-COUNT-3: graph.form = "table16"
// DATA: error: choose-forms needs data to measure on: add calibration=FILE.npz
// FIRST: node 'steep' (graph.matmul): error: no graph.exponent: run --calibrate first
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<2.0> : tensor<8x8xf32> : tensor<8x8xf32>
  %b = graph.constant dense<16.0> : tensor<8x8xf32> : tensor<8x8xf32>
  %n = graph.constant dense<0.25> : tensor<8x8xf32> : tensor<8x8xf32>
  %u = graph.constant dense<1.0> : tensor<2x8xf32> : tensor<2x8xf32>
  %q = graph.constant dense<0.01> : tensor<2x8xf32> : tensor<2x8xf32>
  %v = graph.constant dense<0.001> : tensor<2x8xf32> : tensor<2x8xf32>
  // Steps of 2^-4, where the result has steps of 2^-7.
  // CHECK: graph.matmul %x, %w {{{.*}}graph.precision = "i16"}
  // CHECK: graph.unary <sigmoid> %{{.*}} {graph.form = "table16"
  %0 = graph.matmul %x, %w : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("steep")
  %1 = graph.unary <sigmoid> %0 : tensor<1x8xf32>
  // A thousandth of these gets to the output. The straight pieces are closer than steps of 1/2.
  // CHECK: graph.matmul %x, %b {graph.range = {{.*}}, graph.exponent = -1 : i64} :
  // CHECK: graph.unary <swish> %{{.*}} {graph.form = "table", graph.range
  // SHIFTS: graph.unary <swish> %{{.*}} {graph.form = "shifts", graph.range
  %2 = graph.matmul %x, %b : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("wide")
  %3 = graph.unary <swish> %2 : tensor<1x8xf32>
  // But not than steps of 2^-7.
  // CHECK: graph.unary <swish> %{{.*}} {graph.form = "table", graph.range
  // SHIFTS: graph.unary <swish> %{{.*}} {graph.form = "table", graph.range
  %4 = graph.matmul %x, %n : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32> loc("narrow")
  %5 = graph.unary <swish> %4 : tensor<1x8xf32>
  %6 = graph.matmul %1, %u {graph.precision = "i16"} : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<1x2xf32>
  %7 = graph.matmul %3, %v {graph.precision = "i16"} : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<1x2xf32>
  %8 = graph.matmul %5, %q {graph.precision = "i16"} : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<1x2xf32>
  %9 = graph.binary add %6, %7 {graph.precision = "i16"} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %10 = graph.binary add %9, %8 {graph.precision = "i16"} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %10 : tensor<1x2xf32>
}
