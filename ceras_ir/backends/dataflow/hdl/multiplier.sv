// One or two lanes: accumulate the products of columns and a weight. A filter begins with the bias.
// The lanes of two filters have the roles exchanged: two weights are multiplied by a column.
// Each part of the columns has separate sums, and so have the filters that are added in turn.
// A multiplier of 25 by 18 bits computes two products of int8: the second is 16 bits above the first
// and must be corrected by the sign of the first. With TABLES, lookup tables compute the products;
// with TERMS, a lane adds several products, and the bias has their carries (`dot_product.sv`).
module multiplier #(
    parameter LANES = 1,
    parameter PARTS = 1,
    parameter PART_BITS = 1,
    parameter PLACES = 1,  // sums that are added in turn
    parameter PLACE_BITS = 1,
    parameter INPUT_BITS = 8,
    parameter WEIGHT_BITS = 8,
    parameter BIPOLAR = 0,  // a weight of 1 bit is 1, or -1 if the bit is set
    parameter TABLES = 0,
    parameter TERMS = 1,  // products of a lane; more than 1 with TABLES and one lane
    parameter SUM_BITS = 32
) (
    input logic clk,
    input logic first,  // with the product of `columns` and `weight` of the previous cycle
    input logic add,
    input logic last,
    input logic [PART_BITS-1:0] part,  // of the product
    input logic [PLACE_BITS-1:0] place,  // of the sum of the product
    input logic [PART_BITS-1:0] sums_part,  // of `sums`
    input logic [TERMS*INPUT_BITS*LANES-1:0] columns,
    input logic [TERMS*WEIGHT_BITS-1:0] weight,
    input logic [SUM_BITS*LANES-1:0] bias,
    output logic [SUM_BITS*LANES-1:0] sums  // of the last filter that ended
);
  localparam FACTOR = BIPOLAR ? 2 : WEIGHT_BITS;
  logic [SUM_BITS*LANES-1:0] products, running, next;
  logic [FACTOR-1:0] factor;

  generate
    if (TERMS > 1) assign factor = '0;
    else if (BIPOLAR) assign factor = {weight, 1'b1};
    else assign factor = weight;
    if (TERMS > 1) begin : terms
      dot_product #(
          .TERMS(TERMS),
          .INPUT_BITS(INPUT_BITS),
          .WEIGHT_BITS(WEIGHT_BITS),
          .BIPOLAR(BIPOLAR),
          .SUM_BITS(SUM_BITS)
      ) multiply (
          .clk(clk),
          .columns(columns),
          .weights(weight),
          .sum(products)
      );
      assign next = products + (first ? bias : running);
    end else if (TABLES) begin : tables
      logic [INPUT_BITS+WEIGHT_BITS-1:0] product;
      logic carry, unused;
      table_multiplier #(
          .INPUT_BITS(INPUT_BITS),
          .WEIGHT_BITS(WEIGHT_BITS),
          .BIPOLAR(BIPOLAR)
      ) multiply (
          .clk(clk),
          .column(columns),
          .weight(weight),
          .product(product),
          .carry(carry)
      );
      assign products = SUM_BITS'($signed(product));
      assign {next, unused} = {products, 1'b1} + {first ? bias : running, carry};
    end else if (LANES == 2) begin : pair
      logic signed [24:0] both;
      logic signed [32:0] product;
      assign both = (25'($signed(columns[INPUT_BITS+:INPUT_BITS])) <<< 16)
          + 25'($signed(columns[INPUT_BITS-1:0]));
      always_ff @(posedge clk) product <= both * $signed(factor);
      assign products[SUM_BITS-1:0] = SUM_BITS'($signed(product[15:0]));
      assign products[SUM_BITS+:SUM_BITS] =
          SUM_BITS'($signed(product[31:16])) + SUM_BITS'(product[15]);
    end else begin : single
      logic signed [FACTOR+INPUT_BITS-1:0] product;
      always_ff @(posedge clk) product <= $signed(columns) * $signed(factor);
      assign products = SUM_BITS'(product);
    end
    for (genvar lane = 0; lane < LANES && !TABLES; lane++) begin : accumulate
      assign next[lane*SUM_BITS+:SUM_BITS] = products[lane*SUM_BITS+:SUM_BITS]
          + (first ? bias[lane*SUM_BITS+:SUM_BITS] : running[lane*SUM_BITS+:SUM_BITS]);
    end
    if (PLACES == 1) begin : single_sum
      always_ff @(posedge clk) if (add) running <= next;
    end else begin : places
      logic [SUM_BITS*LANES-1:0] all_running[0:PLACES-1];
      assign running = all_running[place];
      always_ff @(posedge clk) if (add) all_running[place] <= next;
    end
    if (PARTS == 1) begin : whole
      always_ff @(posedge clk) if (add && last) sums <= next;
    end else begin : parts
      logic [SUM_BITS*LANES-1:0] all_sums[0:PARTS-1];
      assign sums = all_sums[sums_part];
      always_ff @(posedge clk) if (add && last) all_sums[part] <= next;
    end
  endgenerate
endmodule
