// RUN: ceras-opt %s --canonicalize --split-input-file | filecheck %s
// RUN: ceras-opt %s --canonicalize --elide-constants --split-input-file | ceras-opt --canonicalize --split-input-file

// Two reshapes are one, and one back to the start is none.
// CHECK-LABEL: func.func @reshapes(
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %{{.*}} : (tensor<2x6xf32>) -> tensor<12xf32>
// CHECK-NEXT:    func.return %[[R]], %{{.*}}
func.func @reshapes(%x: tensor<2x6xf32>) -> (tensor<12xf32>, tensor<2x6xf32>) {
  %a = graph.reshape %x : (tensor<2x6xf32>) -> tensor<3x4xf32>
  %b = graph.reshape %a : (tensor<3x4xf32>) -> tensor<12xf32>
  %c = graph.reshape %a : (tensor<3x4xf32>) -> tensor<2x6xf32>
  func.return %b, %c : tensor<12xf32>, tensor<2x6xf32>
}

// -----

// Transposes compose; opposite ones cancel.
// CHECK-LABEL: func.func @transposes(
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 2, 0, 1>}
// CHECK-NEXT:    func.return %[[T]], %{{.*}}
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  %a = graph.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %b = graph.transpose %a {permutation = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  %c = graph.transpose %a {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  func.return %b, %c : tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// -----

// Only an extent of 1 moves: the elements stay where they are.
// CHECK-LABEL: func.func @unit_extent(
// CHECK-NEXT:    graph.reshape %{{.*}} : (tensor<1x5x7x1xf32>) -> tensor<1x1x5x7xf32>
func.func @unit_extent(%x: tensor<1x5x7x1xf32>) -> tensor<1x1x5x7xf32> {
  %a = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x5x7x1xf32>) -> tensor<1x1x5x7xf32>
  func.return %a : tensor<1x1x5x7xf32>
}

// -----

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT:    %[[A:.*]] = graph.constant dense<{{.*}}1.{{.*}}, {{.*}}3.{{.*}}2.{{.*}}4.{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<5.{{.*}}> : tensor<6xf32>
// CHECK-NEXT:    func.return %[[A]], %[[B]]
func.func @constants() -> (tensor<2x2xf32>, tensor<6xf32>) {
  %a = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.transpose %a {permutation = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %c = graph.constant dense<5.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %d = graph.reshape %c : (tensor<2x3xf32>) -> tensor<6xf32>
  func.return %b, %d : tensor<2x2xf32>, tensor<6xf32>
}

// -----

// A scale per output channel names dimension 0, which must stay where it is.
// CHECK-LABEL: func.func @per_axis(
// CHECK:         graph.reshape
func.func @per_axis() -> tensor<2x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>> {
  %a = graph.constant dense<[1, 2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %b = graph.reshape %a : (tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  func.return %b : tensor<2x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
}

// -----

// Slices compose, backwards too; of one element that is left the stride means nothing.
// CHECK-LABEL: func.func @slices(
// CHECK-NEXT:    %[[A:.*]] = graph.slice %[[X:.*]] {starts = array<i64: 5, 3>, strides = array<i64: -2, 2>} : (tensor<8x9xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.slice %[[X]] {starts = array<i64: 7, 2>, strides = array<i64: 1, 1>} : (tensor<8x9xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:    func.return %[[A]], %[[B]]
func.func @slices(%x: tensor<8x9xf32>) -> (tensor<2x3xf32>, tensor<1x1xf32>) {
  %a = graph.slice %x {starts = array<i64: 7, 1>, strides = array<i64: -2, 1>} : (tensor<8x9xf32>) -> tensor<4x8xf32>
  %b = graph.slice %a {starts = array<i64: 1, 2>, strides = array<i64: 1, 2>} : (tensor<4x8xf32>) -> tensor<2x3xf32>
  %c = graph.slice %a {starts = array<i64: 0, 1>, strides = array<i64: 4611686018427387904, 3>} : (tensor<4x8xf32>) -> tensor<1x1xf32>
  func.return %b, %c : tensor<2x3xf32>, tensor<1x1xf32>
}
