"""Define networks as text for tests of commands."""

MIXING = """
func.func @main(%x: tensor<1x4x4x2xf32> {graph.name = "image"})
    -> (tensor<1x3xf32> {graph.name = "scores"}) {
  %w = graph.constant dense<[[[[1.0, 0.01]]], [[[-0.5, 0.013]]], [[[0.25, -0.004]]]]>
      : tensor<3x1x1x2xf32> : tensor<3x1x1x2xf32>
  %y = graph.conv2d %x, %w {activation = #graph.function<relu>}
      : (tensor<1x4x4x2xf32>, tensor<3x1x1x2xf32>) -> tensor<1x4x4x3xf32> loc("mix")
  %p = graph.pool2d average %y {kernel = array<i64: 4, 4>}
      : (tensor<1x4x4x3xf32>) -> tensor<1x1x1x3xf32> loc("mean")
  %r = graph.reshape %p : (tensor<1x1x1x3xf32>) -> tensor<1x3xf32>
  func.return %r : tensor<1x3xf32>
}
"""
