// RUN: python3 -c "import numpy; r = numpy.random.default_rng(0).integers(8, 25, (32, 4, 1)) / 16; numpy.savez('%t.npz', input0=numpy.float32(r * [1, -1]), input1=numpy.float32(r + [0, 1 / 16]))"
// RUN: ceras-opt %s --calibrate="calibration=%t.npz observer=minmax" --choose-precision="calibration=%t.npz budget=1" 2>/dev/null | filecheck %s

// A product of two computed values reads both in 8 bits. 16 bits for what floats make would help
// nobody, for the caller reads floats. The products are small differences of large ones.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> (tensor<4x4xf32>, tensor<4x2xf32>) {
  // CHECK: graph.unary <cos> %y {{.*}}graph.precision = "f32"
  %0 = graph.unary <cos> %y {graph.precision = "f32"} : tensor<4x2xf32>
  // CHECK: graph.matmul {{.*}}graph.precision = "i16"
  %1 = graph.matmul %x, %0 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32> loc("products")
  func.return %1, %0 : tensor<4x4xf32>, tensor<4x2xf32>
}
