// Two layers with max pooling: the function of the first rises, that of the second does not.
func.func @main(%x: tensor<1x16x16x4xf32> {graph.name = "x"}) -> (tensor<1x4x4x4xf32> {graph.name = "y"}) {
  %w = graph.constant dense<[[[[1.0, -1.0, 0.5, 0.25]]], [[[-1.0, 0.5, 1.0, 0.5]]], [[[0.5, 1.0, -1.0, 1.0]]], [[[-0.5, 0.5, 1.0, -1.0]]]]> : tensor<4x1x1x4xf32> : tensor<4x1x1x4xf32>
  %a = graph.conv2d %x, %w : (tensor<1x16x16x4xf32>, tensor<4x1x1x4xf32>) -> tensor<1x16x16x4xf32> loc("first")
  %b = graph.unary <tanh> %a : tensor<1x16x16x4xf32> loc("tanh")
  %c = graph.pool2d max %b {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x16x16x4xf32>) -> tensor<1x8x8x4xf32> loc("pool")
  %v = graph.constant dense<-0.75> : tensor<4x1x1x4xf32> : tensor<4x1x1x4xf32>
  %d = graph.conv2d %c, %v : (tensor<1x8x8x4xf32>, tensor<4x1x1x4xf32>) -> tensor<1x8x8x4xf32> loc("second")
  %e = graph.unary <swish> %d : tensor<1x8x8x4xf32> loc("swish")
  %f = graph.pool2d max %e {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> loc("last")
  func.return %f : tensor<1x4x4x4xf32>
}
