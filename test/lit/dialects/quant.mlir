// RUN: ceras-opt %s --allow-unregistered-dialect | ceras-opt --allow-unregistered-dialect | filecheck %s

// CHECK: "test.types"() {{.*}} (!quant.uniform<i8:f32, 0.5>, !quant.uniform<i8:f32, 1.0e-05:-3>, !quant.uniform<i32:f32:1, {0.5, 0.25:7}>, !quant.uniform<u8:f32, 2.0:128>)
"test.types"() : () -> (!quant.uniform<i8:f32, 5.0e-1>, !quant.uniform<i8:f32, 1.0e-05:-3>, !quant.uniform<i32:f32:1, {0.5, 0.25:7}>, !quant.uniform<u8:f32, 2.0:128>)

// CHECK: #graph.requant<multiplier = 5, shift = 3, rounding = half_even, zero_point = -1, low = -2, high = 2>
"test.attributes"() {a = #graph.requant<shift = 3, multiplier = 5, rounding = half_even, high = 2, zero_point = -1, low = -2>} : () -> ()
