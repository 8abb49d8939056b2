// RUN: python3 -c "open('%t.json', 'w').write(open('%S/../../../../ceras_ir/backends/vta/boards/zcu104.json').read().replace('{', '{\"HOST_BYTES_PER_US\": 250,', 1))"
// RUN: ceras-opt %s --offer-forms=target=nnet | filecheck %s --check-prefix=NNET
// RUN: ceras-opt %s --offer-forms="target=vta board=zcu104" | filecheck %s --check-prefix=VTA
// RUN: ceras-opt %s --offer-forms="target=vta board=%t.json" | filecheck %s --check-prefix=SLOW
// RUN: ceras-opt %s --offer-forms=target=nnet --calibrate=silu=table16 2>/dev/null | filecheck %s --check-prefix=KEPT
// RUN: not ceras-opt %s --offer-forms=target=c 2>&1 | filecheck %s --check-prefix=WRONG

// WRONG: offer-forms: target c leaves no form open
!map = tensor<1x6x6x16xf32>
func.func @main(%x: !map) -> !map {
  %w = graph.constant dense<1.0> : tensor<16x1x1x16xf32> : tensor<16x1x1x16xf32>
  %d = graph.constant dense<1.0> : tensor<16x3x3x1xf32> : tensor<16x3x3x1xf32>
  %n = graph.constant dense<1.0> : tensor<4x1x1x16xf32> : tensor<4x1x1x16xf32>
  %u = graph.constant dense<1.0> : tensor<16x1x1x4xf32> : tensor<16x1x1x4xf32>
  // A host that moves half as much takes longer than the ALU.
  // NNET: graph.unary <swish> %{{.*}} {graph.form = "table"}
  // VTA: graph.unary <swish> %{{.*}} {graph.form = "table"}
  // SLOW: graph.unary <swish> %{{.*}} {graph.form = "shifts"}
  %0 = graph.conv2d %x, %w {activation = #graph.function<swish>} : (!map, tensor<16x1x1x16xf32>) -> !map
  // The FPGA has no grouped convolution.
  // NNET: graph.unary <swish> %{{.*}} {graph.form = "table16"}
  // SLOW: graph.unary <swish> %{{.*}} {graph.form = "shifts"}
  // KEPT: graph.unary <swish> %{{.*}} {graph.form = "table16", graph.range
  %1 = graph.conv2d %0, %d {activation = #graph.function<swish>, groups = 16 : i64, padding = array<i64: 1, 1, 1, 1>} : (!map, tensor<16x3x3x1xf32>) -> !map
  // Four channels take as many vectors as sixteen.
  // NNET: graph.unary <swish> %{{.*}} {graph.form = "table"}
  // SLOW: graph.unary <swish> %{{.*}} {graph.form = "table"}
  // KEPT: graph.unary <swish> %{{.*}} {graph.form = "table", graph.range
  %2 = graph.conv2d %1, %n {activation = #graph.function<swish>} : (!map, tensor<4x1x1x16xf32>) -> tensor<1x6x6x4xf32>
  // Shifts are SiLU's.
  // SLOW: graph.unary <sigmoid> %{{.*}} {graph.form = "table"}
  %3 = graph.conv2d %2, %u {activation = #graph.function<sigmoid>} : (tensor<1x6x6x4xf32>, tensor<16x1x1x4xf32>) -> !map
  // There is no sum to keep.
  // NNET: graph.unary <swish> %{{[0-9]+}} :
  %4 = graph.unary <swish> %3 : !map
  func.return %4 : !map
}
