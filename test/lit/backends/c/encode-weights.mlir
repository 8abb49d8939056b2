// RUN: ceras-opt %s --encode-weights | filecheck %s --check-prefixes=CHECK,AUTO
// RUN: ceras-opt %s --encode-weights="board=uno_r4_wifi" | filecheck %s --check-prefixes=CHECK,BOARD
// RUN: ceras-opt %s --encode-weights="encoding=dense" | filecheck %s --check-prefixes=CHECK,DENSE
// RUN: ceras-opt %s --encode-weights="encoding=csr" | filecheck %s --check-prefixes=CHECK,CSR
// RUN: ceras-opt %s --encode-weights="encoding=csr-int8" | filecheck %s --check-prefixes=CHECK,INT8
// RUN: ceras-opt %s --encode-weights="encoding=code" | filecheck %s --check-prefixes=CHECK,CODE

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x8xf32>, %computed: tensor<2x1xf32>) -> tensor<1x2xf32> {
  %w0 = graph.constant dense<[[0.0, 0.0, 0.0, 0.0, 0.0, -2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]> : tensor<2x8xf32> : tensor<2x8xf32>
  %w1 = graph.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // Both biases and functions stay, and the sparse layer is small enough to be sparse.
  // -127 and 64 are the int8 weights.
  // INT8: graph.constant #sparse.csr<counts 8, delta 8, counts "0x0101", places "0x0502", values "0x8140" : tensor<2x8xi8>> : tensor<2x8x!quant.uniform<i8:f32, 0.015748031437397003>>
  // AUTO: graph.constant #sparse.csr<counts 8, delta 8
  // AUTO-NEXT: graph.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<2xf32> {activation = #graph.function<relu>, ordered}
  // BOARD: graph.constant #sparse.csr<counts 8, index 16, counts "0x0101", places "0x05000200"
  // BOARD-NEXT: graph.matmul {{.*}} {c.kernel = "code", activation = #graph.function<relu>, ordered}
  // DENSE: graph.constant dense<
  // DENSE: graph.matmul {{.*}} ordered}
  // CSR: graph.constant #sparse.csr<counts 8, delta 8
  // CSR-NEXT: graph.matmul {{.*}} ordered}
  // INT8-NEXT: graph.matmul {{.*}} ordered} : (tensor<1x8xf32>, tensor<2x8x!quant.uniform<i8:f32, 0.015748031437397003>>) -> tensor<1x2xf32>
  // CODE: graph.matmul {{.*}} {c.kernel = "code"
  %0 = graph.matmul %x, %w0 bias %b : tensor<2xf32> {activation = #graph.function<relu>} : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<1x2xf32>
  // The last encoded layer keeps its floats, as S4 has it.
  // INT8: graph.matmul {{.*}}ordered} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // AUTO: graph.matmul {{.*}} {ordered}
  // BOARD: graph.matmul {{.*}} {ordered}
  // DENSE: graph.matmul {{.*}} {ordered}
  // CSR: graph.matmul {{.*}} {ordered}
  // CODE: graph.matmul {{.*}} {c.kernel = "code", ordered}
  %1 = graph.matmul %0, %w1 bias %b : tensor<2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // Neither a residual nor computed weights can be encoded.
  // CHECK: graph.matmul {{.*}} residual
  %2 = graph.matmul %1, %w1 residual %1 : tensor<1x2xf32> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // CHECK: graph.matmul
  %w2 = graph.concat %computed, %computed {axis = 1 : i64} : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %3 = graph.matmul %2, %w2 : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %3 : tensor<1x2xf32>
}
