// RUN: ceras-opt %s --set-precision="int16=sto*,image float=head" --print-debuginfo | filecheck %s
// RUN: ceras-opt %s --set-precision --print-debuginfo | filecheck %s --check-prefix=SAME
// RUN: not ceras-opt %s --set-precision=int16=stam 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not ceras-opt %s --set-precision=float=zzz 2>&1 | filecheck %s --check-prefix=NONE
// RUN: ceras-opt %s --set-precision="int16=stone float=st?ne" --print-debuginfo | filecheck %s --check-prefix=BOTH
// RUN: not ceras-opt %s --set-precision=int16=total 2>&1 | filecheck %s --check-prefix=STAYS

// UNKNOWN: error: int16: no layer is named 'stam'; did you mean 'stem'?
// NONE: error: float: no layer is named 'zzz'; layers are
// BOTH: graph.exponent = -8 : i64, graph.precision = "f32,i16", {{.*}}padding{{.*}} loc("stone")
// STAYS: error: layer 'total' has no quantized form: it remains float
// SAME-NOT: graph.precision

// Twice the range seen must fit 16 bits: 2 * 3 <= 2^15 * 2^-12, 2 * 60 <= 2^15 * 2^-8.
// CHECK: %x: tensor<1x4x4x1xf32> {graph.name = "image", {{.*}}graph.precision = "i16", graph.exponent = -12 : i64}
!map = tensor<1x4x4x1xf32>
func.func @main(%x: !map {graph.name = "image", graph.range = array<f32: -3.0, 2.0>, graph.exponent = -5 : i64})
    -> (tensor<1x16xf32>, tensor<1x1xf32>) {
  %w = graph.constant dense<2.0> : tensor<1x3x3x1xf32> : tensor<1x3x3x1xf32>
  %0 = graph.conv2d %x, %w
      {padding = array<i64: 1, 1, 1, 1>, graph.range = array<f32: -50.0, 60.0>, graph.exponent = -1 : i64}
      : (!map, tensor<1x3x3x1xf32>) -> !map loc("stem")
  // CHECK: graph.conv2d %x, %w {{{.*}}graph.exponent = -1 : i64, padding{{.*}} loc("stem")
  %1 = graph.conv2d %x, %w
      {padding = array<i64: 1, 1, 1, 1>, graph.range = array<f32: -50.0, 60.0>, graph.exponent = -1 : i64}
      : (!map, tensor<1x3x3x1xf32>) -> !map loc("stone")
  // CHECK: graph.conv2d %x, %w {{{.*}}graph.exponent = -8 : i64, graph.precision = "i16", padding{{.*}} loc("stone")
  // What is only moved keeps the width.
  %2 = graph.pool2d max %1 {kernel = array<i64: 1, 1>, graph.range = array<f32: -50.0, 60.0>, graph.exponent = -1 : i64}
      : (!map) -> !map loc("pool")
  // CHECK: graph.pool2d max {{.*}}graph.exponent = -8 : i64, graph.precision = "i16"
  %3 = graph.reshape %2 : (!map) -> tensor<1x16xf32>
  // CHECK: graph.reshape %{{.*}} {graph.precision = "i16"}
  %4 = graph.binary add %3, %3 {graph.range = array<f32: 0.0, 1.0>, graph.exponent = -7 : i64}
      : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1x16xf32> loc("head")
  // CHECK: graph.binary add {{.*}}graph.exponent = -7 : i64, graph.precision = "f32"
  %5 = graph.reduce sum %4 {axes = array<i64: 1>} : (tensor<1x16xf32>) -> tensor<1x1xf32> loc("total")
  func.return %4, %5 : tensor<1x16xf32>, tensor<1x1xf32>
}
