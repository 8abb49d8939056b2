// RUN: ceras-opt %s --keep-in-float="rules=moves" --split-input-file | filecheck %s
// RUN: ceras-opt %s --quantize=recipe=none --split-input-file 2>/dev/null | filecheck %s --check-prefix=STORED
// RUN: ceras-opt %s --quantize="recipe=none tail=int8" --split-input-file 2>/dev/null | filecheck %s --check-prefix=INT8

// Only the last step of a recurrent layer becomes integers, which alone reads it. The caller reads
// all steps, as floats.
!steps = tensor<3x1x2xf32>
// CHECK-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
func.func @main(%x: !steps, %h: tensor<1x2xf32>) -> (tensor<1x2xf32>, !steps) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]} : (!steps, tensor<2x2xf32>, tensor<1x2xf32>) -> !steps
  // CHECK: graph.slice {{.*}}graph.precision = "f32", graph.float_reason = "takes a part of a float value: only that is rounded"
  // STORED: graph.slice {{.*}} -> tensor<1x1x2xf32>
  // STORED-NEXT: graph.quantize {{.*}}tensor<1x1x2x
  %s = graph.slice %y {starts = array<i64: 2, 0, 0>, strides = array<i64: 1, 1, 1>} : (!steps) -> tensor<1x1x2xf32>
  %l = graph.reshape %s : (tensor<1x1x2xf32>) -> tensor<1x2xf32>
  %m = graph.matmul %l, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %m, %y : tensor<1x2xf32>, !steps
}

// -----

// Other integers read all steps: they are stored, and a part of them is.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: f32",
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<3x1x2xf32>, %h: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<3x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %y = graph.recurrence rnn %x, %w, %h {functions = [#graph.function<tanh>]} : (tensor<3x1x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x1x2xf32>
  %r = graph.reshape %y : (tensor<3x1x2xf32>) -> tensor<3x2xf32>
  // STORED: graph.slice {{.*}} -> tensor<1x2x!quant.uniform
  %l = graph.slice %r {starts = array<i64: 2, 0>, strides = array<i64: 1, 1>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %m = graph.matmul %l, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %n = graph.matmul %r, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %m, %n : tensor<1x2xf32>, tensor<3x2xf32>
}

// -----

// Parts of an input are integers: it is stored once, and a caller may hand it over so.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: f32",
// STORED-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: tensor<3x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %l = graph.slice %x {starts = array<i64: 2, 0>, strides = array<i64: 1, 1>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %m = graph.matmul %l, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %m : tensor<1x2xf32>
}

// -----

// Integers read two parts of an input, each for itself: they have a scale each. No copy in 8 bits
// of the whole input stands in front of them.
// CHECK-LABEL: func.func @main(
// CHECK: %l = graph.slice %x {graph.precision = "f32", graph.float_reason = "takes a part of an input
// CHECK: %k = graph.slice %x {graph.precision = "f32"
// STORED-LABEL: func.func @main(
// STORED-NOT: graph.quantize %x
// STORED: %l = graph.slice %x {graph.precision = "f32"
// STORED: %k = graph.slice %x {graph.precision = "f32"
func.func @main(%x: tensor<3x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %l = graph.slice %x {starts = array<i64: 2, 0>, strides = array<i64: 1, 1>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %k = graph.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %m = graph.matmul %l, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %n = graph.binary add %m, %k : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %o = graph.matmul %n, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %o : tensor<1x2xf32>
}

// -----

// Parts that are joined again have one scale.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: f32",
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<2x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[0.5, -0.25, 1.0, 2.0], [1.5, 0.0, 1.0, 2.0]]> : tensor<2x4xf32> : tensor<2x4xf32>
  %l = graph.slice %x {starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %k = graph.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %j = graph.concat %l, %k {axis = 1 : i64} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x4xf32>
  %m = graph.matmul %j, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return %m : tensor<1x2xf32>
}

// -----

// A cache comes back one row longer. What was there comes back as it came, and products read it in
// 8 bits. Where the caller has integers the cache has them too.
// CHECK-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
// INT8-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>, %past: tensor<3x2xf32>) -> (tensor<1x4xf32>, tensor<4x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %k = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // CHECK: graph.concat {{.*}}graph.precision = "f32", graph.float_reason = "returns an input to the caller unchanged"
  // STORED: [[CACHE:%.+]] = graph.concat %past, {{.*}} -> tensor<4x2xf32>
  // STORED: graph.quantize [[CACHE]]
  // STORED: func.return {{.*}}, [[CACHE]] :
  // INT8: graph.concat {{.*}} -> tensor<4x2x!quant.uniform
  %p = graph.concat %past, %k {axis = 0 : i64} : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32>
  %s = graph.matmul %x, %p : (tensor<1x2xf32>, tensor<4x2xf32>) -> tensor<1x4xf32>
  func.return %s, %p : tensor<1x4xf32>, tensor<4x2xf32>
}

// -----

// Of a cache with room to spare indices take the rows that come back.
// CHECK-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<1x2xf32>, %past: tensor<3x2xf32>) -> (tensor<1x3xf32>, tensor<3x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %i = graph.constant dense<[0, 3, 2]> : tensor<3xi64> : tensor<3xi64>
  %k = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // CHECK: graph.concat {{.*}}graph.precision = "f32", graph.float_reason = "returns an input to the caller unchanged"
  // STORED: [[JOINED:%.+]] = graph.concat %past, {{.*}} -> tensor<4x2xf32>
  // STORED: [[CACHE:%.+]] = graph.take [[JOINED]]
  // STORED: graph.quantize [[CACHE]]
  // STORED: func.return {{.*}}, [[CACHE]] :
  %p = graph.concat %past, %k {axis = 0 : i64} : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32>
  %t = graph.take %p[%i] : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %s = graph.matmul %x, %t : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<1x3xf32>
  func.return %s, %t : tensor<1x3xf32>, tensor<3x2xf32>
}

// -----

// Rows that indices take of integers are integers. Of what floats compute only those are rounded.
// CHECK-LABEL: func.func @main(
// STORED-LABEL: func.func @main(
func.func @main(%x: tensor<2x2xf32>, %i: tensor<3xi64>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %k = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: graph.take {{.*}} : (tensor<2x2xf32>
  // STORED: graph.take {{.*}} : (tensor<2x2x!quant.uniform
  %t = graph.take %k[%i] : (tensor<2x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %a = graph.matmul %t, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %f = graph.unary <tanh> %x {graph.precision = "f32"} : tensor<2x2xf32>
  // CHECK: graph.take {{.*}}graph.float_reason = "takes a part of a float value
  // STORED: graph.take {{.*}} : (tensor<2x2xf32>
  %u = graph.take %f[%i] : (tensor<2x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %b = graph.matmul %u, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %a, %b : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// A state of the network is stored as integers, and so is what joins it.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: f32",
func.func @main(%x: tensor<1x2xf32>, %past: tensor<3x2xf32> {graph.name = "past", graph.state = "next"}) -> (tensor<1x4xf32>, tensor<3x2xf32> {graph.name = "next"}) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %k = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %p = graph.concat %past, %k {axis = 0 : i64} : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32>
  %n = graph.slice %p {starts = array<i64: 1, 0>, strides = array<i64: 1, 1>} : (tensor<4x2xf32>) -> tensor<3x2xf32>
  %s = graph.matmul %x, %p : (tensor<1x2xf32>, tensor<4x2xf32>) -> tensor<1x4xf32>
  func.return %s, %n : tensor<1x4xf32>, tensor<3x2xf32>
}

// -----

// Nor is an input that a state takes in handed back to anybody.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: f32",
func.func @main(%x: tensor<2x2xf32>, %past: tensor<2x2xf32> {graph.name = "past", graph.state = "next"}) -> (tensor<2x4xf32>, tensor<2x2xf32> {graph.name = "next"}) {
  %p = graph.concat %past, %x {axis = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %n = graph.slice %p {starts = array<i64: 2, 0>, strides = array<i64: 1, 1>} : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %s = graph.matmul %x, %p : (tensor<2x2xf32>, tensor<4x2xf32>) -> tensor<2x4xf32>
  func.return %s, %n : tensor<2x4xf32>, tensor<2x2xf32>
}

// -----

// Most of it is new: rounding all of it once more would take time.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: f32",
func.func @main(%x: tensor<3x2xf32>, %past: tensor<1x2xf32>) -> (tensor<3x4xf32>, tensor<4x2xf32>) {
  %w = graph.constant dense<[[0.5, -0.25], [1.5, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %k = graph.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %p = graph.concat %past, %k {axis = 0 : i64} : (tensor<1x2xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = graph.matmul %x, %p : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  func.return %s, %p : tensor<3x4xf32>, tensor<4x2xf32>
}
