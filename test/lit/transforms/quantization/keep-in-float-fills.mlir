// RUN: ceras-opt %s --keep-in-float="rules=fills" --split-input-file | filecheck %s

// The greatest of each cell, and 0 in cells without a point: -1e9 beside numbers of 8 bits.
// CHECK-LABEL: func.func @main
// CHECK:       graph.unary <tanh> %x :
// CHECK:       graph.put {{.*}}graph.precision = "f32", graph.float_reason = "may have a fill value, which leaves int8 no steps
// CHECK:       graph.reshape {{.*}}graph.precision = "f32"
// CHECK:       graph.unary <relu> {{.*}}graph.precision = "f32"
// CHECK-NOT:   graph.precision
// CHECK:       func.return
func.func @main(%x: tensor<6x2xf32>, %at: tensor<6xi64>) -> tensor<8xf32> {
  %0 = graph.unary <tanh> %x : tensor<6x2xf32>
  %none = graph.constant dense<-1.0e9> : tensor<4x2xf32> : tensor<4x2xf32>
  %1 = graph.put %0 into %none[%at] by max : (tensor<4x2xf32>, tensor<6xi64>, tensor<6x2xf32>) -> tensor<4x2xf32>
  %2 = graph.reshape %1 : (tensor<4x2xf32>) -> tensor<8xf32>
  %3 = graph.unary <relu> %2 : tensor<8xf32>
  %4 = graph.unary <tanh> %3 : tensor<8xf32>
  func.return %4 : tensor<8xf32>
}

// -----

// A selection, the maximum of it and another value, and that of its rows; a bound ends it.
// CHECK-LABEL: func.func @main
// CHECK:       graph.select {{.*}}graph.precision = "f32"
// CHECK:       graph.binary max {{.*}}graph.precision = "f32"
// CHECK:       graph.reduce {{.*}}graph.precision = "f32"
// CHECK:       graph.unary <tanh> {{.*}}graph.precision = "f32"
// CHECK-NOT:   graph.precision
// CHECK:       func.return
func.func @main(%c: tensor<3x4xi1>, %x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x1xf32> {
  %fill = graph.constant dense<-65504.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.select %c, %x, %fill : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<1xf32>) -> tensor<3x4xf32>
  %1 = graph.binary max %0, %y : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = graph.reduce max %1 {axes = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %3 = graph.unary <tanh> %2 : tensor<3x1xf32>
  %4 = graph.unary <exp> %3 : tensor<3x1xf32>
  func.return %4 : tensor<3x1xf32>
}

// -----

// Large factors and bounds are no fills, nor are large numbers of another type.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   graph.precision
func.func @main(%c: tensor<3x4xi1>, %x: tensor<3x4xf32>, %i: tensor<3x4xi64>) -> (tensor<3x4xf32>, tensor<3x4xi64>) {
  %large = graph.constant dense<20000.0> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary mul %x, %large : (tensor<3x4xf32>, tensor<1xf32>) -> tensor<3x4xf32>
  %1 = graph.binary min %0, %large : (tensor<3x4xf32>, tensor<1xf32>) -> tensor<3x4xf32>
  %far = graph.constant dense<20000> : tensor<1xi64> : tensor<1xi64>
  %2 = graph.select %c, %i, %far : (tensor<3x4xi1>, tensor<3x4xi64>, tensor<1xi64>) -> tensor<3x4xi64>
  func.return %1, %2 : tensor<3x4xf32>, tensor<3x4xi64>
}

// -----

// Cells without a point have -inf, which IsInf finds by its magnitude.
// CHECK-LABEL: func.func @main
// CHECK:       graph.put {{.*}}graph.precision = "f32"
// CHECK:       graph.unary <leaky_relu, -1.0> {{.*}}graph.precision = "f32"
// CHECK:       graph.reshape {{.*}}graph.precision = "f32"
// CHECK:       graph.compare {{.*}}graph.precision = "f32"
// CHECK:       graph.select {{.*}}graph.precision = "f32"
func.func @main(%x: tensor<6x2xf32>, %at: tensor<6xi64>) -> tensor<8xf32> {
  %none = graph.constant dense<0xFF800000> : tensor<4x2xf32> : tensor<4x2xf32>
  %0 = graph.put %x into %none[%at] by max : (tensor<4x2xf32>, tensor<6xi64>, tensor<6x2xf32>) -> tensor<4x2xf32>
  %1 = graph.unary <leaky_relu, -1.0> %0 : tensor<4x2xf32>
  %2 = graph.reshape %1 : (tensor<4x2xf32>) -> tensor<8xf32>
  %inf = graph.constant dense<0x7F800000> : tensor<1xf32> : tensor<1xf32>
  %3 = graph.compare equal %2, %inf : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xi1>
  %zero = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %4 = graph.reshape %0 : (tensor<4x2xf32>) -> tensor<8xf32>
  %5 = graph.select %3, %zero, %4 : (tensor<8xi1>, tensor<1xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %5 : tensor<8xf32>
}
