// RUN: ceras-opt %s --allow-unregistered-dialect | ceras-opt --allow-unregistered-dialect | filecheck %s

// CHECK: "test.types"() {{.*}} (!quant.uniform<i8:f32, 0.5>, !quant.uniform<i8:f32, 1.0e-05:-3>, !quant.uniform<i32:f32:1, {0.5, 0.25:7}>, !quant.uniform<u8:f32, 2.0:128>)
"test.types"() : () -> (!quant.uniform<i8:f32, 5.0e-1>, !quant.uniform<i8:f32, 1.0e-05:-3>, !quant.uniform<i32:f32:1, {0.5, 0.25:7}>, !quant.uniform<u8:f32, 2.0:128>)

// CHECK: #graph.requant<multiplier = 5, shift = 3, rounding = half_even, zero_point = -1, low = -2, high = 2>
"test.attributes"() {a = #graph.requant<shift = 3, multiplier = 5, rounding = half_even, high = 2, zero_point = -1, low = -2>} : () -> ()

// CHECK: "test.narrow"() {{.*}} (!quant.uniform<i2:f32, 0.5>, !quant.uniform<i4:f32:0, {0.5, 0.25:-8}>, !quant.uniform<u1:f32, 1.0>, !quant.uniform<u7:f32, 2.0:127>)
"test.narrow"() : () -> (!quant.uniform<i2:f32, 0.5>, !quant.uniform<i4:f32:0, {0.5, 0.25:-8}>, !quant.uniform<u1:f32, 1.0>, !quant.uniform<u7:f32, 2.0:127>)

// Each element has a byte in the text, as in mlir-opt.
// CHECK: graph.constant dense<[7, -8]> : tensor<2xi4> : tensor<2x!quant.uniform<i4:f32, 0.5>>
%a = graph.constant dense<"0x07F8"> : tensor<2xi4> : tensor<2x!quant.uniform<i4:f32, 0.5>>
// CHECK: graph.constant dense<3> : tensor<2xui2> : tensor<2x!quant.uniform<u2:f32, 0.5>>
%b = graph.constant dense<3> : tensor<2xui2> : tensor<2x!quant.uniform<u2:f32, 0.5>>
