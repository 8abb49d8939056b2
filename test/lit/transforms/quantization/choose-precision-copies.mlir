// RUN: python3 -c "import numpy; r = numpy.random.default_rng(0).uniform(-1, 1, (32, 2)) * [1, 0.01]; numpy.savez('%t.npz', input0=numpy.cumsum(r, 1).astype('f'))"
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=0.8" 2>/dev/null | filecheck %s
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=2" 2>/dev/null | filecheck %s --check-prefix=MORE
// RUN: ceras-opt %s --quantize="calibration=%t.npz observer=minmax recipe=choose-precision budget=0.8" 2>/dev/null | filecheck %s --check-prefix=STORED

// The difference of two channels needs 16 bits where a sum reads them. The product beside it adds
// little: it reads a copy in 8 bits, which costs less. With time enough it reads 16 bits too, and
// there is no copy.
// CHECK-LABEL: func.func @main(
// MORE-LABEL: func.func @main(
// MORE-NOT: graph.unary
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[0.015625, 0.0], [0.0, 0.015625]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %u = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %v = graph.constant dense<[[10.0, -10.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  // CHECK: %0 = graph.matmul {{.*}}graph.precision = "i16"
  // CHECK-NEXT: %1 = graph.unary <clip, -inf, inf> %0 {{{.*}}graph.exponent = -6 : i64} {{.*}}loc("stream")
  // CHECK-NEXT: graph.matmul %1,
  // CHECK-NEXT: graph.binary add %0,
  // MORE: graph.matmul {{.*}}graph.precision = "i16"
  // STORED: [[STREAM:%.+]] = graph.matmul {{.*}} -> tensor<1x2x!quant.uniform<i16:
  // STORED-NEXT: [[COPY:%.+]] = graph.requantize [[STREAM]] {{.*}} -> tensor<1x2x!quant.uniform<i8:
  // STORED: graph.matmul [[COPY]],
  %0 = graph.matmul %x, %u : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("stream")
  %1 = graph.matmul %0, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("inner")
  %2 = graph.binary add %0, %1 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32> loc("sum")
  %3 = graph.matmul %2, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32> loc("head")
  func.return %3 : tensor<1x1xf32>
}
