// RUN: ceras-opt %s --keep-in-float="rules=masks" --split-input-file | filecheck %s

// From the mask to the softmax; the scores before it become integers.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.select {{.*}}graph.precision = "f32", graph.float_reason = "masks scores
// CHECK:       graph.reshape {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.matmul %x, %w :
// CHECK-NEXT:  graph.binary add {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.softmax {{.*}}graph.precision = "f32"
// CHECK:       graph.unary <relu> %{{[0-9a-z]*}} :
func.func @main(%x: tensor<2x3xf32>, %m: tensor<2xi1>) -> tensor<2x2xf32> {
  %w = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %i = graph.constant dense<0xFF800000> : tensor<1xf32> : tensor<1xf32>
  %z = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.select %m, %z, %i : (tensor<2xi1>, tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %1 = graph.reshape %0 : (tensor<2xf32>) -> tensor<1x2xf32>
  %2 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %3 = graph.binary add %2, %1 : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %4 = graph.softmax %3 {axis = 1 : i64} : tensor<2x2xf32>
  %5 = graph.unary <relu> %4 : tensor<2x2xf32>
  func.return %5 : tensor<2x2xf32>
}

// -----

// A mask that is written into some rows of the scores hides what it is beside, as in Longformer.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.matmul %x, %w :
// CHECK:       graph.put {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.reshape {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.softmax {{.*}}graph.precision = "f32"
func.func @main(%x: tensor<2x3xf32>, %i: tensor<1xi32>) -> tensor<1x4xf32> {
  %w = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %m = graph.constant dense<[[0.0, 0xFF800000]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %1 = graph.put %m into %0[%i] : (tensor<2x2xf32>, tensor<1xi32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %2 = graph.reshape %1 : (tensor<2x2xf32>) -> tensor<1x4xf32>
  %3 = graph.softmax %2 {axis = 1 : i64} : tensor<1x4xf32>
  func.return %3 : tensor<1x4xf32>
}

// -----

// A mask in an epilogue is added by an operation of its own.
// CHECK-LABEL: func.func @main(
// CHECK:       %[[P:.*]] = graph.matmul %{{[^ ]*}}, %{{[^ ]*}} :
// CHECK-NEXT:  graph.binary add %[[P]], {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.softmax {{.*}}graph.precision = "f32"
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %w = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %m = graph.constant dense<[[0.0, -1.0e4], [0.0, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w residual %m : tensor<2x2xf32> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %1 = graph.softmax %0 {axis = 1 : i64} : tensor<2x2xf32>
  func.return %1 : tensor<2x2xf32>
}

// -----

// A small bias is no mask, and what a product takes in is none of the softmax behind it.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:   graph.precision
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %w = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %b = graph.constant dense<63.0> : tensor<1x2xf32> : tensor<1x2xf32>
  %s = graph.constant dense<255.0> : tensor<1x3xf32> : tensor<1x3xf32>
  %0 = graph.binary mul %x, %s : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %1 = graph.matmul %0, %w : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %2 = graph.binary add %1, %b : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %3 = graph.softmax %2 {axis = 1 : i64} : tensor<2x2xf32>
  func.return %3 : tensor<2x2xf32>
}

// -----

// An input that is added to scores, and does nothing else, is a mask.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.reshape {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.matmul %x, %w :
// CHECK-NEXT:  graph.binary add {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.softmax {{.*}}graph.precision = "f32"
// CHECK-NEXT:  %[[P:.*]] = graph.matmul %x, %w :
// CHECK-NEXT:  graph.binary add %[[P]], {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.softmax {{.*}}graph.precision = "f32"
func.func @main(%x: tensor<2x3xf32>, %m: tensor<2xf32>, %n: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = graph.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %0 = graph.reshape %m : (tensor<2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %x, %w : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %2 = graph.binary add %1, %0 : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %3 = graph.softmax %2 {axis = 1 : i64} : tensor<2x2xf32>
  %4 = graph.matmul %x, %w residual %n : tensor<2x2xf32> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %5 = graph.softmax %4 {axis = 1 : i64} : tensor<2x2xf32>
  func.return %3, %5 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// One that is an output too, one that is multiplied with scores, and scores themselves are none.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:   graph.precision
func.func @main(%x: tensor<2x2xf32>, %a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = graph.binary add %x, %a : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = graph.binary mul %0, %b : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = graph.softmax %1 {axis = 1 : i64} : tensor<2x2xf32>
  %3 = graph.softmax %x {axis = 1 : i64} : tensor<2x2xf32>
  %4 = graph.unary <relu> %x : tensor<2x2xf32>
  func.return %a, %2, %4 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Infinities stay in float wherever they lead: sums of segments to exp, parts of a set to a maximum.
// What reads finite results is none of it, and -100 leads to no softmax.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.select %m, {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <exp> {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.unary <relu> %{{[0-9a-z]*}} :
// CHECK-NEXT:  graph.reduce max {{.*}}graph.precision = "f32"
// CHECK-NEXT:  graph.select %m, %{{[0-9a-z]*}}, %x :
// CHECK-NEXT:  graph.unary <exp> %{{[0-9a-z]*}} :
func.func @main(%x: tensor<2x3xf32>, %m: tensor<2x3xi1>) -> (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32>) {
  %i = graph.constant dense<0xFF800000> : tensor<1x1xf32> : tensor<1x1xf32>
  %h = graph.constant dense<-100.0> : tensor<1x1xf32> : tensor<1x1xf32>
  %0 = graph.select %m, %i, %x : (tensor<2x3xi1>, tensor<1x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.unary <exp> %0 : tensor<2x3xf32>
  %2 = graph.unary <relu> %1 : tensor<2x3xf32>
  %3 = graph.reduce max %0 {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %4 = graph.select %m, %h, %x : (tensor<2x3xi1>, tensor<1x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = graph.unary <exp> %4 : tensor<2x3xf32>
  func.return %2, %3, %5 : tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32>
}

// -----

// So does what is padded with infinities.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.pad constant %x {{.*}}graph.precision = "f32", graph.float_reason = "has infinite operands
// CHECK-NEXT:  graph.reduce max {{.*}}graph.precision = "f32"
// CHECK-NEXT:  func.return
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
  %0 = graph.pad constant %x {low = array<i64: 0, 1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 0xFF800000 : f32} : (tensor<2x3xf32>) -> tensor<2x4xf32>
  %1 = graph.reduce max %0 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  func.return %1 : tensor<2x1xf32>
}
