// RUN: ceras-opt %s --place=target=nnet --allocate-blocks=io -t nnet | filecheck %s

// All steps are one layer on the CPU: rows of int8 weights have exponents of their own.

// CHECK:      tensors:
// CHECK:        2x2 i8 scale 1.0 in weights
// CHECK:      layers:
// CHECK:        0: recurrence on cpu 'cells' ([[X:[0-9]+]], [[W:[0-9]+]], [[H:[0-9]+]]) -> [[Y:[0-9]+]] attributes [0, 5, 0, 0, 4294967282, 4294967287, 4294967288]
func.func @main(%x: tensor<3x1x2xf32> {graph.name = "x"}, %h: tensor<1x2xf32> {graph.name = "h"}) -> (tensor<3x1x2xf32> {graph.name = "y"}) {
  %w = graph.constant dense<[[100, -50], [25, 127]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>], state_exponent = -14 : i64, weight_exponents = array<i64: -9, -8>} : (tensor<3x1x2xf32>, tensor<2x2xi8>, tensor<1x2xf32>) -> tensor<3x1x2xf32> loc("cells")
  func.return %y : tensor<3x1x2xf32>
}
