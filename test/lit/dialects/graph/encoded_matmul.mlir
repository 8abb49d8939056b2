// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>, %q: tensor<4x3x!quant.uniform<i8:f32, 0.5>>, %b: tensor<4xf32>) {
  // CHECK: graph.encoded_matmul dense %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %0 = graph.encoded_matmul dense %x, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  // CHECK: graph.encoded_matmul csr_delta8 %{{.*}}, %{{.*}} bias %{{.*}} : tensor<4xf32> {activation = #graph.function<relu>} : (tensor<2x3xf32>, tensor<4x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4xf32>
  %1 = graph.encoded_matmul csr_delta8 %x, %q bias %b : tensor<4xf32> {activation = #graph.function<relu>} : (tensor<2x3xf32>, tensor<4x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4xf32>
  func.return
}
