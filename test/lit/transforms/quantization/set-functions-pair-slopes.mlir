// RUN: ceras-opt %s --set-functions="narrow=true rules=pair-slopes" | filecheck %s

// A layer gets the negated weights as further channels, its consumer the negated slopes.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[W:.*]] = graph.constant dense<{{\[\[}}1.000000e+00, 5.000000e-01], [2.500000e-01, 1.000000e+00], [-1.000000e+00, -5.000000e-01], [-2.500000e-01, -1.000000e+00]]>
// CHECK:         %[[B:.*]] = graph.constant dense<[1.000000e+00, 2.000000e+00, -1.000000e+00, -2.000000e+00]>
// CHECK:         %[[A:.*]] = graph.matmul %{{.*}}, %[[W]] bias %[[B]]
// CHECK-SAME:    activation = #graph.function<relu>
// CHECK-SAME:    -> tensor<1x4xf32>
// CHECK:         %[[V:.*]] = graph.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, -5.000000e-01, -5.000000e-01]]>
// CHECK:         graph.matmul %[[A]], %[[V]] : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32>
// These remain: a result that an addition uses, an operand with another consumer, a function in float.
// CHECK:         graph.unary <leaky_relu, 0.5, 0.25>
// CHECK:         graph.unary <leaky_relu, 0.5, 0.25>
// CHECK:         graph.unary <leaky_relu, 0.5, 0.25>
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x2xf32>, tensor<1x1xf32>) {
  %w = graph.constant dense<[[1.0, 0.5], [0.25, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %v = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %a = graph.matmul %x, %w bias %b : tensor<2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %p = graph.unary <leaky_relu, 0.5, 0.25> %a {input_exponents = array<i64: 0, 0>, result_exponents = array<i64: 0, 0>} : tensor<1x2xf32>
  %y = graph.matmul %p, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

  %c = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.unary <leaky_relu, 0.5, 0.25> %c {input_exponents = array<i64: 0, 0>, result_exponents = array<i64: 0, 0>} : tensor<1x2xf32>
  %s = graph.binary add %q, %q : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>

  %d = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %r = graph.unary <leaky_relu, 0.5, 0.25> %d {input_exponents = array<i64: 0, 0>, result_exponents = array<i64: 0, 0>} : tensor<1x2xf32>
  %t = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

  %e = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %f = graph.unary <leaky_relu, 0.5, 0.25> %e {input_exponents = array<i64: 0, 0>, result_exponents = array<i64: 0, 0>, graph.precision = "f32"} : tensor<1x2xf32>
  %u = graph.matmul %f, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %y, %s, %t, %d, %u : tensor<1x1xf32>, tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x2xf32>, tensor<1x1xf32>
}

