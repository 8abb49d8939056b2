// The wrapper of a circuit, with the bus bench.
#pragma once

#include "Vcircuit_axi.h"
#define AXI_TOP Vcircuit_axi
#define S(name) top.s_axi_##name
#define M(name) top.m_axi_##name
#define AXI_CLOCK top.aclk
#define AXI_RESET(on) top.aresetn = !(on)
#include "axi_bench.h"
#include "verilated.h"
