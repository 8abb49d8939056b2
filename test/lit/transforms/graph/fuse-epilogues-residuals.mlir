// RUN: ceras-opt %s --fuse-epilogues="rules=residuals" --print-debuginfo | filecheck %s

// On either side. The fused operation stands where the sum stood, because %y comes after the
// first product; it keeps the name of the product and takes the sum's range and activation.
// CHECK-LABEL: func.func @fuse(
// CHECK-NEXT:    %[[Y:.*]] = graph.unary <tanh>
// CHECK-NEXT:    %[[A:.*]] = graph.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<4xf32> residual %[[Y]] : tensor<1x4xf32> {graph.range = array<f32: 0.0{{.*}}, 9.0{{.*}}>, activation = #graph.function<relu>} {{.*}} loc(fused["first", "sum"])
// CHECK-NEXT:    graph.matmul %[[A]], %{{.*}} residual %{{.*}} : tensor<1x4xf32> : {{.*}} loc("second")
// CHECK-NEXT:    func.return
func.func @fuse(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<1x4xf32> {
  %a = graph.matmul %x, %w bias %b : tensor<4xf32> {graph.range = array<f32: -5.0, 5.0>} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32> loc("first")
  %y = graph.unary <tanh> %x : tensor<1x4xf32>
  %s = graph.binary add %a, %y {activation = #graph.function<relu>, graph.range = array<f32: 0.0, 9.0>} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> loc("sum")
  %c = graph.matmul %s, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32> loc("second")
  %t = graph.binary add %x, %c : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %t : tensor<1x4xf32>
}

// Of two convolutions the later one adds.
// CHECK-LABEL: func.func @two_convolutions(
// CHECK-NEXT:    %[[A:.*]] = graph.conv2d %{{.*}} loc("main")
// CHECK-NEXT:    graph.conv2d %{{.*}} residual %[[A]] {{.*}} loc("shortcut")
// CHECK-NEXT:    func.return
func.func @two_convolutions(%x: tensor<1x2x2x1xf32>, %w: tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32> {
  %a = graph.conv2d %x, %w : (tensor<1x2x2x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32> loc("main")
  %b = graph.conv2d %x, %w : (tensor<1x2x2x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32> loc("shortcut")
  %c = graph.binary add %b, %a : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  func.return %c : tensor<1x2x2x1xf32>
}

// A function comes between, or a residual is there already.
// CHECK-LABEL: func.func @epilogue_taken(
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.matmul %{{.*}} residual
// CHECK-NEXT:    graph.binary add
func.func @epilogue_taken(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %a = graph.matmul %x, %w {activation = #graph.function<relu>} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.binary add %a, %x : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %c = graph.matmul %b, %w residual %x : tensor<1x4xf32> : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %d = graph.binary add %c, %b : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %d : tensor<1x4xf32>
}

// Another reader, be it the same sum, needs the product alone.
// CHECK-LABEL: func.func @two_readers(
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.binary add
func.func @two_readers(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.binary add %a, %a : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %c = graph.matmul %b, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %d = graph.binary add %c, %x : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %c, %d : tensor<1x4xf32>, tensor<1x4xf32>
}

// A residual has the shape of the result, and a constant is none; nor is a difference a sum.
// CHECK-LABEL: func.func @no_residual(
// CHECK:         graph.matmul
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.binary add
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.binary sub
func.func @no_residual(%x: tensor<1x4xf32>, %w: tensor<4x4xf32>, %y: tensor<1x1xf32>) -> tensor<1x4xf32> {
  %k = graph.constant dense<1.0> : tensor<1x4xf32> : tensor<1x4xf32>
  %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.binary add %a, %y : (tensor<1x4xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
  %c = graph.matmul %b, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %d = graph.binary add %c, %k : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %e = graph.matmul %d, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %f = graph.binary sub %e, %x : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %f : tensor<1x4xf32>
}

// A quantized layer adds integers, and here its table makes floats behind that.
// CHECK-LABEL: func.func @table(
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    graph.binary add
func.func @table(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %a = graph.matmul %x, %w {requant = #graph.requant<shift = 7, rounding = half_up, low = -128, high = 127>, table = dense<2.0> : tensor<256xf32>} : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<3x2xf32>
  %b = graph.binary add %a, %y : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %b : tensor<3x2xf32>
}
