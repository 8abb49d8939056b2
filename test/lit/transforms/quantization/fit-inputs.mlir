// RUN: python3 -c "import numpy; numpy.savez('%t.npz', input0=numpy.array([[-2.5, 0.5], [0.6, 0.0]], 'f'))"
// RUN: ceras-opt %s --fit-inputs=calibration=%t.npz --split-input-file | filecheck %s
// RUN: ceras-opt %s --fit-inputs --split-input-file | filecheck %s --check-prefix=SAME

// From -2.5 to 0.6 are 3.1: 255 steps of 0.0122, where those of 2^-6 are 0.0156. Weights are
// multiplied by that; what only moves elements may stand between.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<1x2xf32>)
// CHECK-DAG:   %[[F:.*]] = graph.constant dense<81.99{{[0-9]*}}> : tensor<f32>
// CHECK-DAG:   graph.binary mul %[[X]], %[[F]] {{{.*}}graph.precision = "f32"
// CHECK-DAG:   dense<{{\[\[}}0.0121{{[0-9]*}}, 0.0243{{[0-9]*}}]]>
// CHECK:       func.return
// SAME-NOT:    graph.binary mul
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.reshape %x : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %0, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}

// -----

// Somebody else reads the input.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:   graph.binary mul
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x2xf32>) {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %1 = graph.unary <relu> %x : tensor<1x2xf32>
  func.return %0, %1 : tensor<1x1xf32>, tensor<1x2xf32>
}

// -----

// Zeros that are put around stay zeros.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.binary mul
// CHECK:       graph.pad constant
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32> : tensor<1x3xf32>
  %0 = graph.pad constant %x {low = array<i64: 0, 1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 0.0 : f32} : (tensor<1x2xf32>) -> tensor<1x3xf32>
  %1 = graph.matmul %0, %w : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}

// -----

// Ones would have to be multiplied too.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:   graph.binary mul
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32> : tensor<1x3xf32>
  %0 = graph.pad constant %x {low = array<i64: 0, 1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 1.0 : f32} : (tensor<1x2xf32>) -> tensor<1x3xf32>
  %1 = graph.matmul %0, %w : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}

// -----

// What floats make of an input before a layer counts as one.
// CHECK-LABEL: func.func @main(
// CHECK:       %[[N:.*]] = graph.binary sub
// CHECK:       graph.binary mul %[[N]], %{{.*}} {{{.*}}graph.precision = "f32"
// CHECK:       graph.matmul
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %m = graph.constant dense<[0.5, 0.25]> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.binary sub %x, %m {graph.precision = "f32"} : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %0, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}

// -----

// Where it is quantized already, its scale is its own.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:   graph.binary mul
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %m = graph.constant dense<[0.5, 0.25]> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.binary sub %x, %m : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %0, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}
