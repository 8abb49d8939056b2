// RUN: ceras-opt %s --verify-diagnostics --split-input-file

// One case for each message of a verifier.
vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{sram_base must be in [0, 65535], got 65536}}
  vta.load inp sram 65536 dram 0 size [1, 1] stride 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{size must have 2 values, got 3}}
  vta.load inp sram 0 dram 0 size [1, 1, 1] stride 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{pad must have 4 values, got 1}}
  vta.load inp sram 0 dram 0 size [1, 1] stride 1 pad [1]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{y_pad_bottom must be in [0, 15], got 16}}
  vta.load inp sram 0 dram 0 size [1, 1] stride 1 pad [0, 16, 0, 0]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{wgt loads must have no pads}}
  vta.load wgt sram 0 dram 0 size [1, 1] stride 1 pad [0, 1, 0, 0]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{micro-op loads must have y_size 1, got 2}}
  vta.load uop sram 0 dram 0 size [2, 1] stride 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{acc_8bit loads exist in newer implementations only}}
  vta.load acc_8bit sram 0 dram 0 size [1, 1] stride 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{a no-op (x_size 0) must have no pads}}
  vta.load inp sram 0 dram 0 size [1, 0] stride 1 pad [0, 1, 0, 0]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{y_size must not be 0 unless x_size is}}
  vta.load inp sram 0 dram 0 size [0, 1] stride 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{the load module has no previous module}}
  vta.load inp sram 0 dram 0 size [1, 1] stride 1 pop_prev
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{the store module has no next module}}
  vta.store sram 0 dram 0 size [1, 1] stride 1 push_next
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{y_size must not be 0 unless x_size is}}
  vta.store sram 0 dram 0 size [0, 1] stride 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{empty micro-op range [1, 1)}}
  vta.gemm uops [1, 1] iter [1, 1]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{uop_end must be at most 2048, got 2049}}
  vta.gemm uops [1, 2049] iter [1, 1]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{iterations must be at least 1, got 0 x 1}}
  vta.gemm uops [0, 1] iter [0, 1]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{iter_in must be in [0, 16383], got 16384}}
  vta.gemm uops [0, 1] iter [1, 16384]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{wgt_factor_in must be in [0, 1023], got 1024}}
  vta.gemm uops [0, 1] iter [1, 1] wgt [0, 1024]
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{mul exists in newer implementations only}}
  vta.alu mul uops [0, 1] iter [1, 1] imm 2
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{shift amount must be in [-16, 15], got 16}}
  vta.alu shr uops [0, 1] iter [1, 1] imm 16
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{imm must be in [-32768, 32767], got 40000}}
  vta.alu add uops [0, 1] iter [1, 1] imm 40000
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{an immediate operation must have src factors equal to dst factors, got [0, 0] and [1, 0]}}
  vta.alu add uops [0, 1] iter [1, 1] dst [1, 0] imm 1
  vta.finish
}

// -----

vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  // expected-error@+1 {{finish must carry no tokens}}
  vta.finish pop_prev
}

// -----

// expected-error@+1 {{'vta.finish' expects parent op 'vta.program'}}
vta.finish

// -----

// expected-error@+1 {{micro-ops must be tensor<Nx3xi16> (dst, src, wgt), got tensor<3xi16>}}
vta.program @p uops at 0 dense<0> : tensor<3xi16> {
  vta.finish
}

// -----

// expected-error@+1 {{micro-op 1: index 2 must be in [0, 1023], got 1024}}
vta.program @p uops at 0 dense<[[0, 0, 0], [0, 0, 1024]]> : tensor<2x3xi16> {
  vta.finish
}

// -----

// expected-error@+1 {{uops must be at an element in [0, 2**32), got -1}}
vta.program @p uops at -1 dense<0> : tensor<1x3xi16> {
  vta.finish
}

// -----

// expected-error@+1 {{a program has only vta instructions, got 'builtin.module'}}
vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  builtin.module {
  }
  vta.finish
}

// -----

// expected-error@+1 {{the last instruction must be the only vta.finish}}
vta.program @p uops at 0 dense<0> : tensor<1x3xi16> {
  vta.load inp sram 0 dram 0 size [1, 1] stride 1
}
