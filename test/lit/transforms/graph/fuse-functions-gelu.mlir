// RUN: ceras-opt %s --fuse-functions="rules=elementwise" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse-functions="rules=elementwise" --split-input-file --print-debuginfo | filecheck %s --check-prefix=NAMES

// As PyTorch spells it, and with the half elsewhere.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.unary <gelu> %x : tensor<2xf32>
// CHECK-NEXT: graph.unary <gelu> %x : tensor<2xf32>
// CHECK-NEXT: func.return
func.func @main(%x: tensor<2xf32> {graph.name = "x"}) -> (tensor<2xf32> {graph.name = "y"}, tensor<2xf32> {graph.name = "z"}) {
  %r = graph.constant dense<1.41421354> : tensor<1xf32> : tensor<1xf32>
  %q = graph.constant dense<0.707106769> : tensor<1xf32> : tensor<1xf32>
  %i = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %h = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary div %x, %r : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %1 = graph.unary <erf> %0 : tensor<2xf32>
  %2 = graph.binary add %1, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %3 = graph.binary mul %x, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = graph.binary mul %3, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %5 = graph.binary mul %x, %q : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %6 = graph.unary <erf> %5 : tensor<2xf32>
  %7 = graph.binary add %6, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %8 = graph.binary mul %x, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %9 = graph.binary mul %8, %7 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %4, %9 : tensor<2xf32>, tensor<2xf32>
}

// -----

// Another factor, or another reader of what is between.
// CHECK-LABEL: func.func @main
// CHECK-NOT: <gelu>
func.func @main(%x: tensor<2xf32> {graph.name = "x"}) -> (tensor<2xf32> {graph.name = "y"}, tensor<2xf32> {graph.name = "z"}) {
  %r = graph.constant dense<1.41421354> : tensor<1xf32> : tensor<1xf32>
  %i = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %h = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary div %x, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %1 = graph.unary <erf> %0 : tensor<2xf32>
  %2 = graph.binary add %1, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %3 = graph.binary mul %x, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = graph.binary mul %3, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %5 = graph.binary div %x, %r : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %6 = graph.unary <erf> %5 : tensor<2xf32>
  %7 = graph.binary add %6, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %8 = graph.binary mul %x, %7 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %4, %8 : tensor<2xf32>, tensor<2xf32>
}

// -----

// By a hyperbolic tangent: with a power, as a product of products, and from the inside out.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: graph.unary <gelu_tanh> %x : tensor<2xf32>
// CHECK-NEXT: graph.unary <gelu_tanh> %x : tensor<2xf32>
// CHECK-NEXT: func.return
func.func @main(%x: tensor<2xf32> {graph.name = "x"}) -> (tensor<2xf32> {graph.name = "y"}, tensor<2xf32> {graph.name = "z"}) {
  %three = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %k = graph.constant dense<0.044715> : tensor<1xf32> : tensor<1xf32>
  %b = graph.constant dense<0.797884583> : tensor<1xf32> : tensor<1xf32>
  %i = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %h = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary pow %x, %three : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %1 = graph.binary mul %0, %k : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %2 = graph.binary add %x, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = graph.binary mul %2, %b : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %4 = graph.unary <tanh> %3 : tensor<2xf32>
  %5 = graph.binary add %4, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %6 = graph.binary mul %x, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %7 = graph.binary mul %6, %5 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %8 = graph.binary mul %x, %b : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %9 = graph.binary mul %x, %k : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %10 = graph.binary mul %9, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %11 = graph.binary add %10, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %12 = graph.binary mul %8, %11 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %13 = graph.unary <tanh> %12 : tensor<2xf32>
  %14 = graph.binary add %13, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %15 = graph.binary mul %x, %14 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %16 = graph.binary mul %15, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  func.return %7, %16 : tensor<2xf32>, tensor<2xf32>
}

// -----

// Another polynomial, a square beside it, and a tanh of something else than what is multiplied.
// CHECK-LABEL: func.func @main
// CHECK-NOT: <gelu_tanh>
func.func @main(%x: tensor<2xf32> {graph.name = "x"}, %o: tensor<2xf32> {graph.name = "o"}) -> (tensor<2xf32> {graph.name = "y"}, tensor<2xf32> {graph.name = "z"}, tensor<2xf32> {graph.name = "u"}) {
  %three = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %k = graph.constant dense<0.044715> : tensor<1xf32> : tensor<1xf32>
  %k2 = graph.constant dense<0.0448> : tensor<1xf32> : tensor<1xf32>
  %b = graph.constant dense<0.797884583> : tensor<1xf32> : tensor<1xf32>
  %i = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %h = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary pow %x, %three : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %1 = graph.binary mul %0, %k2 : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %2 = graph.binary add %x, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = graph.binary mul %2, %b : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %4 = graph.unary <tanh> %3 : tensor<2xf32>
  %5 = graph.binary add %4, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %6 = graph.binary mul %x, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %7 = graph.binary mul %6, %5 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %p = graph.binary mul %0, %k : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %q = graph.binary add %x, %p : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %s = graph.binary mul %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %8 = graph.binary add %q, %s : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = graph.binary mul %8, %b : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %10 = graph.unary <tanh> %9 : tensor<2xf32>
  %11 = graph.binary add %10, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %12 = graph.binary mul %6, %11 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %13 = graph.binary mul %q, %b : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %14 = graph.unary <tanh> %13 : tensor<2xf32>
  %15 = graph.binary add %14, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %16 = graph.binary mul %o, %15 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %17 = graph.binary mul %16, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  func.return %7, %12, %17 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// The function answers to the names of all nodes that it stands for, but not to that of one which
// others read.
// NAMES-LABEL: func.func @main(%y
// NAMES:       graph.binary div %y, {{.*}} loc("divided")
// NAMES-NEXT:  graph.unary <gelu> %y : tensor<2xf32> loc(fused["halved", "product", "sum", "error"])
func.func @main(%y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %s = graph.constant dense<1.41421354> : tensor<1xf32> : tensor<1xf32>
  %i = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %h = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary div %y, %s : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32> loc("divided")
  %1 = graph.unary <erf> %0 : tensor<2xf32> loc("error")
  %2 = graph.binary add %1, %i : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32> loc("sum")
  %3 = graph.binary mul %y, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("product")
  %4 = graph.binary mul %3, %h : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32> loc("halved")
  func.return %4, %0 : tensor<2xf32>, tensor<2xf32>
}
