// Multiply a column by a weight in lookup tables. The product is `product + carry`, which the
// accumulator adds in one carry chain.
//
// Each digit in [-2, 2] has two bits of the narrower factor, the digit of Booth with radix 4, and
// selects a multiple of the other factor. A negative digit inverts the bits; the missing 1 is the
// carry of the next adder, and that of the lowest digit is `carry`.
module table_multiplier #(
    parameter INPUT_BITS = 8,
    parameter WEIGHT_BITS = 8,
    parameter BIPOLAR = 0,  // a weight of 1 bit is 1, or -1 if the bit is set
    parameter BY_WEIGHT = 0  // digits are those of the weight
) (
    input logic clk,
    input logic [INPUT_BITS-1:0] column,
    input logic [WEIGHT_BITS-1:0] weight,
    output logic [INPUT_BITS+WEIGHT_BITS-1:0] product,  // of the operands in the previous cycle
    output logic carry
);
  localparam SWAPPED = INPUT_BITS < WEIGHT_BITS && !BY_WEIGHT;
  localparam SHORT = SWAPPED ? INPUT_BITS : WEIGHT_BITS;
  localparam LONG = SWAPPED ? WEIGHT_BITS : INPUT_BITS;
  localparam DIGITS = (SHORT + 1) / 2;
  localparam PRODUCT = INPUT_BITS + WEIGHT_BITS;

  logic [2*DIGITS:0] digits;  // with the sign, after a 0
  logic signed [LONG:0] once;
  logic [PRODUCT-1:0] sum;
  logic first_negative;

  generate
    if (SWAPPED) begin : by_column
      assign digits = (2 * DIGITS + 1)'($signed({column, 1'b0}));
      assign once = (LONG + 1)'($signed(weight));
    end else begin : by_weight
      assign digits = (2 * DIGITS + 1)'($signed({weight, 1'b0}));
      assign once = (LONG + 1)'($signed(column));
    end
    if (BIPOLAR) begin : sign
      assign first_negative = weight[0];
      assign sum = PRODUCT'($signed(once ^ {(LONG + 1) {weight[0]}}));
    end else begin : booth
      for (genvar k = 0; k < DIGITS; k++) begin : digit
        logic high, middle, low, negative;
        logic signed [LONG:0] multiple;
        logic signed [LONG+2:0] upper;  // the sum of the digits up to k, without 2k low bits
        assign {high, middle, low} = digits[2*k+:3];
        assign negative = high && !(middle && low);
        assign multiple = (middle != low ? once : high != middle ? once << 1 : '0)
            ^ {(LONG + 1) {negative}};
        if (k == 0) begin : lowest
          assign first_negative = negative;
          assign upper = (LONG + 3)'(multiple);
        end else begin : next
          // The carry is a bit below the sum.
          logic unused;
          assign {upper, unused} = {(LONG + 3)'(digit[k-1].upper >>> 2), 1'b1}
              + {(LONG + 3)'(multiple), negative};
        end
        if (k == DIGITS - 1) assign sum[PRODUCT-1:2*k] = (PRODUCT - 2 * k)'(upper);
        else assign sum[2*k+:2] = upper[1:0];
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    product <= sum;
    carry <= first_negative;
  end
endmodule
