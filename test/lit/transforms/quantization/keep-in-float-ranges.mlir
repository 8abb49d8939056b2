// RUN: ceras-opt %s --keep-in-float="rules=ranges" --split-input-file | filecheck %s

// A logarithm of the filters of a spectrum: the products of the spectrum, powers and filters stay
// in float, the product after them becomes an integer product.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.matmul %x, %w {graph.precision = "f32", graph.float_reason = "computes a spectrum
// CHECK-NEXT:  graph.binary mul %{{.*}} {graph.precision = "f32", graph.float_reason = "leads to a logarithm
// CHECK-NEXT:  graph.reshape {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.reduce sum {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.reshape {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.matmul {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.binary add {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <log> {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.matmul %{{.*}}, %k :
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
  %w = graph.constant dense<1.0> : tensor<4x3xf32> : tensor<4x3xf32>
  %f = graph.constant dense<0.5> : tensor<2x2xf32> : tensor<2x2xf32>
  %e = graph.constant dense<1.0e-6> : tensor<1xf32> : tensor<1xf32>
  %k = graph.constant dense<0.5> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %1 = graph.binary mul %0, %0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.reshape %1 : (tensor<2x4xf32>) -> tensor<2x2x2xf32>
  %3 = graph.reduce sum %2 {axes = array<i64: 2>} : (tensor<2x2x2xf32>) -> tensor<2x2x1xf32>
  %r = graph.reshape %3 : (tensor<2x2x1xf32>) -> tensor<2x2xf32>
  %4 = graph.matmul %r, %f : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = graph.binary add %4, %e : (tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  %6 = graph.unary <log> %5 : tensor<2x2xf32>
  %7 = graph.matmul %6, %k : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x1xf32>
  func.return %7 : tensor<2x1xf32>
}

// -----

// Without squares a product ends the way; what leads to no logarithm is as it was.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.unary <relu> %x :
// CHECK-NEXT:  graph.matmul %{{.*}}, %w :
// CHECK-NEXT:  graph.softmax %{{.*}} {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <log> %{{.*}} {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <tanh> %{{[0-9]+}} :
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %w = graph.constant dense<1.0> : tensor<4x3xf32> : tensor<4x3xf32>
  %0 = graph.unary <relu> %x : tensor<2x3xf32>
  %1 = graph.matmul %0, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %2 = graph.softmax %1 {axis = 1 : i64} : tensor<2x4xf32>
  %3 = graph.unary <log> %2 : tensor<2x4xf32>
  %4 = graph.unary <tanh> %1 : tensor<2x4xf32>
  func.return %3, %4 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The magnitudes of a spectrum: a root of squares is kept, a root of what is no square is not.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.matmul %x, %w {graph.precision = "f32", graph.float_reason = "computes a spectrum
// CHECK-NEXT:  graph.binary mul %{{.*}} {graph.precision = "f32", graph.float_reason = "leads to a logarithm
// CHECK-NEXT:  graph.reduce sum {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <sqrt> {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <relu> %{{.*}} :
// CHECK-NEXT:  graph.unary <sqrt> %{{[0-9]+}} :
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x4xf32>) {
  %w = graph.constant dense<1.0> : tensor<4x3xf32> : tensor<4x3xf32>
  %0 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %1 = graph.binary mul %0, %0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.reduce sum %1 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %3 = graph.unary <sqrt> %2 : tensor<2x1xf32>
  %4 = graph.unary <relu> %0 : tensor<2x4xf32>
  %5 = graph.unary <sqrt> %4 : tensor<2x4xf32>
  func.return %3, %5 : tensor<2x1xf32>, tensor<2x4xf32>
}

// -----

// The divisor of a quotient is kept, and what leads to it from a product; the dividend is not, and a
// quotient by a constant is a product.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.unary <tanh> %x :
// CHECK-NEXT:  graph.matmul %{{.*}}, %w :
// CHECK-NEXT:  graph.unary <relu> %{{.*}} {graph.precision = "f32", graph.float_reason = "leads to a logarithm, a divisor
// CHECK-NEXT:  graph.binary div %{{.*}} {graph.precision = "f32"
// CHECK-NEXT:  graph.binary div %{{[0-9]+}}, %{{[a-z0-9]+}} :
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = graph.constant dense<1.0> : tensor<4x4xf32> : tensor<4x4xf32>
  %c = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.unary <tanh> %x : tensor<2x4xf32>
  %1 = graph.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = graph.unary <relu> %1 : tensor<2x4xf32>
  %3 = graph.binary div %0, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.binary div %3, %c : (tensor<2x4xf32>, tensor<1xf32>) -> tensor<2x4xf32>
  func.return %4 : tensor<2x4xf32>
}

// -----

// Sums of logarithms, as of a product of gates, up to the exponential; another exponential is as it
// was.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.unary <log> %x {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.binary add {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <exp> %{{.*}} {graph.precision = "f32"
// CHECK-NEXT:  graph.unary <exp> %x :
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = graph.unary <log> %x : tensor<2x4xf32>
  %1 = graph.binary add %0, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.unary <exp> %1 : tensor<2x4xf32>
  %3 = graph.unary <exp> %x : tensor<2x4xf32>
  func.return %2, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// An arc cosine as it is imported: the arc tangent of the root of a quotient. That of a sum of
// products is a table of 8 bits.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.matmul %x, %{{.*}} :
// CHECK:       graph.binary sub {{.*}}graph.precision = "f32"
// CHECK:       graph.binary add {{.*}}graph.precision = "f32"
// CHECK:       graph.binary div {{.*}}graph.precision = "f32"
// CHECK:       graph.unary <sqrt> {{.*}}graph.precision = "f32"
// CHECK:       graph.unary <atan> {{.*}}graph.precision = "f32"
// CHECK:       graph.matmul %{{.*}}, %{{.*}} :
// CHECK-NEXT:  graph.unary <atan> %{{.*}} :
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<0.5> : tensor<2x2xf32> : tensor<2x2xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.binary sub %one, %0 : (tensor<1xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %2 = graph.binary add %one, %0 : (tensor<1xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %3 = graph.binary div %1, %2 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %4 = graph.unary <sqrt> %3 : tensor<1x2xf32>
  %5 = graph.unary <atan> %4 : tensor<1x2xf32>
  %6 = graph.matmul %5, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %7 = graph.unary <atan> %6 : tensor<1x2xf32>
  func.return %7 : tensor<1x2xf32>
}

// -----

// A lower bound that keeps a logarithm finite becomes an operation in float. A ReLU remains in the
// layer, and so does a bound before another function.
// CHECK-LABEL: func.func @main(
// CHECK:       %[[M:.*]] = graph.matmul %x, %{{.*}} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
// CHECK-NEXT:  %[[G:.*]] = graph.unary <clip, 1.0{{.*}}e-07, inf> %[[M]] {graph.precision = "f32"
// CHECK-NEXT:  graph.unary <log> %[[G]] {graph.precision = "f32"
// CHECK-NEXT:  graph.matmul {{.*}}activation = #graph.function<relu>
// CHECK-NEXT:  graph.unary <log>
// CHECK-NEXT:  graph.matmul {{.*}}activation = #graph.function<clip, 0.5, inf>
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = graph.constant dense<0.5> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w {activation = #graph.function<clip, 1.0e-07, inf>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.unary <log> %0 : tensor<1x2xf32>
  %2 = graph.matmul %x, %w {activation = #graph.function<relu>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %3 = graph.unary <log> %2 : tensor<1x2xf32>
  %4 = graph.matmul %x, %w {activation = #graph.function<clip, 0.5, inf>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %5 = graph.unary <tanh> %4 : tensor<1x2xf32>
  func.return %1, %3, %5 : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}
