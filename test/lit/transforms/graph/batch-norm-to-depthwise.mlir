// RUN: ceras-opt %s --batch-norm-to-depthwise --print-debuginfo | filecheck %s

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
