// RUN: ceras-opt %s --float-blocks 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --float-blocks=quantizes=true 2>&1 >/dev/null | filecheck %s --check-prefix=AGAIN

// NOTE:      float-blocks: note: 1 layer is computed in float32: the target stores no 2-bit weights in blocks
// NOTE-NEXT: float-blocks: note: 2 layers are computed in float32: the target stores no 4-bit weights in blocks
// NOTE-NOT:  note
// AGAIN:      float-blocks: note: 1 layer is quantized to int8 again: the target stores no 2-bit weights in blocks
// AGAIN-NEXT: float-blocks: note: 2 layers are quantized to int8 again: the target stores no 4-bit weights in blocks
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<1.000000e+00> : tensor<1xf32>
// CHECK-NEXT:    %[[W:.*]] = graph.constant dense<[{{\[}}0.000000e+00, -3.500000e+00, -3.500000e+00, -4.000000e+00, 0.000000e+00, 2.000000e+00, 5.000000e-01, -4.000000e+00]]> : tensor<1x8xf32>
// CHECK-NEXT:    graph.matmul %x, %[[W]] bias %[[B]] : tensor<1xf32> : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    %[[T:.*]] = graph.constant dense<[{{\[}}-3.500000e+00, -7.000000e+00, -7.000000e+00, -7.500000e+00, -3.500000e+00, -1.500000e+00, -3.000000e+00]]> : tensor<1x7xf32>
// CHECK-NEXT:    graph.take %[[T]][%i] : (tensor<1x7xf32>, tensor<3xi64>) -> tensor<3x7xf32>
// CHECK-NEXT:    %[[V:.*]] = graph.constant dense<[{{\[}}-1.000000e+00, 0.000000e+00, -5.000000e-01, -1.000000e+00, -5.000000e-01, -1.000000e+00, -1.000000e+00, -1.000000e+00]]> : tensor<1x8xf32>
// CHECK-NEXT:    graph.matmul %x, %[[V]] : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<2x8xf32>, %i: tensor<3xi64>) -> (tensor<2x1xf32>, tensor<3x7xf32>, tensor<2x1xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %p = graph.constant dense<[[15]]> : tensor<1x1xui8> : tensor<1x1xui8>
  %b = graph.constant dense<[1.0]> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> bias %b : tensor<1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  %1 = graph.block_take %w[%i] scales %s : tensor<1x1xf32> points %p : tensor<1x1xui8> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<3xi64>) -> tensor<3x7xf32>
  %2 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 2 : i64, block = 16 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return %0, %1, %2 : tensor<2x1xf32>, tensor<3x7xf32>, tensor<2x1xf32>
}
