// RUN: ceras-opt %s --eliminate-transposes --split-input-file | filecheck %s
// RUN: ceras-opt %s --eliminate-transposes --eliminate-transposes --split-input-file | filecheck %s

// What an importer makes of Conv, Add of a constant per channel, Relu, Conv: transposes are
// left at the border only, and the constant is a vector.
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    %[[X:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>}
// CHECK-NEXT:    graph.constant
// CHECK-NEXT:    %[[A:.*]] = graph.conv2d %[[X]]
// CHECK-NEXT:    %[[K:.*]] = graph.constant {{.*}} : tensor<2xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.binary add %[[A]], %[[K]]
// CHECK-NEXT:    %[[C:.*]] = graph.unary <relu> %[[B]] : tensor<1x4x5x2xf32>
// CHECK-NEXT:    %[[D:.*]] = graph.conv2d %[[C]]
// CHECK-NEXT:    %[[Y:.*]] = graph.transpose %[[D]] {permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    func.return %[[Y]]
func.func @chain(%x: tensor<1x2x4x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x4x5xf32>) -> tensor<1x4x5x2xf32>
  %w = graph.constant dense<1.0> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %1 = graph.conv2d %0, %w : (tensor<1x4x5x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x5x2xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x2xf32>) -> tensor<1x2x4x5xf32>
  %k = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32> : tensor<2x1x1xf32>
  %3 = graph.binary add %2, %k : (tensor<1x2x4x5xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x5xf32>
  %4 = graph.unary <relu> %3 : tensor<1x2x4x5xf32>
  %5 = graph.transpose %4 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x4x5xf32>) -> tensor<1x4x5x2xf32>
  %6 = graph.conv2d %5, %w : (tensor<1x4x5x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x5x2xf32>
  %7 = graph.transpose %6 {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x2xf32>) -> tensor<1x2x4x5xf32>
  func.return %7 : tensor<1x2x4x5xf32>
}

// -----

// The axes of softmax and concatenation are those of the operands' own layout.
// CHECK-LABEL: func.func @axes(
// CHECK-NEXT:    %[[C:.*]] = graph.concat %{{.*}}, %{{.*}} {axis = 3 : i64} : (tensor<1x4x5x2xf32>, tensor<1x4x5x3xf32>)
// CHECK-NEXT:    %[[S:.*]] = graph.softmax %[[C]] {axis = 2 : i64} : tensor<1x4x5x5xf32>
// CHECK-NEXT:    graph.transpose %[[S]]
func.func @axes(%a: tensor<1x4x5x2xf32>, %b: tensor<1x4x5x3xf32>) -> tensor<1x5x4x5xf32> {
  %0 = graph.transpose %a {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x2xf32>) -> tensor<1x2x4x5xf32>
  %1 = graph.transpose %b {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %2 = graph.concat %0, %1 {axis = 1 : i64} : (tensor<1x2x4x5xf32>, tensor<1x3x4x5xf32>) -> tensor<1x5x4x5xf32>
  %3 = graph.softmax %2 {axis = 3 : i64} : tensor<1x5x4x5xf32>
  func.return %3 : tensor<1x5x4x5xf32>
}

// -----

// Flattening for a matrix product permutes its weights: [0, 1, 2 | 3, 4, 5] by channel
// becomes [0, 3 | 1, 4 | 2, 5] by position.
// CHECK-LABEL: func.func @flatten(
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<{{.*}}0.{{.*}}, 3.{{.*}}, 1.{{.*}}, 4.{{.*}}, 2.{{.*}}, 5.{{.*}}> : tensor<1x6xf32>
// CHECK-NEXT:    %[[X:.*]] = graph.reshape %{{.*}} : (tensor<1x1x3x2xf32>) -> tensor<1x6xf32>
// CHECK-NEXT:    graph.matmul %[[X]], %[[W]]
func.func @flatten(%x: tensor<1x1x3x2xf32>) -> tensor<1x1xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x1x3x2xf32>) -> tensor<1x2x1x3xf32>
  %1 = graph.reshape %0 : (tensor<1x2x1x3xf32>) -> tensor<1x6xf32>
  %w = graph.constant dense<[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]> : tensor<1x6xf32> : tensor<1x6xf32>
  %2 = graph.matmul %1, %w : (tensor<1x6xf32>, tensor<1x6xf32>) -> tensor<1x1xf32>
  func.return %2 : tensor<1x1xf32>
}

// -----

// Detector heads merge height and width, which are neighbours in both layouts.
// CHECK-LABEL: func.func @merge_positions(
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %{{.*}} : (tensor<1x4x5x3xf32>) -> tensor<1x20x3xf32>
// CHECK-NEXT:    func.return %[[R]]
func.func @merge_positions(%x: tensor<1x4x5x3xf32>) -> tensor<1x20x3xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %1 = graph.reshape %0 : (tensor<1x3x4x5xf32>) -> tensor<1x3x20xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 0, 2, 1>} : (tensor<1x3x20xf32>) -> tensor<1x20x3xf32>
  func.return %2 : tensor<1x20x3xf32>
}

// -----

// A channel shuffle permutes for real: one transpose is left, of the innermost dimensions.
// CHECK-LABEL: func.func @shuffle(
// CHECK-NEXT:    %[[A:.*]] = graph.reshape %{{.*}} -> tensor<1x4x5x2x3xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.transpose %[[A]] {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK-NEXT:    %[[C:.*]] = graph.reshape %[[B]] {{.*}} -> tensor<1x4x5x6xf32>
// CHECK-NEXT:    func.return %[[C]]
func.func @shuffle(%x: tensor<1x4x5x6xf32>) -> tensor<1x4x5x6xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x6xf32>) -> tensor<1x6x4x5xf32>
  %1 = graph.reshape %0 : (tensor<1x6x4x5xf32>) -> tensor<1x2x3x4x5xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x3x4x5xf32>) -> tensor<1x3x2x4x5xf32>
  %3 = graph.reshape %2 : (tensor<1x3x2x4x5xf32>) -> tensor<1x6x4x5xf32>
  %4 = graph.transpose %3 {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x6x4x5xf32>) -> tensor<1x4x5x6xf32>
  func.return %4 : tensor<1x4x5x6xf32>
}

// -----

// One operand is transposed, a larger one is not: moving would cost more than it gains.
// CHECK-LABEL: func.func @not_worth_it(
// CHECK-NEXT:    %[[T:.*]] = graph.transpose
// CHECK-NEXT:    %[[B:.*]] = graph.binary add %[[T]], %{{.*}}
// CHECK-NEXT:    func.return %[[B]]
func.func @not_worth_it(%a: tensor<1x1x5x3xf32>, %b: tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32> {
  %0 = graph.transpose %a {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x1x5x3xf32>) -> tensor<1x3x1x5xf32>
  %1 = graph.binary add %0, %b : (tensor<1x3x1x5xf32>, tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  func.return %1 : tensor<1x3x4x5xf32>
}

// -----

// Two layouts of one size meet: the choice is made once and does not swing back.
// CHECK-LABEL: func.func @two_layouts(
// CHECK-COUNT-2: graph.transpose
// CHECK-NOT:     graph.transpose
func.func @two_layouts(%a: tensor<1x4x5x3xf32>, %b: tensor<4x5x1x3xf32>, %c: tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32> {
  %0 = graph.transpose %a {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %1 = graph.transpose %b {permutation = array<i64: 2, 3, 0, 1>} : (tensor<4x5x1x3xf32>) -> tensor<1x3x4x5xf32>
  %2 = graph.binary add %0, %1 : (tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  %3 = graph.binary mul %c, %2 : (tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  func.return %3 : tensor<1x3x4x5xf32>
}

// -----

// Two readers of one value in the other layout share a transpose.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %[[T:.*]] = graph.transpose
// CHECK-NEXT:    graph.pool2d max %[[T]]
// CHECK-NEXT:    graph.pool2d max %[[T]]
func.func @shared(%x: tensor<1x3x4x5xf32>) -> (tensor<1x3x3x3xf32>, tensor<1x2x5x3xf32>) {
  %0 = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  %1 = graph.pool2d max %0 {kernel = array<i64: 2, 3>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x3x3xf32>
  %2 = graph.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  %3 = graph.pool2d max %2 {kernel = array<i64: 3, 1>} : (tensor<1x4x5x3xf32>) -> tensor<1x2x5x3xf32>
  func.return %1, %3 : tensor<1x3x3x3xf32>, tensor<1x2x5x3xf32>
}

// -----

// Slices, borders, reductions and the like say the same of the dimension before the transpose.
// CHECK-LABEL: func.func @selections(
// CHECK-NEXT:    graph.slice %{{.*}} {starts = array<i64: 0, 2, 1, 2>, strides = array<i64: 1, 2, 1, 1>} : (tensor<1x6x5x4xf32>) -> tensor<1x2x4x2xf32>
// CHECK-NEXT:    graph.pad constant %{{.*}} {low = array<i64: 0, 1, 0, 2>
// CHECK-NEXT:    graph.gather %{{.*}} {axis = 2 : i64, indices = array<i64: 0, 0, 3>}
// CHECK-NEXT:    graph.reduce max %{{.*}} {axes = array<i64: 1, 2>}
// CHECK-NOT:     graph.transpose
func.func @selections(%x: tensor<1x6x5x4xf32>) -> tensor<1x4x1x1xf32> {
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x6x5x4xf32>) -> tensor<1x4x6x5xf32>
  %1 = graph.slice %0 {starts = array<i64: 0, 2, 2, 1>, strides = array<i64: 1, 1, 2, 1>} : (tensor<1x4x6x5xf32>) -> tensor<1x2x2x4xf32>
  %2 = graph.pad constant %1 {low = array<i64: 0, 2, 1, 0>, high = array<i64: 0, 0, 0, 0>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : (tensor<1x2x2x4xf32>) -> tensor<1x4x3x4xf32>
  %3 = graph.gather %2 {axis = 3 : i64, indices = array<i64: 0, 0, 3>} : (tensor<1x4x3x4xf32>) -> tensor<1x4x3x3xf32>
  %4 = graph.reduce max %3 {axes = array<i64: 2, 3>} : (tensor<1x4x3x3xf32>) -> tensor<1x4x1x1xf32>
  func.return %4 : tensor<1x4x1x1xf32>
}

// -----

// A constant that is transposed for one product is no reason to transpose the product back: the two
// layouts changed places for ever.
// CHECK-LABEL: func.func @outer(
// CHECK-NEXT:    %[[T:.*]] = graph.constant
// CHECK-SAME:    tensor<4x2xf32>
// CHECK-NEXT:    %[[P:.*]] = graph.binary mul %[[T]], %{{.*}} : (tensor<4x2xf32>, tensor<1x3x1x2xf32>) -> tensor<1x3x4x2xf32>
// CHECK-NEXT:    %[[Y:.*]] = graph.transpose %[[P]] {permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    func.return %[[Y]]
func.func @outer(%x: tensor<1x3x1x2xf32>) -> tensor<1x2x3x4xf32> {
  %k = graph.constant dense<[[[[1.0, 2.0, 3.0, 4.0]], [[5.0, 6.0, 7.0, 8.0]]]]> : tensor<1x2x1x4xf32> : tensor<1x2x1x4xf32>
  %0 = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x3x1x2xf32>) -> tensor<1x2x3x1xf32>
  %1 = graph.binary mul %k, %0 : (tensor<1x2x1x4xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x4xf32>
  func.return %1 : tensor<1x2x3x4xf32>
}

// The gate of a squeeze-and-excitation: transposes of one pixel are reshapes. A bias in the model's
// layout meets the channels before them.
// CHECK-LABEL: func.func @gate(
// CHECK:         %[[B:.*]] = graph.constant dense<{{.*}}> : tensor<2xf32>
// CHECK-NEXT:    %[[A:.*]] = graph.binary add %{{.*}}, %[[B]] {activation = #graph.function<relu>} : (tensor<1x1x1x2xf32>, tensor<2xf32>) -> tensor<1x1x1x2xf32>
// CHECK-NEXT:    func.return %[[A]]
func.func @gate(%x: tensor<1x1x1x2xf32>) -> tensor<1x1x1x2xf32> {
  %b = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32> : tensor<2x1x1xf32>
  %t = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x1x1x2xf32>) -> tensor<1x2x1x1xf32>
  %a = graph.binary add %t, %b {activation = #graph.function<relu>} : (tensor<1x2x1x1xf32>, tensor<2x1x1xf32>) -> tensor<1x2x1x1xf32>
  %y = graph.transpose %a {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x1x1xf32>) -> tensor<1x1x1x2xf32>
  func.return %y : tensor<1x1x1x2xf32>
}

// -----

// Two reshapes of one value to one shape are one; to another shape they are not.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: graph.reshape
// CHECK-NOT: graph.reshape
func.func @main(%x: tensor<2x3xf32>, %k: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<6xf32>) {
  %a = graph.reshape %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %b = graph.reshape %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %c = graph.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %p = graph.binary mul %a, %k : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %q = graph.binary add %b, %k : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %p, %q, %c : tensor<3x2xf32>, tensor<3x2xf32>, tensor<6xf32>
}
