// RUN: ceras-opt %s --set-activation-bits="activation_bits=4,3:x,8:second" --print-debuginfo | filecheck %s
// RUN: ceras-opt %s --set-activation-bits="activation_bits=5:pool,2:third,6:third" --print-debuginfo | filecheck %s --check-prefix=NAMED
// RUN: ceras-opt %s --set-activation-bits | filecheck %s --check-prefix=NONE
// RUN: not ceras-opt %s --set-activation-bits="activation_bits=4:secund" 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not ceras-opt %s --set-activation-bits="activation_bits=9" 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not ceras-opt %s --set-activation-bits="activation_bits=1:second" 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not ceras-opt %s --set-activation-bits="activation_bits=4:table" 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not ceras-opt %s --set-activation-bits="activation_bits=4:argument" 2>&1 | filecheck %s --check-prefix=OTHER

// UNKNOWN: error: activation_bits: no layer is named 'secund'; did you mean 'second'?
// RANGE: error: expected 2 to 8 bits, as BITS or BITS:LAYER, got '{{9|1:second}}'
// OTHER: error: activation_bits: the result of '{{table|argument}}' remains in 8 bits or in float, because of the operation or a consumer
// NONE-NOT: graph.precision

// A graph input can be named.
// CHECK: func.func @main(%x: tensor<1x4x4x2xf32> {graph.name = "x", graph.precision = "i3"}
!v = tensor<1x4x4x2xf32>
func.func @main(%x: !v {graph.name = "x"}) -> tensor<1x1x1x2xf32> {
  %w = graph.constant dense<0.5> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %0 = graph.conv2d %x, %w : (!v, tensor<2x1x1x2xf32>) -> !v loc("first")
  // CHECK: graph.conv2d %{{.*}} {graph.precision = "i4"} {{.*}} loc("first")
  // A result that moves has the bits of the operand, which can be named by the movement.
  // NAMED: graph.conv2d %{{.*}} {graph.precision = "i5"} {{.*}} loc("first")
  %1 = graph.pool2d max %0 {kernel = array<i64: 1, 1>} : (!v) -> !v loc("pool")
  // CHECK: graph.pool2d max {{.*}}graph.precision = "i4"{{.*}} loc("pool")
  // NAMED: graph.pool2d max {{.*}}graph.precision = "i5"{{.*}} loc("pool")
  %2 = graph.conv2d %1, %w : (!v, tensor<2x1x1x2xf32>) -> !v loc("second")
  // A later entry replaces an earlier one.
  // CHECK: graph.conv2d %{{[^{]*}} loc("second")
  %3 = graph.binary add %2, %1 : (!v, !v) -> !v loc("sum")
  // CHECK: graph.binary add %{{.*}} {graph.precision = "i4"} {{.*}} loc("sum")
  // Operands and results of tables have 8 bits.
  %4 = graph.conv2d %3, %w : (!v, tensor<2x1x1x2xf32>) -> !v loc("argument")
  // CHECK: graph.conv2d %{{[^{]*}} loc("argument")
  %5 = graph.unary <sigmoid> %4 : !v loc("table")
  // CHECK: graph.unary <sigmoid> %{{[^{]*}} loc("table")
  %6 = graph.conv2d %5, %w : (!v, tensor<2x1x1x2xf32>) -> !v loc("third")
  // CHECK: graph.conv2d %{{.*}} {graph.precision = "i4"} {{.*}} loc("third")
  // NAMED: graph.conv2d %{{.*}} {graph.precision = "i6"} {{.*}} loc("third")
  %7 = graph.pool2d average %6 {kernel = array<i64: 4, 4>} : (!v) -> tensor<1x1x1x2xf32> loc("mean")
  // The operand and the result of the last layer, and later values, remain in 8 bits.
  // CHECK: graph.pool2d average %{{[^{]*}}{kernel = array<i64: 4, 4>} {{.*}} loc("mean")
  %8 = graph.conv2d %7, %w : (tensor<1x1x1x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x1x1x2xf32> loc("last")
  // CHECK: graph.conv2d %{{[^{]*}} loc("last")
  %9 = graph.binary add %8, %8 : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x1x2xf32> loc("after")
  // CHECK: graph.binary add %{{[^{]*}} loc("after")
  func.return %9 : tensor<1x1x1x2xf32>
}
