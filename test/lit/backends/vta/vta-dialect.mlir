// RUN: ceras-opt %s | filecheck %s
// RUN: ceras-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: ceras-opt %s --print-op-generic | ceras-opt | filecheck %s

// Every instruction, with and without what can be left out.
// CHECK-LABEL: vta.program @launch uops at 64 dense<[[0, 0, 0], [1, 1, 2]]> : tensor<2x3xi16> {
// CHECK-NEXT:    vta.load uop sram 0 dram 64 size [1, 2] stride 2
// CHECK-NEXT:    vta.load inp sram 0 dram 3 size [2, 4] stride 7 pad [1, 1, 0, 2]
// CHECK-NEXT:    vta.load wgt sram 4 dram 9 size [1, 8] stride 8 push_next
// CHECK-NEXT:    vta.load acc sram 0 dram 5 size [1, 8] stride 8
// CHECK-NEXT:    vta.gemm reset uops [0, 2] iter [4, 1] dst [2, 0]
// CHECK-NEXT:    vta.gemm uops [0, 2] iter [4, 3] dst [2, 0] src [2, 1] wgt [0, 3] pop_prev push_prev
// CHECK-NEXT:    vta.alu add uops [0, 2] iter [4, 1] dst [2, 0] src [2, 0] imm -5
// CHECK-NEXT:    vta.alu max uops [0, 2] iter [4, 1] push_next
// CHECK-NEXT:    vta.store sram 0 dram 5 size [1, 8] stride 8 pop_prev push_prev
// CHECK-NEXT:    vta.load inp sram 0 dram 0 size [0, 0] stride 0 pop_next
// CHECK-NEXT:    vta.load uop sram 0 dram 0 size [0, 0] stride 0 pop_next
// CHECK-NEXT:    vta.finish
// CHECK-NEXT:  }

// GENERIC:       "vta.program"() <{sym_name = "launch", uop_base = 64 : i64
// GENERIC:       "vta.load"() <{memory = #vta<memory inp>, sram_base = 0 : i64, dram_base = 3 : i64, size = array<i64: 2, 4>, stride = 7 : i64, pad = array<i64: 1, 1, 0, 2>}>
// GENERIC:       "vta.alu"() <{operator = #vta<alu_operator add>, uops = array<i64: 0, 2>{{.*}}, imm = -5 : i64}>
vta.program @launch uops at 64 dense<[[0, 0, 0], [1, 1, 2]]> : tensor<2x3xi16> {
  vta.load uop sram 0 dram 64 size [1, 2] stride 2
  vta.load inp sram 0 dram 3 size [2, 4] stride 7 pad [1, 1, 0, 2]
  vta.load wgt sram 4 dram 9 size [1, 8] stride 8 push_next
  vta.load acc sram 0 dram 5 size [1, 8] stride 8
  vta.gemm reset uops [0, 2] iter [4, 1] dst [2, 0]
  vta.gemm uops [0, 2] iter [4, 3] dst [2, 0] src [2, 1] wgt [0, 3] pop_prev push_prev
  vta.alu add uops [0, 2] iter [4, 1] dst [2, 0] src [2, 0] imm -5
  vta.alu max uops [0, 2] iter [4, 1] push_next
  vta.store sram 0 dram 5 size [1, 8] stride 8 pop_prev push_prev
  vta.load inp sram 0 dram 0 size [0, 0] stride 0 pop_next
  vta.load uop sram 0 dram 0 size [0, 0] stride 0 pop_next
  vta.finish
}

// A program of nothing, with attributes.
// CHECK-LABEL: vta.program @empty uops at 0 dense<> : tensor<0x3xi16> attributes {note = "none"} {
// CHECK-NEXT:    vta.finish {last}
vta.program @empty uops at 0 dense<> : tensor<0x3xi16> attributes {note = "none"} {
  vta.finish {last}
}
