// RUN: ceras-opt %s --clear-plan | filecheck %s
// RUN: ceras-opt %s --allocate-blocks="io=true in-slices=true" --clear-plan | filecheck %s

// Nothing of a plan is left, of arguments and of bodies of loops either; devices stay.
// CHECK-NOT: mem.block
// CHECK-NOT: mem.arena
// CHECK-NOT: mem.copied
// CHECK:     func.func @main(%{{.*}}: tensor<4xf32> {graph.name = "x"})
// CHECK:     graph.unary <relu> %{{.*}} {mem.device = #mem.device<cpu>} : tensor<4xf32>
// CHECK-NOT: mem.block
func.func @main(%x: tensor<4xf32> {graph.name = "x", mem.block = #mem.block<id = 0, offset = 0, size = 16>})
    -> tensor<8xf32> attributes {mem.arena = #mem.arena<size = 64, alignment = 16>} {
  %y = graph.unary <relu> %x {mem.block = #mem.block<id = 1, offset = 16, size = 16>, mem.device = #mem.device<cpu>}
      : tensor<4xf32>
  %z = graph.concat %x, %y {axis = 0 : i64, mem.block = #mem.block<id = 2, offset = 32, size = 32>, mem.copied = "why"}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  func.return %z : tensor<8xf32>
}
