// RUN: ceras-opt %s --fuse-functions="rules=normalization" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fuse-functions="rules=normalization" --split-input-file --print-debuginfo | filecheck %s --check-prefix=NAMES

// Layer normalization with scale and offset, as ONNX's is imported.
// CHECK-LABEL: func.func @main
// CHECK:      [[S:%.+]] = graph.constant dense<[2.000000e+00, 3.000000e+00]>
// CHECK-NEXT: [[B:%.+]] = graph.constant dense<[4.000000e+00, 5.000000e+00]>
// CHECK-NEXT: graph.normalize %x scale [[S]] : tensor<2xf32> bias [[B]] : tensor<2xf32> {epsilon = 1.000000e-05 : f32, centred = true} : tensor<3x2xf32> -> tensor<3x2xf32>
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}) {
  %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<1xf32> : tensor<1xf32>
  %s = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %b = graph.constant dense<[4.0, 5.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.reduce sum %x {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %1 = graph.binary div %0, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %2 = graph.binary sub %x, %1 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %3 = graph.binary mul %2, %2 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.reduce sum %3 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %5 = graph.binary div %4, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %6 = graph.binary add %5, %e {activation = #graph.function<sqrt>} : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %7 = graph.binary div %2, %6 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %8 = graph.binary mul %7, %s : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %9 = graph.binary add %8, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %9 : tensor<3x2xf32>
}

// -----

// Root mean square with a power, and no scale: the factors are 1.
// CHECK-LABEL: func.func @main
// CHECK:      [[S:%.+]] = graph.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK-NEXT: graph.normalize %x scale [[S]] : tensor<2xf32> {epsilon = 1.000000e-05 : f32, centred = false}
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}) {
  %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<1xf32> : tensor<1xf32>
  %3 = graph.binary pow %x, %n : (tensor<3x2xf32>, tensor<1xf32>) -> tensor<3x2xf32>
  %4 = graph.reduce sum %3 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %5 = graph.binary div %4, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %6 = graph.binary add %e, %5 : (tensor<1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %7 = graph.unary <sqrt> %6 : tensor<3x1xf32>
  %8 = graph.binary div %x, %7 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return %8 : tensor<3x2xf32>
}

// -----

// Along another dimension it stays. Another count is a factor, of epsilon too.
// CHECK-LABEL: func.func @main
// CHECK:      graph.reduce sum %{{.*}} {axes = array<i64: 0>}
// CHECK-NOT:  graph.reduce
// CHECK:      [[S:%.+]] = graph.constant dense<1.224744{{.*}}> : tensor<2xf32>
// CHECK-NEXT: graph.normalize %x scale [[S]] : tensor<2xf32> {epsilon = 1.500000e-05 : f32, centred = false}
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}, tensor<3x2xf32> {graph.name = "z"}) {
  %n = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<1xf32> : tensor<1xf32>
  %3 = graph.binary mul %x, %x : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.reduce sum %3 {axes = array<i64: 0>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %5 = graph.binary div %4, %n : (tensor<1x2xf32>, tensor<1xf32>) -> tensor<1x2xf32>
  %6 = graph.binary add %5, %e {activation = #graph.function<sqrt>} : (tensor<1x2xf32>, tensor<1xf32>) -> tensor<1x2xf32>
  %7 = graph.binary div %x, %6 : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  %8 = graph.reduce sum %3 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %9 = graph.binary div %8, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %10 = graph.binary add %9, %e {activation = #graph.function<sqrt>} : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %11 = graph.binary div %x, %10 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return %7, %11 : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// As Keras spells it: one factor for the row and its mean, on either side of a sum.
// CHECK-LABEL: func.func @main
// CHECK:      [[S:%.+]] = graph.constant dense<[2.000000e+00, 3.000000e+00]>
// CHECK-NEXT: [[B:%.+]] = graph.constant dense<[4.000000e+00, 5.000000e+00]>
// CHECK-NEXT: graph.normalize %x scale [[S]] : tensor<2xf32> bias [[B]] : tensor<2xf32> {epsilon = 1.000000e-03 : f32, centred = true}
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<3x2xf32> {graph.name = "y"}) {
  %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %e = graph.constant dense<1.0e-3> : tensor<1xf32> : tensor<1xf32>
  %s = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %b = graph.constant dense<[4.0, 5.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.reduce sum %x {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %1 = graph.binary div %0, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %2 = graph.binary sub %x, %1 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %3 = graph.binary mul %2, %2 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.reduce sum %3 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %5 = graph.binary div %4, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %6 = graph.binary add %5, %e {activation = #graph.function<sqrt>} : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %7 = graph.binary div %one, %6 : (tensor<1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %8 = graph.binary mul %7, %s : (tensor<3x1xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %9 = graph.binary mul %x, %8 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %10 = graph.binary mul %1, %8 : (tensor<3x1xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %11 = graph.binary sub %b, %10 : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %12 = graph.binary add %9, %11 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %12 : tensor<3x2xf32>
}

// -----

// Two factors behind one quotient, which is computed once; what is divided by a sum of its own, or
// by the root of something else, is no normalization.
// CHECK-LABEL: func.func @main
// CHECK:      [[N:%.+]] = graph.normalize %x
// CHECK-NEXT: graph.binary mul [[N]],
// CHECK-NEXT: graph.binary mul [[N]],
// CHECK-NOT:  graph.normalize
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}, %z: tensor<3x1xf32> {graph.name = "z"}) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %e = graph.constant dense<1.0e-3> : tensor<1xf32> : tensor<1xf32>
  %s = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %t = graph.constant dense<[4.0, 5.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.binary mul %x, %x : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = graph.reduce sum %0 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %2 = graph.binary div %1, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %3 = graph.binary add %2, %e {activation = #graph.function<sqrt>} : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  %4 = graph.binary div %x, %3 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %5 = graph.binary mul %4, %s : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %6 = graph.binary mul %4, %t : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %7 = graph.binary div %x, %2 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %8 = graph.binary add %z, %2 {activation = #graph.function<sqrt>} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %9 = graph.binary div %x, %8 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return %5, %6, %7, %9 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Root mean square as exporters of language models write it: times a reciprocal root, with the rows
// squared in another shape.
// CHECK-LABEL: func.func @main
// CHECK:      [[X:%.+]] = graph.reshape %x
// CHECK:      graph.normalize [[X]] scale %{{.*}} : tensor<2xf32> {epsilon = 1.000000e-05 : f32, centred = false}
// CHECK-NEXT: func.return
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}) -> (tensor<1x3x2xf32> {graph.name = "y"}) {
  %e = graph.constant dense<1.0e-05> : tensor<f32> : tensor<f32>
  %n = graph.constant dense<2.0> : tensor<f32> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %g = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %r = graph.reshape %x : (tensor<3x2xf32>) -> tensor<1x3x2xf32>
  %0 = graph.binary mul %x, %x : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = graph.reshape %0 : (tensor<3x2xf32>) -> tensor<1x3x2xf32>
  %2 = graph.reduce sum %1 {axes = array<i64: 2>} : (tensor<1x3x2xf32>) -> tensor<1x3x1xf32>
  %3 = graph.binary div %2, %n : (tensor<1x3x1xf32>, tensor<f32>) -> tensor<1x3x1xf32>
  %4 = graph.binary add %3, %e {activation = #graph.function<sqrt>} : (tensor<1x3x1xf32>, tensor<f32>) -> tensor<1x3x1xf32>
  %5 = graph.binary div %one, %4 : (tensor<f32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %6 = graph.binary mul %r, %5 : (tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<1x3x2xf32>
  %7 = graph.binary mul %g, %6 : (tensor<2xf32>, tensor<1x3x2xf32>) -> tensor<1x3x2xf32>
  func.return %7 : tensor<1x3x2xf32>
}

// -----

// The operation answers to the names of all nodes that it stands for.
// NAMES-LABEL: func.func @main(%y
// NAMES:       graph.normalize %y {{.*}} loc(fused["scaled", "quotient", "root", "mean", "sum", "square"])
func.func @main(%y: tensor<3x2xf32> {graph.name = "y"}) -> (tensor<3x2xf32> {graph.name = "z"}) {
  %n = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
  %e = graph.constant dense<1.0e-5> : tensor<1xf32> : tensor<1xf32>
  %s = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %3 = graph.binary mul %y, %y : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32> loc("square")
  %4 = graph.reduce sum %3 {axes = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3x1xf32> loc("sum")
  %5 = graph.binary div %4, %n : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32> loc("mean")
  %6 = graph.binary add %5, %e {activation = #graph.function<sqrt>} : (tensor<3x1xf32>, tensor<1xf32>) -> tensor<3x1xf32> loc("root")
  %7 = graph.binary div %y, %6 : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32> loc("quotient")
  %8 = graph.binary mul %7, %s : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32> loc("scaled")
  func.return %8 : tensor<3x2xf32>
}
