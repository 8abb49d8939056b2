// The operators of the CPU, each for one checked layer, and those of the FPGA's circuits.
#pragma once

#include "model.h"

namespace ceras {

void conv2d_integer(const Layer& layer, Scratch& scratch);
void conv2d_depthwise(const Layer& layer, Scratch& scratch);
void conv2d_float(const Layer& layer, Scratch& scratch);
int64_t linear_scratch_bytes(const Layer& layer);
bool is_depthwise(const Layer& layer);

void pool2d_maximum(const Layer& layer, Scratch& scratch);
void pool2d_average(const Layer& layer, Scratch& scratch);
void pool2d_float(const Layer& layer, Scratch& scratch);

void unary(const Layer& layer, Scratch& scratch);
void binary_integer(const Layer& layer, Scratch& scratch);
void binary_float(const Layer& layer, Scratch& scratch);
void lookup(const Layer& layer, Scratch& scratch);
void shift_swish(const Layer& layer, Scratch& scratch);
void softmax(const Layer& layer, Scratch& scratch);
void quantize(const Layer& layer, Scratch& scratch);
void dequantize(const Layer& layer, Scratch& scratch);
void requantize_layer(const Layer& layer, Scratch& scratch);

void reshape(const Layer& layer, Scratch& scratch);
void transpose(const Layer& layer, Scratch& scratch);
void slice(const Layer& layer, Scratch& scratch);
void pad(const Layer& layer, Scratch& scratch);
void concat(const Layer& layer, Scratch& scratch);
void resize_nearest(const Layer& layer, Scratch& scratch);
void resize_linear(const Layer& layer, Scratch& scratch);

void fpga_linear(const Layer& layer, Scratch& scratch);
void fpga_pool2d(const Layer& layer, Scratch& scratch);
void fpga_add(const Layer& layer, Scratch& scratch);

}  // namespace ceras
