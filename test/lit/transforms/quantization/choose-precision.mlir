// RUN: python3 -c "import numpy; r = numpy.random.default_rng(0).uniform(-1, 1, (32, 2)) * [1, 0.01]; numpy.savez('%t.npz', input0=numpy.cumsum(r, 1).astype('f'))"
// RUN: ceras-opt %s --split-input-file --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=2" 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t.err
// RUN: ceras-opt %s --split-input-file --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=2 narrow-border" 2>/dev/null | filecheck %s --check-prefix=INPUTS
// RUN: ceras-opt %s --split-input-file --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=0.9 narrow" 2>/dev/null | filecheck %s --check-prefix=NARROW
// RUN: ceras-opt %s --split-input-file --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=0.5 goal=24" 2>&1 | filecheck %s --check-prefix=LESS
// RUN: ceras-opt %s --split-input-file --calibrate="calibration=%t.npz observer=minmax" --choose-precision=budget=2 2>&1 | filecheck %s --check-prefix=SAME
// RUN: ceras-opt %s --split-input-file --quantize="calibration=%t.npz observer=minmax recipe=choose-precision budget=2" 2>/dev/null | filecheck %s --check-prefix=STORED
// RUN: not ceras-opt %s --split-input-file --quantize=budget=-1 2>&1 | filecheck %s --check-prefix=BUDGET

// BUDGET: error: option 'budget' of pass 'choose-precision' must not be negative
// SAME-NOT: i16
// SAME-NOT: table16

// The small channel drowns in int8 beside the large one, and counts a hundredfold. The product that
// reads it is of two numbers: 16 bits take a third of the time of this network, and most of it is
// to store them. An accelerator of 8 bits would leave the second product to a host. The result has
// 16 bits because only floats read it; such an accelerator would compute it twice, which costs more
// than its budget.
// NOTE: choose-precision: note: 16 bits for 3 values: noise of stored values, without the rounding of weights, measured {{-?[0-9.]+}} dB -> {{[0-9.]+}} dB (no goal; all values with noise have 16 bits), for {{[0-9.]+}}% of the modelled time: uneven ({{100|99}}% of the noise), {{.*}}head ({{0|1}}% of the noise)
// CHECK-LABEL: func.func @main(
// LESS-LABEL: func.func @main(
// LESS-SAME: graph.exponent = -6 : i64})
// STORED-LABEL: func.func @main(
// NARROW-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 0.5], [0.015625, 0.015625]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %v = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  // CHECK: graph.matmul %x, %w {{{.*}}graph.exponent = -13 : i64, graph.precision = "i16"}
  // LESS: graph.matmul %x, %w {{{.*}}graph.precision = "i16"}
  // NARROW: graph.matmul %x, %w {{{.*}}graph.exponent = -6 : i64}
  // STORED: graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i16:
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("uneven")
  // CHECK-NEXT: graph.matmul %{{.*}}, %v {{{.*}}graph.exponent = -11 : i64, graph.precision = "i16"}
  // INPUTS: graph.matmul %{{.*}}, %v {{{.*}}graph.exponent = -4 : i64}
  // NARROW-NEXT: graph.matmul %{{.*}}, %v {{{.*}}graph.exponent = -4 : i64}
  // STORED: graph.matmul {{.*}} -> tensor<1x1x!quant.uniform<i16:
  %1 = graph.matmul %0, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32> loc("head")
  func.return %1 : tensor<1x1xf32>
}

// -----

// A difference of inputs is small beside them; only they can hold it.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: graph.precision = "i16"
// INPUTS: func.func @main(
// INPUTS-NOT: i16
// INPUTS: func.return
// LESS-LABEL: func.func @main(
// LESS-SAME: graph.exponent = -6 : i64})
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[1.0, -1.0], [-1.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// -----

// The end reads what is small of it: the sum that a function reads becomes finer, by a table of 1024.
// CHECK-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[3.0, 0.0], [0.05, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %v = graph.constant dense<[[0.0, 1.0], [0.0, -1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("wide")
  // CHECK: graph.unary <tanh> %{{.*}} {{{.*}}graph.form = "table16"
  // STORED: graph.lookup {{.*}}dense{{.*}}tensor<1024x
  %1 = graph.unary <tanh> %0 : tensor<1x2xf32> loc("flat")
  %2 = graph.matmul %1, %v : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("end")
  func.return %2 : tensor<1x2xf32>
}
