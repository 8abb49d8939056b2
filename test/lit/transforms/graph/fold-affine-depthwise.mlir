// RUN: ceras-opt %s --split-input-file --keep-in-float="rules=depthwise" | filecheck %s --check-prefix=ROWS
// RUN: ceras-opt %s --split-input-file --fold-affine="rules=depthwise" --print-debuginfo | filecheck %s

// Behind a sum no layer can take the factors in. What follows the product, a relu, follows.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[P:.*]] = graph.conv2d
// CHECK:         %[[S:.*]] = graph.binary add %[[P]], %{{.*}}
// CHECK:         %[[K:.*]] = graph.constant dense<{{.*}}2.0{{.*}}3.0{{.*}}> : tensor<2x1x1x1xf32>
// CHECK:         %[[B:.*]] = graph.constant dense<{{.*}}5.0{{.*}}6.0{{.*}}> : tensor<2xf32>
// CHECK:         %[[N:.*]] = graph.conv2d %[[S]], %[[K]] bias %[[B]] : tensor<2xf32> {graph.range = {{.*}}, groups = 2 : i64, activation = #graph.function<relu>} : (tensor<1x3x3x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32> loc(fused["mul", "add"])
// CHECK:         %[[L:.*]] = graph.conv2d %[[N]]
// What follows the last layer, and one factor for all channels, stay.
// CHECK:         %[[M:.*]] = graph.binary mul %[[L]]
// CHECK:         graph.binary add %[[M]]
func.func @main(%x: tensor<1x3x3x2xf32>, %w: tensor<2x1x1x2xf32>) -> tensor<1x3x3x2xf32> {
  %k = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %b = graph.constant dense<[[[[5.0, 6.0]]]]> : tensor<1x1x1x2xf32> : tensor<1x1x1x2xf32>
  %one = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %i = graph.binary mul %x, %k : (tensor<1x3x3x2xf32>, tensor<2xf32>) -> tensor<1x3x3x2xf32>
  %j = graph.binary add %i, %b : (tensor<1x3x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x3x3x2xf32>
  %p = graph.conv2d %j, %w : (tensor<1x3x3x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x3x3x2xf32>
  %s = graph.binary add %p, %x : (tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32>
  %m = graph.binary mul %s, %k : (tensor<1x3x3x2xf32>, tensor<2xf32>) -> tensor<1x3x3x2xf32> loc("mul")
  %n = graph.binary add %m, %b {activation = #graph.function<relu>, graph.range = array<f32: 0.0, 9.0>} : (tensor<1x3x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x3x3x2xf32> loc("add")
  %l = graph.conv2d %n, %w : (tensor<1x3x3x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x3x3x2xf32>
  %y = graph.binary mul %l, %k : (tensor<1x3x3x2xf32>, tensor<2xf32>) -> tensor<1x3x3x2xf32>
  %z = graph.binary add %y, %b : (tensor<1x3x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x3x3x2xf32>
  func.return %z : tensor<1x3x3x2xf32>
}

// -----

// Rows are reshaped to an image of one column where that is asked for. What stays float stays as it is.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     graph.conv2d
// ROWS-LABEL:  func.func @main(%{{.*}}: tensor<3x2xf32>
// ROWS:          %[[S:.*]] = graph.binary add
// ROWS:          %[[I:.*]] = graph.reshape %[[S]] : (tensor<3x2xf32>) -> tensor<1x3x1x2xf32>
// ROWS-NEXT:     %[[C:.*]] = graph.conv2d %[[I]], %{{.*}} bias %{{.*}} : tensor<2xf32> {groups = 2 : i64} : (tensor<1x3x1x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x1x2xf32>
// ROWS-NEXT:     %[[R:.*]] = graph.reshape %[[C]] : (tensor<1x3x1x2xf32>) -> tensor<3x2xf32>
// ROWS-NEXT:     %[[P:.*]] = graph.matmul %[[R]]
// ROWS-NEXT:     %[[M:.*]] = graph.binary mul %[[P]], %{{.*}} {graph.precision = "f32"}
// ROWS-NEXT:     %[[N:.*]] = graph.binary add %[[M]]
// ROWS-NEXT:     graph.matmul %[[N]]
func.func @main(%x: tensor<3x2xf32>, %w: tensor<2x2xf32>) -> tensor<3x2xf32> {
  %k = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %b = graph.constant dense<[5.0, 6.0]> : tensor<2xf32> : tensor<2xf32>
  %p = graph.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %s = graph.binary add %p, %x : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %m = graph.binary mul %s, %k : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %n = graph.binary add %m, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %l = graph.matmul %n, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = graph.binary mul %l, %k {graph.precision = "f32"} : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %z = graph.binary add %y, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %o = graph.matmul %z, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %o : tensor<3x2xf32>
}
