// RUN: ceras-opt %s --fuse-functions --split-input-file | filecheck %s

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

// Mish by its parts, of which a logarithm overflows, and as a quotient.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <mish> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <mish> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %o = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %w = graph.constant dense<2.0> : tensor<f32> : tensor<f32>
  %e = graph.unary <exp> %x : tensor<4xf32>
  %a = graph.binary add %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %p = graph.unary <log> %a : tensor<4xf32>
  %t = graph.unary <tanh> %p : tensor<4xf32>
  %r = graph.binary mul %x, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.binary add %e, %w : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %n = graph.binary mul %e, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.binary add %n, %w : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = graph.binary div %n, %q : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = graph.binary mul %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %l : tensor<4xf32>, tensor<4xf32>
}

// -----

// A function that a selection takes for numbers below zero alone.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %{{.*}} = graph.unary <elu, 1.0> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = graph.unary <softplus> %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z = graph.constant dense<0.0> : tensor<f32> : tensor<f32>
  %o = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %p = graph.compare less %z, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xi1>
  %e = graph.unary <exp> %x : tensor<4xf32>
  %m = graph.binary sub %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = graph.select %p, %x, %m : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = graph.binary add %e, %o : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %l = graph.unary <log> %a : tensor<4xf32>
  func.return %r, %l : tensor<4xf32>, tensor<4xf32>
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
