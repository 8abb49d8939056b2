// RUN: ceras-opt %s --set-weight-bits="weight_bits=4,3:sm*,8:second" --print-debuginfo | filecheck %s
// RUN: ceras-opt %s --set-weight-bits="weight_bits=4" --print-debuginfo | filecheck %s --check-prefix=SMALL
// RUN: ceras-opt %s --set-weight-bits | filecheck %s --check-prefix=NONE
// RUN: not ceras-opt %s --set-weight-bits="weight_bits=4:secund" 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not ceras-opt %s --set-weight-bits="weight_bits=9" 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not ceras-opt %s --set-weight-bits="weight_bits=second" 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not ceras-opt %s --set-weight-bits="weight_bits=4:total" 2>&1 | filecheck %s --check-prefix=OTHER

// UNKNOWN: error: weight_bits: no layer is named 'secund'; did you mean 'second'?
// RANGE: error: expected 2 to 8 bits, as BITS or BITS:LAYER, got '{{9|second}}'
// OTHER: error: weight_bits: 'total' has no constant weights that become integers
// NONE-NOT: graph.weight_bits

func.func @main(%x: tensor<1x20xf32>, %z: tensor<20x20xf32>) -> tensor<1x20xf32> {
  %t = graph.constant dense<0.5> : tensor<1x1xf32> : tensor<1x1xf32>
  %w = graph.constant dense<0.5> : tensor<20x20xf32> : tensor<20x20xf32>
  %0 = graph.matmul %x, %w : (tensor<1x20xf32>, tensor<20x20xf32>) -> tensor<1x20xf32> loc("first")
  // CHECK: graph.matmul %{{.*}} {graph.weight_bits = 4 : i64} {{.*}} loc("first")
  // SMALL: graph.matmul %{{.*}} {graph.weight_bits = 4 : i64} {{.*}} loc("first")
  %1 = graph.matmul %0, %w : (tensor<1x20xf32>, tensor<20x20xf32>) -> tensor<1x20xf32> loc("second")
  // A later entry replaces an earlier one.
  // CHECK: graph.matmul %{{[^{]*}} loc("second")
  // Weights that are computed have the width of the value.
  %2 = graph.matmul %1, %z : (tensor<1x20xf32>, tensor<20x20xf32>) -> tensor<1x20xf32> loc("total")
  // CHECK: graph.matmul %{{[^{]*}} loc("total")
  %3 = graph.reshape %2 : (tensor<1x20xf32>) -> tensor<20x1xf32>
  // Layers with 5% of the weights remain in 8 bits, unless they are named.
  %4 = graph.matmul %3, %t : (tensor<20x1xf32>, tensor<1x1xf32>) -> tensor<20x1xf32> loc("small")
  // CHECK: graph.matmul %{{.*}} {graph.weight_bits = 3 : i64} {{.*}} loc("small")
  // SMALL: graph.matmul %{{[^{]*}} loc("small")
  %5 = graph.matmul %4, %t {graph.precision = "f32"} : (tensor<20x1xf32>, tensor<1x1xf32>) -> tensor<20x1xf32> loc("smaller")
  // Layers in float have float weights.
  // CHECK: graph.matmul %{{.*}} {graph.precision = "f32"} {{.*}} loc("smaller")
  %6 = graph.reshape %5 : (tensor<20x1xf32>) -> tensor<1x20xf32>
  func.return %6 : tensor<1x20xf32>
}
