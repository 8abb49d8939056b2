// Multiply a value by the weights of two outputs, and add the sums of the row above, in two cycles.
// With PAIRED, a multiplier computes both products, the second 18 bits above the first. Up to eight
// such products can be added without a carry from the first to the second (see product_array).
module pair_product #(
    parameter PAIRED = 1
) (
    input logic clk,
    input logic [7:0] value,
    input logic [7:0] low,
    input logic [7:0] high,
    input logic [47:0] above,
    output logic [47:0] sum
);
  generate
    if (PAIRED) begin : pair
      logic signed [26:0] weights;
      logic signed [34:0] product;
      assign weights = {{1{high[7]}}, high, 18'b0} + 27'($signed(low));
      always_ff @(posedge clk) begin
        product <= weights * $signed(value);
        sum <= 48'(product) + above;
      end
    end else begin : single
      logic signed [15:0] first, second;
      always_ff @(posedge clk) begin
        first <= $signed(low) * $signed(value);
        second <= $signed(high) * $signed(value);
        sum <= {24'(second) + above[47:24], 24'(first) + above[23:0]};
      end
    end
  endgenerate
endmodule
