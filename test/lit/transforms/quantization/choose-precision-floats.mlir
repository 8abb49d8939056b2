// RUN: python3 -c "import numpy; r = numpy.random.default_rng(0).integers(-24, 25, (32, 4, 1, 2)) / 16; numpy.savez('%t.npz', input0=r.astype('f'))"
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=1" 2>/dev/null | filecheck %s
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=0.01" 2>&1 | filecheck %s --check-prefix=LESS
// RUN: ceras-opt %s --quantize="calibration=%t.npz observer=minmax recipe=choose-precision budget=1" 2>/dev/null | filecheck %s --check-prefix=STORED

// A recurrent layer is float: what it reads is stored in 16 bits, which makes no product longer. Of
// what it makes products read 16 bits where that is worth it, here their difference.
// LESS-NOT: warning
// CHECK-LABEL: func.func @main(
// LESS-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<4x1x2xf32>) -> tensor<4x2xf32> {
  %w = graph.constant dense<[[0.5, 0.25], [0.5, 0.28125]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %d = graph.constant dense<[[1.0, -1.0], [-1.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %h = graph.constant dense<0.0> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.reshape %x : (tensor<4x1x2xf32>) -> tensor<4x2xf32>
  // CHECK: graph.matmul {{.*}}graph.precision = "i16"} {{.*}}loc("gates")
  // LESS: graph.matmul {{.*}}graph.exponent = -6 : i64} {{.*}}loc("gates")
  // STORED: graph.matmul {{.*}} -> tensor<4x2x!quant.uniform<i16:
  %1 = graph.matmul %0, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("gates")
  %2 = graph.reshape %1 : (tensor<4x2xf32>) -> tensor<4x1x2xf32>
  // CHECK: graph.recurrence {{.*}}graph.precision = "i16", functions
  // STORED: graph.recurrence {{.*}} -> tensor<4x1x2xf32>
  // STORED-NEXT: graph.quantize {{.*}}!quant.uniform<i16:
  %3 = graph.recurrence rnn %2, %w, %h {functions = [#graph.function<tanh>]} : (tensor<4x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<4x1x2xf32> loc("layer")
  %4 = graph.reshape %3 : (tensor<4x1x2xf32>) -> tensor<4x2xf32>
  %5 = graph.matmul %4, %d : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("head")
  func.return %5 : tensor<4x2xf32>
}
