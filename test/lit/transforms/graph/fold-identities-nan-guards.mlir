// RUN: ceras-opt %s --fold-identities="rules=nan-guards" --split-input-file | filecheck %s

// Masks that leave a number in each row: finite ones, and -inf above the diagonal.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.select
// CHECK: [[P:%[a-z0-9]+]] = graph.softmax
// CHECK-NOT: graph.select
// CHECK: [[Q:%[a-z0-9]+]] = graph.softmax
// CHECK-NEXT: func.return [[P]], [[Q]]
func.func @main(%x: tensor<2x2xf32> {graph.name = "x"}) -> (tensor<2x2xf32> {graph.name = "y"}, tensor<2x2xf32> {graph.name = "z"}) {
  %true = graph.constant dense<true> : tensor<1xi1> : tensor<1xi1>
  %zero = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %scale = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %low = graph.constant dense<[[0.0, -3.40282347E+38], [0.0, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %inf = graph.constant dense<[[0.0, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.binary mul %x, %scale : (tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  %1 = graph.binary add %0, %low : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = graph.softmax %1 {axis = 1 : i64} : tensor<2x2xf32>
  %3 = graph.compare equal %2, %2 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %4 = graph.binary xor %3, %true : (tensor<2x2xi1>, tensor<1xi1>) -> tensor<2x2xi1>
  %5 = graph.select %4, %zero, %2 : (tensor<2x2xi1>, tensor<1xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = graph.binary add %0, %inf : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %7 = graph.softmax %6 {axis = 1 : i64} : tensor<2x2xf32>
  %8 = graph.compare equal %7, %7 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %9 = graph.select %8, %7, %zero : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  func.return %5, %9 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A row that is hidden, two masks that are infinite together, and roots, which may be no numbers.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: graph.select
func.func @main(%x: tensor<2x2xf32> {graph.name = "x"}) -> (tensor<2x2xf32> {graph.name = "y"}, tensor<2x2xf32> {graph.name = "z"}, tensor<2x2xf32> {graph.name = "w"}) {
  %zero = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %inf = graph.constant dense<[[0xFF800000, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %low = graph.constant dense<[[0.0, -3.40282347E+38], [0.0, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.binary add %x, %inf : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = graph.softmax %0 {axis = 1 : i64} : tensor<2x2xf32>
  %2 = graph.compare equal %1, %1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %3 = graph.select %2, %1, %zero : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  %4 = graph.binary add %x, %low : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = graph.binary add %4, %low : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = graph.softmax %5 {axis = 1 : i64} : tensor<2x2xf32>
  %7 = graph.compare equal %6, %6 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %8 = graph.select %7, %6, %zero : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  %9 = graph.unary <sqrt> %x : tensor<2x2xf32>
  %10 = graph.softmax %9 {axis = 1 : i64} : tensor<2x2xf32>
  %11 = graph.compare equal %10, %10 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %12 = graph.select %11, %10, %zero : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  func.return %3, %8, %12 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
