// One operation of the dialect in scale_add.py, between two of our own.
func.func @main(%x: tensor<3x5xf32> {graph.name = "x"}) -> (tensor<3x5xf32> {graph.name = "y"}) {
  %e = graph.unary <exp> %x : tensor<3x5xf32>
  %s = toy.scale_add %e, %x {factor = 0.5 : f32} : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32> loc("sum")
  %r = graph.unary <relu> %s : tensor<3x5xf32>
  func.return %r : tensor<3x5xf32>
}
