// The maximum of windows: first over the columns of a word, then over the rows. Each channel has
// WINDOWS open windows; the index of a window is the output row modulo WINDOWS.
//
// ROW_MAP specifies for each row: the windows that use it, the windows that begin, the windows that
// end, the index of the first window that ends, and the output row.
module max_pool #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
    parameter OUT_COLUMNS = 1,
    parameter KERNEL = 2,
    parameter STRIDE = 2,
    parameter LEFT = 0,
    parameter WINDOWS = 1,
    parameter ROW_MAP = ""
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
    output logic [BITS*OUT_COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  localparam WORD = BITS * OUT_COLUMNS;
  localparam CHANNEL_BITS = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam ROW_BITS = ROWS > 1 ? $clog2(ROWS) : 1;

  logic [3*WINDOWS+23:0] map[0:ROWS-1];
  logic [WINDOWS*WORD-1:0] memory[0:CHANNELS-1];
  logic [WORD-1:0] across, middle_data;
  logic [WINDOWS*WORD-1:0] held, after, ended;
  logic [15:0] middle_channel;
  logic middle_valid, step, last;
  logic [WINDOWS-1:0] takes, begins, ends, waiting;
  logic [7:0] first, place;
  logic [15:0] first_row;

  generate
    if (ROW_MAP != "") initial $readmemh(ROW_MAP, map);
  endgenerate

  always_comb begin
    for (int x = 0; x < OUT_COLUMNS; x++) begin
      across[BITS*x+:BITS] = BITS'(1) << (BITS - 1);
      for (int k = 0; k < KERNEL; k++) begin
        // The first column of a window is not compared.
        if (x * STRIDE + k >= LEFT && x * STRIDE + k - LEFT < COLUMNS)
          if (k == 0 || x * STRIDE + k == LEFT
              || $signed(in_data[BITS*(x*STRIDE+k-LEFT)+:BITS]) > $signed(across[BITS*x+:BITS]))
            across[BITS*x+:BITS] = in_data[BITS*(x*STRIDE+k-LEFT)+:BITS];
      end
    end
  end

  always_comb begin
    after = held;
    for (int w = 0; w < WINDOWS; w++) begin
      if (takes[w]) begin
        for (int x = 0; x < OUT_COLUMNS; x++) begin
          if (begins[w] || $signed(middle_data[BITS*x+:BITS]) > $signed(held[w*WORD+BITS*x+:BITS]))
            after[w*WORD+BITS*x+:BITS] = middle_data[BITS*x+:BITS];
        end
      end
    end
  end

  always_comb begin
    out_data = '0;
    for (int w = 0; w < WINDOWS; w++) out_data |= ended[w*WORD+:WORD] & {WORD{place == 8'(w)}};
  end

  // Windows that end with the same row leave in order, from the index of the first.
  assign last = (waiting & (waiting - 1'b1)) == 0;
  assign out_valid = |waiting;
  assign step = !out_valid || (out_ready && last);
  assign in_ready = !middle_valid || step;

  always_ff @(posedge clk) begin
    if (step && middle_valid) memory[CHANNEL_BITS'(middle_channel)] <= after;
  end

  always_ff @(posedge clk) begin
    if (in_ready) begin
      middle_valid <= in_valid;
      middle_data <= across;
      {takes, begins, ends, first, first_row} <= map[ROW_BITS'(in_row)];
      // The words of a channel can follow each other.
      held <= step && middle_valid && middle_channel == in_channel ? after
          : memory[CHANNEL_BITS'(in_channel)];
      middle_channel <= in_channel;
    end
    if (out_valid && out_ready) begin
      waiting[place] <= 0;
      place <= place == 8'(WINDOWS - 1) ? 0 : place + 1;
      out_row <= out_row + 1;
    end
    if (step) begin
      waiting <= middle_valid ? ends : '0;
      ended <= after;
      place <= first;
      out_row <= first_row;
      out_channel <= middle_channel;
    end
    if (rst) begin
      middle_valid <= 0;
      waiting <= '0;
    end
  end
endmodule
