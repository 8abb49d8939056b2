// RUN: ceras-opt %s --calibrate=observer=minmax 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=NOTE < %t

// NOTE: observe-ranges: warning: no calibration data for 3 values

// The value before the function has a range too: it indexes the table. 0.997 is more than 127
// steps of 2^-7, by half a step; a product of that by itself is not.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    graph.exponent = -6 : i64}
// CHECK-NEXT:    %[[A:.*]] = graph.binary mul %{{.*}} {graph.range = {{.*}}, graph.exponent = -7 : i64}
// CHECK-NEXT:    graph.unary <sigmoid> %[[A]] {graph.range = {{.*}}, graph.exponent = -7 : i64}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = graph.binary mul %x, %x {activation = #graph.function<sigmoid>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  func.return %a : tensor<64xf32>
}
