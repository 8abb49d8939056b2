// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @odd(%x: tensor<1x5x7x2xui8>) {
  // expected-error@+1 {{frames of format yuyv have an even width, got 7}}
  %0 = graph.decode_frame yuyv to rgb linear %x {crop = array<i64: 0, 0, 5, 7>} : (tensor<1x5x7x2xui8>) -> tensor<1x5x7x3xui8>
  func.return
}

// -----

func.func @bytes(%x: tensor<1x5x8x3xui8>) {
  // expected-error@+1 {{input must have shape (1, 5, 8, 2), got (1, 5, 8, 3)}}
  %0 = graph.decode_frame yuyv to rgb linear %x {crop = array<i64: 0, 0, 5, 7>} : (tensor<1x5x8x3xui8>) -> tensor<1x5x7x3xui8>
  func.return
}

// -----

func.func @channels(%x: tensor<1x5x8x1xui8>) {
  // expected-error@+1 {{result must have shape (1, 5, 7, 1), got (1, 5, 7, 3)}}
  %0 = graph.decode_frame gray to gray linear %x {crop = array<i64: 0, 0, 5, 7>} : (tensor<1x5x8x1xui8>) -> tensor<1x5x7x3xui8>
  func.return
}

// -----

func.func @crop(%x: tensor<1x5x8x1xui8>) {
  // expected-error@+1 {{crop [0, 2, 5, 7] is not inside of 5x8 pixels}}
  %0 = graph.decode_frame gray to gray linear %x {crop = array<i64: 0, 2, 5, 7>} : (tensor<1x5x8x1xui8>) -> tensor<1x5x7x1xui8>
  func.return
}

// -----

func.func @element(%x: tensor<1x5x8x1xf32>) {
  // expected-error@+1 {{a frame and an image have elements of ui8}}
  %0 = graph.decode_frame gray to gray linear %x {crop = array<i64: 0, 0, 5, 7>} : (tensor<1x5x8x1xf32>) -> tensor<1x5x7x1xui8>
  func.return
}
