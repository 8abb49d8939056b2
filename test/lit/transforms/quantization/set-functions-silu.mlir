// RUN: ceras-opt %s --set-functions="rules=silu silu=table16" | filecheck %s --check-prefix=TABLE16
// RUN: ceras-opt %s --set-functions="rules=silu silu=piecewise" | filecheck %s --check-prefix=PIECEWISE
// RUN: ceras-opt %s --set-functions="rules=silu silu=float" | filecheck %s --check-prefix=FLOAT
// RUN: ceras-opt %s --set-functions="rules=silu silu=table" | filecheck %s --check-prefix=TABLE
// RUN: ceras-opt %s --set-functions="rules=silu silu=hardswish" 2>%t.err | filecheck %s --check-prefix=HARD
// RUN: filecheck %s --check-prefix=NOTE < %t.err
// RUN: not ceras-opt %s --set-functions="rules=silu silu=cubic" 2>&1 | filecheck %s --check-prefix=WRONG

// NOTE: set-functions: warning: 2 SiLU became HardSwish, another function
// WRONG: option 'silu' of pass 'set-functions' must be auto|table|table16|hardswish|float|piecewise, got 'cubic'
// TABLE-NOT: graph.form
// HARD-NOT: <swish>
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> tensor<1x2xf32> {
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // TABLE16: graph.unary <swish> %{{.*}} {graph.form = "table16"}
  // PIECEWISE: graph.unary <swish> %{{.*}} {graph.form = "shifts"}
  // FLOAT: graph.unary <swish> %{{.*}} {graph.form = "float"}
  // HARD: graph.unary <hard_swish>
  %1 = graph.unary <swish> %0 : tensor<1x2xf32>
  %2 = graph.matmul %1, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // Other functions become tables in any case.
  // TABLE16: graph.unary <sigmoid> %{{.*}} {graph.form = "table16"}
  // PIECEWISE: graph.unary <sigmoid> %{{[0-9]+}} : tensor
  // FLOAT: graph.unary <sigmoid> %{{[0-9]+}} : tensor
  %3 = graph.unary <sigmoid> %2 : tensor<1x2xf32>
  // No sum comes before this one.
  // TABLE16: graph.unary <swish> %{{[0-9]+}} : tensor
  // PIECEWISE: graph.unary <swish> %{{[0-9]+}} : tensor
  // FLOAT: graph.unary <swish> %{{[0-9]+}} {{{.*}}graph.precision = "f32"
  %4 = graph.unary <swish> %3 : tensor<1x2xf32>
  func.return %4 : tensor<1x2xf32>
}
