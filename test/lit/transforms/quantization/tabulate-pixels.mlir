// RUN: ceras-opt %s --tabulate-pixels --split-input-file | filecheck %s

!q = !quant.uniform<i8:f32, 1.0:-128>

// Cast, scaling and quantization are one table: byte 0 is 0, stored as -128; byte 255 is 127.5,
// rounded to even.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<1x2xui8>)
// CHECK-NEXT:  %[[Y:.*]] = graph.lookup %[[X]], dense<"0x808081828282{{.*}}FF00"> : tensor<256xi8>
// CHECK-SAME:    (tensor<1x2xui8>) -> tensor<1x2x!quant.uniform<i8:f32, 1.0:-128>>
// CHECK-NEXT:  func.return %[[Y]]
func.func @main(%x: tensor<1x2xui8>) -> tensor<1x2x!q> {
  %h = graph.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = graph.cast %x : (tensor<1x2xui8>) -> tensor<1x2xf32>
  %1 = graph.binary mul %0, %h : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
  %2 = graph.quantize %1 : (tensor<1x2xf32>) -> tensor<1x2x!q>
  func.return %2 : tensor<1x2x!q>
}

// -----

!q = !quant.uniform<i8:f32, 1.0:-128>

// Channels in front, two of three alike: bytes are transposed, then looked up in two tables.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:  %[[T:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<3x2xui8>) -> tensor<2x3xui8>
// CHECK-NEXT:  graph.lookup %[[T]], {{.*}} : tensor<2x256xi8> {rows = array<i64: 0, 1, 0>}
// CHECK-SAME:    -> tensor<2x3x!quant.uniform<i8:f32, 1.0:-128>>
// CHECK-NEXT:  func.return
func.func @main(%x: tensor<3x2xui8>) -> tensor<2x3x!q> {
  %m = graph.constant dense<[[0.0], [4.0], [0.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
  %0 = graph.cast %x : (tensor<3x2xui8>) -> tensor<3x2xf32>
  %1 = graph.binary sub %0, %m : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %2 = graph.quantize %1 : (tensor<3x2xf32>) -> tensor<3x2x!q>
  %3 = graph.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<3x2x!q>) -> tensor<2x3x!q>
  func.return %3 : tensor<2x3x!q>
}

// -----

!q = !quant.uniform<i8:f32, 1.0:-128>

// Nothing brings channels to the end; somebody else reads the cast, which stays for him.
// CHECK-LABEL: func.func @main(
// CHECK:       graph.quantize
// CHECK-NEXT:  %[[C:.*]] = graph.cast
// CHECK-NEXT:  %[[Y:.*]] = graph.lookup {{.*}} : tensor<256xi8>
// CHECK-NEXT:  func.return %{{.*}}, %[[C]], %[[Y]]
func.func @main(%x: tensor<3x2xui8>) -> (tensor<3x2x!q>, tensor<3x2xf32>, tensor<3x2x!q>) {
  %m = graph.constant dense<[[0.0], [4.0], [0.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
  %0 = graph.cast %x : (tensor<3x2xui8>) -> tensor<3x2xf32>
  %1 = graph.binary sub %0, %m : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  %2 = graph.quantize %1 : (tensor<3x2xf32>) -> tensor<3x2x!q>
  %3 = graph.cast %x : (tensor<3x2xui8>) -> tensor<3x2xf32>
  %4 = graph.quantize %3 : (tensor<3x2xf32>) -> tensor<3x2x!q>
  func.return %2, %3, %4 : tensor<3x2x!q>, tensor<3x2xf32>, tensor<3x2x!q>
}
