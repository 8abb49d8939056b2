// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.random.default_rng(0).random((30, 2), 'f'))"
// RUN: ceras-opt %s --calibrate=calibration=%t.npz --choose-precision="mixed=int16 budget=1 calibration=%t.npz" --print-debuginfo 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t.err
// RUN: ceras-opt %s --quantize="calibration=%t.npz recipe=plain mixed=float budget=0.5" 2>&1 | filecheck %s --check-prefix=FLOAT
// RUN: ceras-opt %s --quantize="calibration=%t.npz recipe=plain mixed=int16 target-sqnr=3" 2>&1 | filecheck %s --check-prefix=ENOUGH
// RUN: not ceras-opt %s --quantize=mixed=int16 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not ceras-opt %s --quantize=budget=2 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: not ceras-opt %s --quantize="mixed=int16 budget=0" 2>&1 | filecheck %s --check-prefix=BUDGET

// The small channel drowns in int8 beside the large one, and counts a hundredfold.
// NOTE: choose-precision: note: int16 for 1 of 3 layers, {{[0-9.]+}} dB -> {{[0-9.]+}} dB on 8 samples: uneven (100% of the noise)
// CHECK: graph.matmul %x, %w {{{.*}}graph.precision = "i16"} {{.*}} loc("uneven")
// CHECK-NOT: graph.precision
// Weights are exact in int8.
// FLOAT: choose-precision: note: float for 0 of 2 layers, {{.*}}: none helps; noise comes from activations
// ENOUGH: choose-precision: note: int16 for 0 of 3 layers, {{.*}}: none is needed
// DATA: error: mixed needs data to measure on: add calibration=FILE.npz
// ALONE: error: budget and target-sqnr bound mixed=auto, int16 or float: add it
// BUDGET: error: option 'budget' of pass 'choose-precision' must be above 0
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 0.5], [0.015625, -0.015625]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %v = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("uneven")
  %1 = graph.matmul %0, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32> loc("head")
  func.return %1 : tensor<1x1xf32>
}
