// RUN: ceras-opt %s --split-input-file --keep-weights 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t
// RUN: ceras-opt %s --split-input-file --keep-weights="channel-shifts=false multipliers=false" | filecheck %s --check-prefix=PLAIN

// Scales that are no powers of two need multipliers, and different scales need a shift per channel.
// NOTE:     keep-weights: note: 3 layers with 4-bit weights are quantized to int8 again
// NOTE-NOT: note
// CHECK-LABEL: func.func @main(
// CHECK:         graph.matmul {{.*}} {graph.stored_type = !quant.uniform<i4:f32:0, {0.75, 0.5}>, graph.weight_bits = 4 : i64, graph.weight_exponent = -1 : i64, graph.row_exponents = array<i64: 0, 0>, graph.row_factors = array<f32: 1.500000e+00, 1.000000e+00>}
// CHECK:         graph.matmul {{.*}} {graph.stored_type = !quant.uniform<u4:f32, 0.25:8>, graph.weight_bits = 4 : i64, graph.weight_exponent = -2 : i64}
// PLAIN-LABEL: func.func @main(
// PLAIN:         graph.matmul %x, %{{[a-z0-9]+}} : (
// PLAIN:         graph.matmul {{.*}} graph.weight_bits = 4 : i64, graph.weight_exponent = -2 : i64}
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = graph.constant dense<[[5.25, -6.0], [3.5, -4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w {graph.stored_type = !quant.uniform<i4:f32:0, {0.75, 0.5}>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %v = graph.constant dense<[[1.75, -2.0], [1.0, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %1 = graph.matmul %x, %v {graph.stored_type = !quant.uniform<u4:f32, 0.25:8>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0, %1 : tensor<1x2xf32>, tensor<1x2xf32>
}

// -----

// A zero point; weights that changed after float-weights; scales along the inputs.
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-3: graph.matmul %x, %{{[a-z0-9]+}} : (
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = graph.constant dense<[[1.0, 0.0], [0.5, -0.25]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w {graph.stored_type = !quant.uniform<i4:f32, 0.25:1>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.matmul %x, %w {graph.stored_type = !quant.uniform<i4:f32, 0.5>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %2 = graph.matmul %x, %w {graph.stored_type = !quant.uniform<i4:f32:1, {0.5, 0.25}>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0, %1, %2 : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}
