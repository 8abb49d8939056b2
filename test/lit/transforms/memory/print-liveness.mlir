// RUN: ceras-opt %s --print-liveness -o /dev/null 2>&1 | filecheck %s
// RUN: ceras-opt %s --print-liveness="io=true alignment=1" -o /dev/null 2>&1 | filecheck %s --check-prefix=IO
// RUN: ceras-opt %s --print-liveness 2>/dev/null | filecheck %s --check-prefix=SAME

// The reshape is the same bytes, and a relu writes over what it reads last.
// CHECK:      liveness of @main: 6 steps, 3 buffers, at most 64 bytes alive at step 4 'graph.matmul at line
// CHECK-NEXT: buffer  bytes  alive   steps   meets  values
// CHECK-NEXT: 0     32  [0, 5)  #####.  1,2    graph.concat at line {{.*}} = graph.reshape at line {{.*}} = graph.unary at line
// CHECK-NEXT: 1     16  [2, 6)  ..####  0,2    graph.unary at line
// CHECK-NEXT: 2      4  [4, 6)  ....##  0,1    graph.matmul at line

// IO:      liveness of @main: 6 steps, 4 buffers, at most 52 bytes
// IO-NEXT: buffer
// IO-NEXT: 0     16  [0, 6)  ######  1,2,3  x = graph.unary at line
// IO:      3     16  [5, 6)  .....#  0,2    graph.binary at line

// SAME-NOT: mem.
// SAME:     graph.binary
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> tensor<1x4xf32> {
  %a = graph.concat %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %b = graph.reshape %a : (tensor<8xf32>) -> tensor<1x8xf32>
  %c = graph.unary <relu> %x : tensor<4xf32>
  %s = graph.unary <relu> %b : tensor<1x8xf32>
  %w = graph.constant dense<1.0> : tensor<1x8xf32> : tensor<1x8xf32>
  %d = graph.matmul %s, %w : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x1xf32>
  %e = graph.binary add %d, %c : (tensor<1x1xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return %e : tensor<1x4xf32>
}
