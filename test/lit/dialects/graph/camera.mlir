// RUN: ceras-opt %s | ceras-opt | filecheck %s
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// CHECK-LABEL: func.func @camera
func.func @camera(%x: tensor<1x36x32x1xui8>, %w: tensor<1x5x7x2xui8>) {
  // CHECK-NEXT: graph.decode_frame nv12 to rgb linear %{{.*}} {crop = array<i64: 0, 4, 24, 24>} : (tensor<1x36x32x1xui8>) -> tensor<1x12x12x3xui8>
  %0 = graph.decode_frame nv12 to rgb linear %x {crop = array<i64: 0, 4, 24, 24>} : (tensor<1x36x32x1xui8>) -> tensor<1x12x12x3xui8>
  // CHECK-NEXT: graph.decode_frame rggb to bgr nearest %{{.*}} {crop = array<i64: 35, 31, 1, 1>} : (tensor<1x36x32x1xui8>) -> tensor<1x2x3x3xui8>
  %1 = graph.decode_frame rggb to bgr nearest %x {crop = array<i64: 35, 31, 1, 1>} : (tensor<1x36x32x1xui8>) -> tensor<1x2x3x3xui8>
  // CHECK-NEXT: graph.decode_frame rgb565_le to gray linear %{{.*}} {crop = array<i64: 0, 0, 5, 7>} : (tensor<1x5x7x2xui8>) -> tensor<1x5x7x1xui8>
  %2 = graph.decode_frame rgb565_le to gray linear %w {crop = array<i64: 0, 0, 5, 7>} : (tensor<1x5x7x2xui8>) -> tensor<1x5x7x1xui8>
  func.return
}
