// RUN: %if nnet %{ ceras-opt %s --place="target=nnet board=%S/../../transforms/Inputs/board.toml" | filecheck %s --check-prefix=COST %}
// RUN: %if nnet %{ ceras-opt %s --place="target=nnet" | filecheck %s --check-prefix=RULES %}
// RUN: %if nnet %{ ceras-opt %s --place="target=nnet board=%S/../../transforms/Inputs/board.toml" --place="target=nnet" | filecheck %s --check-prefix=RULES %}
// RUN: %if nnet %{ not ceras-opt %s --place="target=nnet cpu=nowhere" 2>&1 | filecheck %s --check-prefix=NOWHERE %}
// RUN: not ceras-opt %s --place="target=c cpu=x" 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: %if vta %{ ceras-opt %s --place="target=vta board=de10nano" | filecheck %s --check-prefix=VTA %}
// RUN: %if nnet %{ not ceras-opt %s --place="target=nnet board=x" 2>&1 | filecheck %s --check-prefix=BOARD %}

// Two adds of 512 bytes take 16 us on the CPU; on the FPGA 2 us, and 10 us for two transfers of
// 256 bytes. The last pool would save nothing.
// COST:      graph.binary add {{.*}}mem.cost = "cpu 8.0 us, fpga 1.0 us", mem.device = #mem.device<fpga>
// COST-NEXT: graph.binary add {{.*}}mem.cost = "cpu 8.0 us, fpga 1.0 us", mem.device = #mem.device<fpga>
// COST-NEXT: graph.pool2d max {{.*}}mem.device = #mem.device<cpu>, mem.reason = "a window of 4 exceeds the 2 of the board's circuit"
// COST-NEXT: graph.pool2d max {{.*}}mem.device = #mem.device<cpu>, mem.reason = "less total time on the CPU (cpu 0.7 us, fpga 1.0 us, plus transfers)"

// RULES-NOT:     mem.cost
// RULES-COUNT-4: mem.device = #mem.device<fpga>

// NOWHERE: place: no node 'nowhere' in the network (nodes: 
// TARGET:  place: cpu, accelerator and board require a target with accelerator

// VTA takes nothing that the host has in its hands already.
// VTA-COUNT-4: mem.device = #mem.device<cpu>, mem.reason = "less total time on the CPU (cpu
// BOARD:   target nnet has no board 'x' (boards: ceras_zcu104; or a .toml file)
func.func @main(%x: tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x16x!quant.uniform<i8:f32, 0.5>> {
  %0 = graph.binary add %x, %x {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>
  %1 = graph.binary add %0, %0 {requant = #graph.requant<shift = 0, rounding = half_up, low = -128, high = 127>} : (tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>, tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>
  %2 = graph.pool2d max %1 {kernel = array<i64: 4, 4>} : (tensor<1x4x4x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x16x!quant.uniform<i8:f32, 0.5>>
  %3 = graph.pool2d max %2 {kernel = array<i64: 1, 1>} : (tensor<1x1x1x16x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x1x16x!quant.uniform<i8:f32, 0.5>>
  func.return %3 : tensor<1x1x1x16x!quant.uniform<i8:f32, 0.5>>
}
