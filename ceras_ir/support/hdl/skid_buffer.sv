// Pass a stream on, and accept a word per cycle. `in_ready` is a register: a word that the reader
// does not take when it arrives is held.
module skid_buffer #(
    parameter COLUMNS = 1,
    parameter BITS = 8  // of a column
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic out_valid,
    input logic out_ready,
    output logic [BITS*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  logic holds;
  logic [BITS*COLUMNS+31:0] held;

  assign in_ready = !holds;
  assign out_valid = holds || in_valid;
  assign {out_data, out_row, out_channel} = holds ? held : {in_data, in_row, in_channel};

  always_ff @(posedge clk) begin
    if (!holds) held <= {in_data, in_row, in_channel};
    holds <= out_valid && !out_ready;
    if (rst) holds <= 0;
  end
endmodule
