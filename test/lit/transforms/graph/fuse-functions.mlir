// RUN: ceras-opt %s --fuse-functions="rules=elementwise" --split-input-file | filecheck %s

// Sigmoid by an exponential and by a tangent; x times it, divided at once.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <sigmoid> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <sigmoid> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <swish> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %o = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %m = graph.constant dense<-1.0> : tensor<f32> : tensor<f32>
  %h = graph.constant dense<0.5> : tensor<f32> : tensor<f32>
  %n = graph.binary mul %x, %m : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = graph.unary <exp> %n : tensor<4xf32>
  %d = graph.binary add %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.binary div %o, %d : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %g = graph.binary mul %x, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = graph.unary <tanh> %g : tensor<4xf32>
  %u = graph.binary mul %t, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %l = graph.binary add %u, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %k = graph.binary div %x, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %l, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Mish, in which a logarithm overflows. Softplus and the quotient overflow in their results.
// CHECK-LABEL: func.func @main(
// CHECK:         %{{.*}} = graph.unary <mish> %{{.*}} : tensor<4xf32>
// CHECK-NOT:     <softplus>
// CHECK-NOT:     <mish>
// CHECK:         func.return
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %o = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %w = graph.constant dense<2.0> : tensor<f32> : tensor<f32>
  %e = graph.unary <exp> %x : tensor<4xf32>
  %a = graph.binary add %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p = graph.unary <log> %a : tensor<4xf32>
  %t = graph.unary <tanh> %p : tensor<4xf32>
  %r = graph.binary mul %x, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %f = graph.unary <exp> %y : tensor<4xf32>
  %b = graph.binary add %f, %w : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %n = graph.binary mul %f, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.binary add %n, %w : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = graph.binary div %n, %q : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = graph.binary mul %s, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = graph.binary add %f, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %k = graph.unary <log> %c : tensor<4xf32>
  func.return %r, %l, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A selection that uses an exponential below zero only.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <elu, 1.0> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %o = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %p = graph.compare less %z, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xi1>
  %e = graph.unary <exp> %x : tensor<4xf32>
  %m = graph.binary sub %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.select %p, %x, %m : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

// The same before a quotient, which has another sign at -0.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     <elu
// CHECK:         graph.select
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %o = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %p = graph.compare less %z, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xi1>
  %e = graph.unary <exp> %x : tensor<4xf32>
  %m = graph.binary sub %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.select %p, %x, %m : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.binary div %o, %r : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %q : tensor<4xf32>
}

// -----

// GELU in two sums, and as x times a sigmoid; HardSwish by a clip to 1.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <gelu> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <gelu_tanh> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <hard_swish> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %h = graph.constant dense<0.5> : tensor<f32> : tensor<f32>
  %s = graph.constant dense<0.70710678> : tensor<f32> : tensor<f32>
  %y = graph.binary mul %x, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %a = graph.binary mul %x, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = graph.unary <erf> %a : tensor<4xf32>
  %p = graph.binary mul %y, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = graph.binary add %y, %p : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %k1 = graph.constant dense<0.07135481627> : tensor<f32> : tensor<f32>
  %k0 = graph.constant dense<1.5957691216> : tensor<f32> : tensor<f32>
  %b = graph.binary mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b1 = graph.binary mul %b, %k1 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b2 = graph.binary add %b1, %k0 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b3 = graph.binary mul %b2, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.unary <sigmoid> %b3 : tensor<4xf32>
  %l = graph.binary mul %q, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i = graph.constant dense<0.16666667> : tensor<f32> : tensor<f32>
  %c1 = graph.binary mul %x, %i : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c2 = graph.binary add %c1, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c3 = graph.unary <clip, 0.0, 1.0> %c2 : tensor<4xf32>
  %k = graph.binary mul %x, %c3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %l, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What is off, a number for each channel, and a clip that a layer takes in.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.constant
// CHECK-NEXT:    %{{.*}} = graph.constant
// CHECK-NEXT:    %{{.*}} = graph.constant
// CHECK-NEXT:    %{{.*}} = graph.unary <sigmoid>
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.unary <sigmoid>
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.binary mul
// CHECK-NEXT:    %{{.*}} = graph.binary add
// CHECK-NEXT:    %{{.*}} = graph.unary <clip, 0.0, 1.0>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = graph.constant dense<1.702> : tensor<f32> : tensor<f32>
  %v = graph.constant dense<[1.0, 1.0, 1.0, 1.5]> : tensor<4xf32> : tensor<4xf32>
  %h = graph.constant dense<0.5> : tensor<f32> : tensor<f32>
  %s = graph.unary <sigmoid> %x : tensor<4xf32>
  %m = graph.binary mul %x, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = graph.binary mul %m, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = graph.binary mul %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = graph.unary <sigmoid> %n : tensor<4xf32>
  %l = graph.binary mul %x, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c1 = graph.binary mul %x, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c2 = graph.binary add %c1, %h : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %k = graph.unary <clip, 0.0, 1.0> %c2 : tensor<4xf32>
  func.return %r, %l, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Bounds and addends that keep a logarithm finite, a threshold, and a factor below 1.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.binary max
// CHECK:         graph.binary add
// CHECK:         graph.compare less
// CHECK-NEXT:    graph.select
// CHECK:         graph.binary add
// CHECK:         graph.binary mul
// CHECK:         func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %e = graph.constant dense<1.0e-20> : tensor<f32> : tensor<f32>
  %f = graph.constant dense<0.99999988> : tensor<f32> : tensor<f32>
  %0 = graph.binary max %x, %e : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.unary <relu> %x : tensor<4xf32>
  %2 = graph.binary add %1, %e : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.compare less %x, %e : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %4 = graph.select %3, %z, %x : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.unary <softplus> %x : tensor<4xf32>
  %6 = graph.binary add %5, %e : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = graph.unary <tanh> %x : tensor<4xf32>
  %8 = graph.binary mul %7, %f : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %0, %2, %4, %6, %8 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Adding and subtracting 1.5 * 2^23 rounds to an integer.
// CHECK-LABEL: func.func @main(
// CHECK:         graph.binary add
// CHECK:         graph.binary sub
// CHECK:         graph.unary <relu>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = graph.constant dense<12582912.0> : tensor<f32> : tensor<f32>
  %a = graph.binary add %x, %m : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.binary sub %a, %m : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.unary <relu> %b : tensor<4xf32>
  func.return %r : tensor<4xf32>
}
