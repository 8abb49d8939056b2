// RUN: ceras-opt %s --fuse-gelu --split-input-file | filecheck %s

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
