// Multiply TERMS columns by as many weights in lookup tables, and add the products. The sum is too
// small by the carry of each product (`table_multiplier.sv`), which depends only on the weight: for
// BIPOLAR, 1 if the weight is -1; otherwise bit 1 of the weight.
//
// For columns of 1 bit and BIPOLAR, a product without carry is -1 if the bits differ, otherwise 0.
module dot_product #(
    parameter TERMS = 2,  // a power of two
    parameter INPUT_BITS = 1,
    parameter WEIGHT_BITS = 1,
    parameter BIPOLAR = 0,  // a weight of 1 bit is 1, or -1 if the bit is set
    parameter SUM_BITS = 32
) (
    input logic clk,
    input logic [TERMS*INPUT_BITS-1:0] columns,
    input logic [TERMS*WEIGHT_BITS-1:0] weights,
    output logic [SUM_BITS-1:0] sum  // of the operands in the previous cycle
);
  localparam PRODUCT = INPUT_BITS + WEIGHT_BITS;
  localparam LEVELS = $clog2(TERMS);
  localparam COUNT_BITS = $clog2(TERMS + 1);

  generate
    if (INPUT_BITS == 1 && BIPOLAR) begin : signs
      logic [COUNT_BITS-1:0] count;
      always_ff @(posedge clk) count <= COUNT_BITS'($countones(columns ^ weights));
      assign sum = -(SUM_BITS'(count));
    end else begin : products
      // A level has half as many sums as the level before, and a bit more per sum.
      for (genvar l = 0; l <= LEVELS; l++) begin : level
        logic signed [PRODUCT+l-1:0] sums[0:(TERMS>>l)-1];
        for (genvar k = 0; k < TERMS >> l; k++) begin : node
          if (l == 0) begin : product
            logic unused;
            table_multiplier #(
                .INPUT_BITS(INPUT_BITS),
                .WEIGHT_BITS(WEIGHT_BITS),
                .BIPOLAR(BIPOLAR),
                .BY_WEIGHT(1)
            ) multiply (
                .clk(clk),
                .column(columns[k*INPUT_BITS+:INPUT_BITS]),
                .weight(weights[k*WEIGHT_BITS+:WEIGHT_BITS]),
                .product(sums[k]),
                .carry(unused)
            );
          end else begin : pair
            assign sums[k] = (PRODUCT + l)'(level[l-1].sums[2*k])
                + (PRODUCT + l)'(level[l-1].sums[2*k+1]);
          end
        end
      end
      assign sum = SUM_BITS'(level[LEVELS].sums[0]);
    end
  endgenerate
endmodule
