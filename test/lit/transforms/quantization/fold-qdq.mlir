// RUN: ceras-opt %s --fold-qdq="rules=operations" --split-input-file | filecheck %s
// RUN: ceras-opt %s --fold-qdq="rules=operations even=false" --split-input-file 2>&1 | filecheck %s --check-prefix UP
// UP: fold-qdq: note: 1 layer rounds ties up, not to even as in the model

// A scale per output channel gives a multiplier per output channel.
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>> {
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.1}>>
  %b = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.05}>>
  %xr = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<1x2xf32>
  %wr = graph.dequantize %w : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.1}>>) -> tensor<2x2xf32>
  %br = graph.dequantize %b : (tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.05}>>) -> tensor<2xf32>
  %y = graph.matmul %xr, %wr bias %br : tensor<2xf32> {activation = #graph.function<relu>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.quantize %y : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
  func.return %q : tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.1}>>
// CHECK-NEXT: %{{.*}} = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.05}>>
// CHECK-NEXT: %{{.*}} = graph.matmul %{{.*}}, %{{.*}} bias %{{.*}} : tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.05}>> {requant = #graph.requant<multiplier = [1789569707, 357913941], shift = 31, rounding = half_up, zero_point = 4, low = 4, high = 127>} : (tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>, tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.1}>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
// CHECK-NEXT: func.return %{{.*}} : tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>

// -----

func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5:1>>, %y: tensor<4x!quant.uniform<i8:f32, 0.3>>) -> (tensor<4x!quant.uniform<i8:f32, 0.25>>, tensor<4x!quant.uniform<i8:f32, 0.5:1>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 0.3>>) -> tensor<4xf32>
  %s = graph.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %s : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  %same = graph.quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:1>>
  %t = graph.unary <tanh> %a : tensor<4xf32>
  %u = graph.quantize %t : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  func.return %q, %same, %u : tensor<4x!quant.uniform<i8:f32, 0.25>>, tensor<4x!quant.uniform<i8:f32, 0.5:1>>, tensor<4x!quant.uniform<i8:f32, 0.25>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.binary add %{{.*}}, %{{.*}} {lhs_multiplier = 524288 : i64, rhs_multiplier = 314573 : i64, requant = #graph.requant<shift = 18, rounding = half_even, low = -128, high = 127>} : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>, tensor<4x!quant.uniform<i8:f32, 0.3>>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
// CHECK-NEXT: %{{.*}} = graph.lookup %{{.*}}, dense<"0xFCFCFCFCFCFCFCFCFCFCFCFCFCFCFCFCFCFCFCF{{.*}} : tensor<256xi8> {graph.function = #graph.function<tanh>} : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x!quant.uniform<i8:f32, 0.25>>, tensor<4x!quant.uniform<i8:f32, 0.5:1>>, tensor<4x!quant.uniform<i8:f32, 0.25>>

// -----

// Read as a float too: the sum stays float.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xf32>
  %s = graph.binary add %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %s : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  func.return %s, %q : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.25>>
}

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %{{.*}} = graph.dequantize %{{.*}} : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xf32>
// CHECK-NEXT: %{{.*}} = graph.binary add %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %{{.*}} = graph.quantize %{{.*}} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
// CHECK-NEXT: func.return %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.25>>

// -----

// Scales a few units in the last place apart are not one scale, which check-scales would refuse;
// where no multiplier tells them apart the sum stays float.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.003921567462384701>>, %y: tensor<4x!quant.uniform<i8:f32, 0.003921568859368563>>) -> tensor<4x!quant.uniform<i8:f32, 0.003921568859368563>> {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.003921567462384701>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 0.003921568859368563>>) -> tensor<4xf32>
  %s = graph.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %s : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.003921568859368563>>
  func.return %q : tensor<4x!quant.uniform<i8:f32, 0.003921568859368563>>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.binary add %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

// -----

// No multiplier takes a step of 1 to one of 9e-9, and one that takes 0.05 there leaves the lesser
// addend at a whole unit for a thousandth: such sums stay float.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 1.0>>, %y: tensor<4x!quant.uniform<i8:f32, 8.789091e-9:15>>, %z: tensor<4x!quant.uniform<i8:f32, 0.05>>) -> (tensor<4x!quant.uniform<i8:f32, 8.789091e-9:15>>, tensor<4x!quant.uniform<i8:f32, 1.0e-7>>) {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 1.0>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 8.789091e-9:15>>) -> tensor<4xf32>
  %c = graph.dequantize %z : (tensor<4x!quant.uniform<i8:f32, 0.05>>) -> tensor<4xf32>
  %s = graph.binary sub %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %s : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 8.789091e-9:15>>
  %t = graph.binary add %b, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = graph.quantize %t : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0e-7>>
  func.return %q, %r : tensor<4x!quant.uniform<i8:f32, 8.789091e-9:15>>, tensor<4x!quant.uniform<i8:f32, 1.0e-7>>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.binary sub %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK: graph.binary add %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

// -----

// Both factors are computed, as in attention: there are integer products with constants only.
func.func @main(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>, %w: tensor<3x4x!quant.uniform<i8:f32, 0.3>>) -> tensor<2x3x!quant.uniform<i8:f32, 0.25>> {
  %a = graph.dequantize %x : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4xf32>
  %b = graph.dequantize %w : (tensor<3x4x!quant.uniform<i8:f32, 0.3>>) -> tensor<3x4xf32>
  %p = graph.matmul %a, %b : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %q = graph.quantize %p : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 0.25>>
  func.return %q : tensor<2x3x!quant.uniform<i8:f32, 0.25>>
}

// CHECK-LABEL: func.func @main
// CHECK: graph.matmul %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>

// -----

// A shift rounds ties to even as this quantization; if the target only rounds up, the sum stays float.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.25>>, %y: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>>) {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.25>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %s = graph.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = graph.binary sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %s {graph.half_even} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %r = graph.quantize %t {graph.half_even} : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  func.return %q, %r : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>>
}
// CHECK-LABEL: func.func @main
// CHECK: graph.binary add {{.*}} #graph.requant<shift = 1, rounding = half_even, low = -128, high = 127>
// CHECK: graph.binary sub {{.*}} -> tensor<4x!quant.uniform<i8:f32, 0.25>>
// UP: %[[S:.*]] = graph.binary add {{.*}} -> tensor<4xf32>
// UP: graph.quantize %[[S]] :
// UP: graph.binary sub {{.*}} -> tensor<4x!quant.uniform<i8:f32, 0.25>>

// -----

// A layer rounds ties to even, those of the clamp included, or ties up with a note. A multiplier decides no ties.
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 1.0>>) -> (tensor<1x1x!quant.uniform<i4:f32, 2.0>>, tensor<1x1x!quant.uniform<i4:f32, 3.0>>) {
  %w = graph.constant dense<1> : tensor<1x2xi4> : tensor<1x2x!quant.uniform<i4:f32, 1.0>>
  %a = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x2xf32>
  %v = graph.dequantize %w : (tensor<1x2x!quant.uniform<i4:f32, 1.0>>) -> tensor<1x2xf32>
  %s = graph.matmul %a, %v {activation = #graph.function<clip, -3.0, 9.0>} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %q = graph.quantize %s {graph.half_even} : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i4:f32, 2.0>>
  %t = graph.matmul %a, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  %r = graph.quantize %t {graph.half_even} : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i4:f32, 3.0>>
  func.return %q, %r : tensor<1x1x!quant.uniform<i4:f32, 2.0>>, tensor<1x1x!quant.uniform<i4:f32, 3.0>>
}
// CHECK-LABEL: func.func @main
// CHECK: graph.matmul {{.*}} #graph.requant<shift = 1, rounding = half_even, low = -2, high = 4>
// CHECK: graph.matmul {{.*}} #graph.requant<multiplier = {{.*}}, rounding = half_up, low = -8, high = 7>
// UP: graph.matmul {{.*}} #graph.requant<shift = 1, rounding = half_up, low = -1, high = 5>

// -----

// Scales so far apart that no shift is long enough stay apart: the product is of floats.
func.func @main(%x: tensor<1x1x!quant.uniform<i8:f32, 1.0e-07>>) -> tensor<1x1x!quant.uniform<i8:f32, 1.0>> {
  %w = graph.constant dense<5> : tensor<1x1xi8> : tensor<1x1x!quant.uniform<i8:f32, 1.0e-13>>
  %a = graph.dequantize %x : (tensor<1x1x!quant.uniform<i8:f32, 1.0e-07>>) -> tensor<1x1xf32>
  %v = graph.dequantize %w : (tensor<1x1x!quant.uniform<i8:f32, 1.0e-13>>) -> tensor<1x1xf32>
  %y = graph.matmul %a, %v : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %q = graph.quantize %y : (tensor<1x1xf32>) -> tensor<1x1x!quant.uniform<i8:f32, 1.0>>
  func.return %q : tensor<1x1x!quant.uniform<i8:f32, 1.0>>
}
// CHECK-LABEL: func.func @main
// CHECK: graph.matmul {{.*}} -> tensor<1x1xf32>

// -----

// What a quantized network keeps in float stays as it is when it is quantized again.
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>, %y: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.125>> {
  %a = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %b = graph.dequantize %y : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  %s = graph.binary mul %a, %b {graph.precision = "f32"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %q = graph.quantize %s : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.125>>
  func.return %q : tensor<4x!quant.uniform<i8:f32, 0.125>>
}
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = graph.binary mul {{.*}} -> tensor<4xf32>
// CHECK: graph.quantize %[[S]] :

// -----

// The order of sums is chosen for what an earlier run left in floats: text of that level comes back as it is.
// CHECK-LABEL: func.func @main
// CHECK:       graph.matmul {{.*}}ordered
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>> {
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.1}>>
  %xr = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.5:-128>>) -> tensor<1x2xf32>
  %wr = graph.dequantize %w : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.1}>>) -> tensor<2x2xf32>
  %y = graph.matmul %xr, %wr {ordered} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.quantize %y : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
  func.return %q : tensor<1x2x!quant.uniform<i8:f32, 0.3:4>>
}

// -----

// A network with integer operations is quantized already. A shift would round ties up, not to even.
// CHECK-LABEL: func.func @main
// CHECK:       %[[R:.*]] = graph.dequantize
// CHECK-NEXT:  graph.quantize %[[R]] :
func.func @main(%x: tensor<1x2x!quant.uniform<i16:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 2.0>> {
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.matmul %x, %w {requant = #graph.requant<shift = 1, rounding = half_up, low = -32768, high = 32767>} : (tensor<1x2x!quant.uniform<i16:f32, 0.5>>, tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i16:f32, 0.5>>
  %r = graph.dequantize %y : (tensor<1x2x!quant.uniform<i16:f32, 0.5>>) -> tensor<1x2xf32>
  %q = graph.quantize %r : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 2.0>>
  func.return %q : tensor<1x2x!quant.uniform<i8:f32, 2.0>>
}

// -----

// Ties of a kernel are away from zero, which no requantization rounds.
// CHECK-LABEL: func.func @main
// CHECK:       %[[R:.*]] = graph.dequantize
// CHECK-NEXT:  graph.quantize %[[R]] {rounding = #graph<rounding half_away>}
func.func @main(%x: tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x!quant.uniform<i8:f32, 2.0>> {
  %r = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2xf32>
  %q = graph.quantize %r {rounding = #graph<rounding half_away>} : (tensor<1x2xf32>) -> tensor<1x2x!quant.uniform<i8:f32, 2.0>>
  func.return %q : tensor<1x2x!quant.uniform<i8:f32, 2.0>>
}
