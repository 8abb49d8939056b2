// RUN: ceras-opt %s --quantize 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --quantize=recipe=none 2>/dev/null | filecheck %s --check-prefix=NONE
// RUN: ceras-opt %s --fuse --quantize="seed=0 samples=6" --quantize 2>%t2 | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t2

// Once: the second run finds nothing to do.
// NOTE:     warning: no calibration data for
// NOTE-NOT: {{note|warning}}

// Float outside, integers inside, the softmax float; no scale is changed by an operation of
// its own, because the concatenation's operands are made at its scale. What relu leaves takes all
// 256 numbers by a zero point, and half of them without the optional passes.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.requantizations = {before = {{[0-9]+}} : i64, after = 0 : i64}
// CHECK-NEXT:    %[[X:.*]] = graph.quantize
// CHECK-NOT:     graph.requantize
// CHECK:         %[[A:.*]] = graph.conv2d %[[X]], %{{.*}} {requant = {{.*}} low = -128
// CHECK-NEXT:    %[[S:.*]] = graph.lookup %[[A]]
// CHECK-NEXT:    %[[P:.*]] = graph.pool2d max
// CHECK-NEXT:    %[[C:.*]] = graph.concat %[[S]], %[[P]]
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[C]]
// CHECK:         %[[M:.*]] = graph.matmul %[[R]], {{.*}} zero_point = -128, low = -128, high = 127
// NONE:          graph.matmul {{.*}} low = 0, high = 127
// CHECK-NEXT:    %[[D:.*]] = graph.dequantize %[[M]]
// CHECK-NEXT:    %[[Y:.*]] = graph.softmax %[[D]]
// CHECK-NEXT:    func.return %[[Y]]
func.func @main(%x: tensor<1x2x2x1xf32>) -> tensor<1x2xf32> {
  %v = graph.constant dense<0.7> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %w = graph.constant dense<0.3> : tensor<2x16xf32> : tensor<2x16xf32>
  %a = graph.conv2d %x, %v {activation = #graph.function<swish>} : (tensor<1x2x2x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %p = graph.pool2d max %a {kernel = array<i64: 1, 1>} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %c = graph.concat %a, %p {axis = 3 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %r = graph.reshape %c : (tensor<1x2x2x4xf32>) -> tensor<1x16xf32>
  %m = graph.matmul %r, %w {activation = #graph.function<relu>} : (tensor<1x16xf32>, tensor<2x16xf32>) -> tensor<1x2xf32>
  %y = graph.softmax %m {axis = 1 : i64} : tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
