// RUN: ceras-opt %s --place=target=nnet --allocate-blocks=io -t nnet | filecheck %s
// RUN: not ceras-opt %s -t nnet 2>&1 | filecheck %s --check-prefix=UNPLACED

// UNPLACED: error:
// UNPLACED-NOT: Traceback

// CHECK:      nnet version
// CHECK:      inputs:
// CHECK:        'x' = tensor 0
// CHECK:      layers:
// CHECK:        0: binary on fpga
func.func @main(%x: tensor<1x16x!quant.uniform<i8:f32, 0.5>> {graph.name = "x"}) -> (tensor<1x16x!quant.uniform<i8:f32, 0.5>> {graph.name = "y"}) {
  %y = graph.binary add %x, %x {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x16x!quant.uniform<i8:f32, 0.5>>, tensor<1x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x16x!quant.uniform<i8:f32, 0.5>>
  func.return %y : tensor<1x16x!quant.uniform<i8:f32, 0.5>>
}
