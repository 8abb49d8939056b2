// RUN: ceras-opt %s --verify-diagnostics --split-input-file

func.func @rank(%x: tensor<2x8x1xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{input must have rank 2, got shape (2, 8, 1)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8x1xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @input(%x: tensor<2x8xi8>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{input must be f32, got i8}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xi8>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @bits(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{bits must be 2, 4 or 8, got 3}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 3 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @unit(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{block must be a positive multiple of 8, got 12}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 12 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @zero(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{block must be a positive multiple of 16, got 0}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 2 : i64, block = 0 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @weights_rank(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[24, 1, 200, 9]> : tensor<4xui8> : tensor<4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{weights must have rank 2, got shape (4,)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @computed(%x: tensor<2x8xf32>, %v: tensor<1x4xui8>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{weights must be a constant}}
  %0 = graph.block_matmul %x, %v scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @computed_scales(%x: tensor<2x8xf32>, %v: tensor<1x1xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{scales must be a constant}}
  %0 = graph.block_matmul %x, %w scales %v : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @signed(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 100, 9]]> : tensor<1x4xi8> : tensor<1x4xi8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{weights must be packed in ui8, got i8}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xi8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @packed(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200]]> : tensor<1x3xui8> : tensor<1x3xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{weights must have shape (1, 4), got (1, 3)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x3xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @scales(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  // expected-error@+1 {{scales must have shape (1, 1), got (1, 2)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x2xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @scale_type(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[1]]> : tensor<1x1xi8> : tensor<1x1xi8>
  // expected-error@+1 {{scales must be f16 or f32, got i8}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xi8> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @infinite(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0x7F800000]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{scales must be finite}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @points(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %p = graph.constant dense<[[1, 2]]> : tensor<1x2xui8> : tensor<1x2xui8>
  // expected-error@+1 {{points must have shape (1, 1), got (1, 2)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> points %p : tensor<1x2xui8> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @point_type(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %p = graph.constant dense<[[1]]> : tensor<1x1xi8> : tensor<1x1xi8>
  // expected-error@+1 {{points must be a constant of ui8}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> points %p : tensor<1x1xi8> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @point(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %p = graph.constant dense<[[16]]> : tensor<1x1xui8> : tensor<1x1xui8>
  // expected-error@+1 {{points must be in [0, 15], got 16}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> points %p : tensor<1x1xui8> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @result(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{result must have shape (2, 1), got (2, 2)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @result_type(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{result must be f32, got i8}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xi8>
  func.return
}

// -----

func.func @bias(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // expected-error@+1 {{bias must have shape (1,), got (2,)}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> bias %b : tensor<2xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @bias_type(%x: tensor<2x8xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  %b = graph.constant dense<[1]> : tensor<1xi32> : tensor<1xi32>
  // expected-error@+1 {{bias must be f32, got i32}}
  %0 = graph.block_matmul %x, %w scales %s : tensor<1x1xf32> bias %b : tensor<1xi32> {bits = 4 : i64, block = 8 : i64} : (tensor<2x8xf32>, tensor<1x4xui8>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @indices_rank(%x: tensor<1x2xi64>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{indices must have rank 1, got shape (1, 2)}}
  %0 = graph.block_take %w[%x] scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<1x2xi64>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @indices(%x: tensor<2xf32>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{indices must be integers, got f32}}
  %0 = graph.block_take %w[%x] scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<2xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @rows(%x: tensor<2xi64>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{result must have shape (2, 8), got (3, 8)}}
  %0 = graph.block_take %w[%x] scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<2xi64>) -> tensor<3x8xf32>
  func.return
}

// -----

func.func @rows_rank(%x: tensor<2xi64>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{result must have rank 2, got shape (2,)}}
  %0 = graph.block_take %w[%x] scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<2xi64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @rows_type(%x: tensor<2xi64>) {
  %w = graph.constant dense<[[24, 1, 200, 9]]> : tensor<1x4xui8> : tensor<1x4xui8>
  %s = graph.constant dense<[[0.5]]> : tensor<1x1xf32> : tensor<1x1xf32>
  // expected-error@+1 {{result must be f32, got i8}}
  %0 = graph.block_take %w[%x] scales %s : tensor<1x1xf32> {bits = 4 : i64, block = 8 : i64} : (tensor<1x4xui8>, tensor<2xi64>) -> tensor<2x8xi8>
  func.return
}
