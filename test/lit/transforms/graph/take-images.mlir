// RUN: ceras-opt %s --take-images="mean=0.5,0.25,0.125 std=2.0" | filecheck %s
// RUN: ceras-opt %s --take-images="layout=nchw scale=1.0" | filecheck %s --check-prefix=PLANES
// RUN: ceras-opt %s --take-images="layout=nv12 size=6,10 resize=nearest" | filecheck %s --check-prefix=FRAME
// RUN: not ceras-opt %s --take-images="layout=nv12 size=6,9" 2>&1 | filecheck %s --check-prefix=ODD
// RUN: not ceras-opt %s --take-images="size=6,10" 2>&1 | filecheck %s --check-prefix=SIZE
// RUN: not ceras-opt %s --take-images="mean=1.0,2.0" 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: not ceras-opt %s --take-images="std=0.0" 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not ceras-opt %s --take-images="of=hwc" 2>&1 | filecheck %s --check-prefix=LAYOUT
// RUN: not ceras-opt %s --take-images --take-images 2>&1 | filecheck %s --check-prefix=TWICE

// ODD: --input-image nv12: frames of format nv12 have an even width, got 9
// SIZE: option 'size' of pass 'take-images' needs 2 numbers, and the format of a frame as layout, got (6, 10) and nhwc
// COUNT: --image-mean has 2 values for 3 channels
// ZERO: options 'scale' and 'std' of pass 'take-images' must not be 0
// LAYOUT: option 'of' of pass 'take-images' must be auto, nchw or nhwc, got 'hwc'
// TWICE: images require a single float input of four dimensions, got camera: leave out --input-image

// Bytes come as NHWC, and are normalised there; the network reads NCHW.
// The attribute converts float samples to pixels; the range of the floats is dropped.
// CHECK:      func.func @main(%[[X:.*]]: tensor<1x4x5x3xui8> {graph.name = "camera", graph.pixels =
// CHECK-SAME: axes = array<i64: 0, 3, 1, 2>
// CHECK-SAME: channel_axis = array<i64: 3>
// CHECK-NOT:  graph.range
// CHECK-NEXT: graph.cast %[[X]] : (tensor<1x4x5x3xui8>) -> tensor<1x4x5x3xf32>
// CHECK-NEXT: dense<2.550000e+02>
// CHECK-NEXT: graph.binary div
// CHECK-NEXT: dense<[5.000000e-01, 2.500000e-01, 1.250000e-01]> : tensor<3xf32>
// CHECK-NEXT: graph.binary sub
// CHECK-NEXT: dense<2.000000e+00>
// CHECK-NEXT: graph.binary div
// CHECK-NEXT: %[[N:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT: graph.unary <relu> %[[N]]

// What changes nothing is left out.
// PLANES:      func.func @main(%[[X:.*]]: tensor<1x3x4x5xui8> {graph.name = "camera", graph.pixels =
// PLANES-SAME: axes = array<i64: 0, 1, 2, 3>
// PLANES-SAME: channel_axis = array<i64: 1>
// PLANES-NEXT: %[[N:.*]] = graph.cast %[[X]]
// PLANES-NEXT: graph.unary <relu> %[[N]]
// The largest part with the proportions of the input is in the middle of the frame.
// FRAME:      func.func @main(%[[X:.*]]: tensor<1x9x10x1xui8> {graph.name = "camera", graph.pixels =
// FRAME-SAME: format = "nv12"
// FRAME-NEXT: graph.decode_frame nv12 to rgb nearest %[[X]] {crop = array<i64: 0, 1, 6, 7>} : (tensor<1x9x10x1xui8>) -> tensor<1x4x5x3xui8>
// FRAME-NEXT: graph.cast
func.func @main(%x: tensor<1x3x4x5xf32> {graph.name = "camera", graph.range = array<f32: 0.0, 1.0>}) -> tensor<1x3x4x5xf32> {
  %0 = graph.unary <relu> %x : tensor<1x3x4x5xf32>
  func.return %0 : tensor<1x3x4x5xf32>
}
