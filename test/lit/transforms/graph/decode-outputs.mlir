// RUN: ceras-opt %s --decode-outputs="scores=y count=2" | filecheck %s
// RUN: ceras-opt %s --decode-outputs="kind=ctc scores=text blank=-1" | filecheck %s --check-prefix=CTC
// RUN: ceras-opt %s --decode-outputs="kind=boxes scores=found count=3 overlap=0.25" | filecheck %s --check-prefix=BOXES
// RUN: not ceras-opt %s --decode-outputs 2>&1 | filecheck %s --check-prefix=WHICH
// RUN: not ceras-opt %s --decode-outputs="scores=found" --decode-outputs="scores=found" 2>&1 | filecheck %s --check-prefix=TWICE

// WHICH: --decode top: the network has the outputs y, text, found: name one with scores=y
// TWICE: --decode top: no output 'found'; did you mean 'found_classes' or 'found_scores'?

// The scores are those of the network, and the operations remain in float.
// CHECK: -> (tensor<1x2xi64> {graph.name = "y_classes"}, tensor<1x2xf32> {graph.name = "y_scores"}, tensor<1x5x3xf32> {graph.name = "text"}
// CHECK: %[[Y:.*]] = graph.unary <relu>
// CHECK: graph.top_k max %[[Y]] {graph.precision = "f32"
// CHECK: graph.take

// The last class is the blank.
// CTC:      -> (tensor<1x4xf32> {graph.name = "y"}, tensor<1x5xi64> {graph.name = "text_symbols"}, tensor<1xi64> {graph.name = "text_length"}
// CTC:      graph.arg max
// CTC:      %[[BLANK:.*]] = graph.constant dense<2> : tensor<i64>
// CTC:      graph.compare equal %{{.*}}, %[[BLANK]]

// A detector of [1, 4 + C, N] has boxes in its columns.
// BOXES:      tensor<3x4xf32> {graph.name = "boxes"}, tensor<3xf32> {graph.name = "scores"}, tensor<3xi64> {graph.name = "classes"}, tensor<1xi64> {graph.name = "count"}
// BOXES:      graph.suppress
// BOXES-SAME: most = 3 : i64, overlap = 2.500000e-01 : f32, least = 2.500000e-01 : f32
func.func @main(%x: tensor<1x4xf32>, %t: tensor<1x5x3xf32>, %b: tensor<1x6x9xf32>) -> (tensor<1x4xf32> {graph.name = "y"}, tensor<1x5x3xf32> {graph.name = "text"}, tensor<1x6x9xf32> {graph.name = "found"}) {
  %y = graph.unary <relu> %x : tensor<1x4xf32>
  %text = graph.unary <relu> %t : tensor<1x5x3xf32>
  %found = graph.unary <relu> %b : tensor<1x6x9xf32>
  func.return %y, %text, %found : tensor<1x4xf32>, tensor<1x5x3xf32>, tensor<1x6x9xf32>
}
