// A convolution and SiLU as exporters write it (x * sigmoid(x)), then a residual and ReLU.
func.func @main(%x: tensor<1x8x8x16xf32> {graph.name = "x"}) -> (tensor<1x8x8x16xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.015625> : tensor<16x3x3x16xf32> : tensor<16x3x3x16xf32>
  %c = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x16xf32>, tensor<16x3x3x16xf32>) -> tensor<1x8x8x16xf32>
  %s = graph.unary <sigmoid> %c : tensor<1x8x8x16xf32>
  %m = graph.binary mul %c, %s : (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %d = graph.conv2d %m, %w {padding = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x16xf32>, tensor<16x3x3x16xf32>) -> tensor<1x8x8x16xf32>
  %a = graph.binary add %d, %x : (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %r = graph.unary <relu> %a : tensor<1x8x8x16xf32>
  func.return %r : tensor<1x8x8x16xf32>
}
