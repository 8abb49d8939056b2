// RUN: ceras-opt %s --fuse-functions="rules=elementwise" --split-input-file | filecheck %s

// Maxima with 0, and a selection by the sign of x.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <relu> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <relu> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <leaky_relu, 0.25> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %a = graph.constant dense<0.25> : tensor<f32> : tensor<f32>
  %r = graph.binary max %x, %z : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p = graph.compare less_or_equal %x, %z : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %q = graph.select %p, %z, %x : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %m = graph.binary mul %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %l = graph.select %p, %m, %x : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %q, %l : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A maximum with a multiple below 1, a minimum with one above.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <leaky_relu, 0.25> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <leaky_relu, 2.0> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.constant dense<0.25> : tensor<f32> : tensor<f32>
  %b = graph.constant dense<2.0> : tensor<f32> : tensor<f32>
  %m = graph.binary mul %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.binary max %x, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %k = graph.binary mul %b, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %l = graph.binary min %k, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %l : tensor<4xf32>, tensor<4xf32>
}

// -----

// Both halves, one of them by the opposite of x.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <leaky_relu, 0.25> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <leaky_relu, 0.25> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = graph.constant dense<0.25> : tensor<f32> : tensor<f32>
  %m1 = graph.constant dense<-1.0> : tensor<f32> : tensor<f32>
  %p = graph.unary <relu> %x : tensor<4xf32>
  %o = graph.binary mul %x, %m1 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = graph.unary <relu> %o : tensor<4xf32>
  %s = graph.binary mul %q, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.binary sub %p, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.unary <clip, -inf, 0.0> %x : tensor<4xf32>
  %u = graph.binary mul %t, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %l = graph.binary add %p, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %l : tensor<4xf32>, tensor<4xf32>
}

// -----

// A selection of 0 for NaN, and formulas that are NaN at an infinity, are no ReLU.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     <relu>
// CHECK:         %{{.*}} = graph.select
// CHECK-NOT:     <relu>
// CHECK:         func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %h = graph.constant dense<0.5> : tensor<f32> : tensor<f32>
  %p = graph.compare less %z, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xi1>
  %n = graph.select %p, %x, %z : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %m = graph.cast %p : (tensor<4xi1>) -> tensor<4xf32>
  %r = graph.binary mul %x, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.unary <abs> %x : tensor<4xf32>
  %s = graph.binary add %x, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = graph.binary mul %s, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %k = graph.unary <leaky_relu, 0.0> %x : tensor<4xf32>
  func.return %n, %r, %l, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Above zero something else than x, a sign of something else, and two slopes that are one.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.constant
// CHECK-NEXT:    %{{.*}} = graph.constant
// CHECK-NEXT:    %{{.*}} = graph.unary <relu>
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.unary <tanh>
// CHECK-NEXT:    %{{.*}} = graph.compare less
// CHECK-NEXT:    %{{.*}} = graph.select
// CHECK-NEXT:    %{{.*}} = graph.binary max
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %a = graph.constant dense<2.0> : tensor<f32> : tensor<f32>
  %p = graph.unary <relu> %x : tensor<4xf32>
  %r = graph.binary mul %p, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = graph.unary <tanh> %y : tensor<4xf32>
  %q = graph.compare less %z, %t : (tensor<f32>, tensor<4xf32>) -> tensor<4xi1>
  %l = graph.select %q, %x, %z : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %k = graph.binary max %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %l, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A limit that is large, but that float32 numbers exceed.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    graph.unary <clip, 0.0, 1.0e+38>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.unary <clip, 0.0, 1.0e+38> %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
