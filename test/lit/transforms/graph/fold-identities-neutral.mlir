// RUN: ceras-opt %s --fold-identities="rules=neutral" --split-input-file | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-NOT:   graph.binary mul
// CHECK-NOT:   graph.binary div
// CHECK-NOT:   graph.binary sub
// CHECK:       func.return %x, %x, %x, %x
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %one = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %ones = graph.constant dense<1.0> : tensor<3xf32> : tensor<3xf32>
  %zero = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %a = graph.binary mul %x, %one : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  %b = graph.binary mul %ones, %x : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = graph.binary div %x, %ones : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %d = graph.binary sub %x, %zero : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  func.return %a, %b, %c, %d : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A sum with 0 is not x where x is -0, 1 / x is another number, a result can be larger, and a
// function may follow.
// CHECK-LABEL: func.func @main
// CHECK:       graph.binary add
// CHECK-NEXT:  graph.binary div
// CHECK-NEXT:  graph.binary mul
// CHECK-NEXT:  graph.binary mul
func.func @main(%x: tensor<1x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>) {
  %one = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %ones = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %zero = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %a = graph.binary add %x, %zero : (tensor<1x3xf32>, tensor<1xf32>) -> tensor<1x3xf32>
  %b = graph.binary div %one, %x : (tensor<1xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
  %c = graph.binary mul %x, %ones : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = graph.binary mul %x, %one {activation = #graph.function<relu>} : (tensor<1x3xf32>, tensor<1xf32>) -> tensor<1x3xf32>
  func.return %a, %b, %c, %d : tensor<1x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>
}

// -----

// The opposite of y subtracted is y added, which a layer may take in; not so of another multiple.
// CHECK-LABEL: func.func @main
// CHECK:       graph.binary add %x, %y {activation = #graph.function<relu>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:  graph.binary mul
// CHECK-NEXT:  graph.binary sub
// CHECK-NEXT:  func.return
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %m = graph.constant dense<-1.0> : tensor<f32> : tensor<f32>
  %h = graph.constant dense<-0.5> : tensor<f32> : tensor<f32>
  %n = graph.binary mul %y, %m : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %a = graph.binary sub %x, %n {activation = #graph.function<relu>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %k = graph.binary mul %y, %h : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = graph.binary sub %x, %k : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a, %b : tensor<2xf32>, tensor<2xf32>
}
