// Properties of the stream modules, for formal proofs. Each top module has free inputs. Properties in
// BOUNDED are proven for a number of cycles after a reset, all others by induction.

// No word is lost, duplicated or changed: a shift register is the reference.
module fifo_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic out_ready
);
  logic in_ready, out_valid;
  logic [7:0] out_data;
  logic [31:0] words;
  logic [2:0] count;

  stream_fifo #(
      .COLUMNS(1),
      .DEPTH(3),
      .ADDRESS_BITS(2)
  ) fifo (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(16'b0),
      .in_channel(16'b0),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(),
      .out_channel()
  );
  held #(8) out (clk, rst, out_valid, out_ready, out_data);

  always @(posedge clk) begin
    if (in_valid && in_ready) words[8*(count-(out_valid&&out_ready))+:8] <= in_data;
    if (out_valid && out_ready) begin
      words[23:0] <= words[31:8];
      if (in_valid && in_ready) words[8*(count-1)+:8] <= in_data;
    end
    count <= count + (in_valid && in_ready) - (out_valid && out_ready);
    if (rst) count <= 0;
`ifdef BOUNDED
    if (!rst) begin
      assert (count <= 4);
      if (out_valid) assert (count != 0 && out_data == words[7:0]);
      if (count == 0) assert (in_ready);
    end
`endif
  end
endmodule

// Each reader takes each word exactly once.
module fork_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [2:0] out_ready
);
  logic in_ready;
  logic [2:0] out_valid, took;

  stream_fork #(
      .READERS(3)
  ) dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .out_valid(out_valid),
      .out_ready(out_ready)
  );
  obeys #(1) source (clk, rst, in_valid, in_ready, 1'b0);
  for (genvar i = 0; i < 3; i++) begin : reader
    held #(1) out (clk, rst, out_valid[i], out_ready[i], 1'b0);
  end

  // Between words, `took` has the readers of the current word.
  always @(posedge clk) begin
    took <= in_valid && in_ready ? '0 : took | (out_valid & out_ready);
    if (rst) took <= '0;
`ifdef BOUNDED
    if (!rst) begin
      assert ((took & out_valid) == 0);
      if (in_valid && in_ready) assert ((took | (out_valid & out_ready)) == 3'b111);
      if (!in_valid) assert (out_valid == 0);
    end
`endif
  end
endmodule

// Words are in order. A packet of any length is a single frame, and excess beats are dropped.
module input_proof (
    input logic clk,
    input logic rst,
    input logic port_valid,
    input logic port_last,
    input logic [15:0] port_data,
    input logic out_ready
);
  logic port_ready, out_valid;
  logic [23:0] out_data;
  logic [15:0] out_row, out_channel;
  logic [1:0] errors;
  logic [2:0] words;  // of the frame at the output: 2 rows of a channel
  logic [1:0] ahead;  // packets that have started, minus complete frames
  logic starts, ends;
  logic [3:0] beats;  // of the packet: a frame has 4

  stream_input #(
      .ROWS(2),
      .CHANNELS(1),
      .COLUMNS(3),
      .PORT_BYTES(2),
      .BEATS(2)
  ) dut (
      .clk(clk),
      .rst(rst),
      .port_valid(port_valid),
      .port_ready(port_ready),
      .port_data(port_data),
      .port_last(port_last),
      .errors(errors),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(out_row),
      .out_channel(out_channel)
  );
  obeys #(17) source (clk, rst, port_valid, port_ready, {port_last, port_data});
  held #(56) out (clk, rst, out_valid, out_ready, {out_data, out_row, out_channel});

  assign starts = port_valid && port_ready && beats == 0;
  assign ends = out_valid && out_ready && words == 1;

  always @(posedge clk) begin
    ahead <= ahead + starts - ends;
    if (out_valid && out_ready) words <= words == 1 ? 0 : words + 1;
    if (port_valid && port_ready)
      beats <= port_last ? 0 : beats == 5 ? 5 : beats + 1;
    if (rst) begin
      ahead <= 0;
      words <= 0;
      beats <= 0;
    end
`ifdef BOUNDED
    if (!rst) begin
      assert (words < 2 && out_row == words && out_channel == 0);
      if (ends) assert (ahead != 0);
      // The frame of a packet that ended is complete before the next packet starts.
      if (port_valid && port_ready && beats == 0) assert (words == 0 || (words == 1 && out_valid));
    end
`endif
  end
endmodule

module output_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [23:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    input logic port_ready
);
  logic in_ready, port_valid, port_last;
  logic [15:0] port_data;

  stream_output #(
      .ROWS(2),
      .CHANNELS(3),
      .COLUMNS(3),
      .PORT_BYTES(2),
      .BEATS(2)
  ) dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(in_row),
      .in_channel(in_channel),
      .port_valid(port_valid),
      .port_ready(port_ready),
      .port_data(port_data),
      .port_last(port_last)
  );
  held #(17) out (clk, rst, port_valid, port_ready, {port_last, port_data});

  // The beats of the current word.
  logic has_word, second, ends;
  logic [31:0] word;
  always @(posedge clk) begin
    if (port_valid && port_ready) begin
      second <= !second;
      if (second) has_word <= 0;
    end
    if (in_valid && in_ready) begin
      has_word <= 1;
      word <= {8'b0, in_data};
      ends <= in_row == 1 && in_channel == 2;
    end
    if (rst) begin
      has_word <= 0;
      second <= 0;
    end
`ifdef BOUNDED
    if (!rst) begin
      assert (port_valid == has_word);
      if (!has_word) assert (in_ready && !second);
      if (has_word)
        assert (port_data == word[16*second+:16] && port_last == (second && ends));
    end
`endif
  end
endmodule

module table_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic [15:0] in_row,
    input logic out_ready
);
  logic in_ready, out_valid;
  logic [7:0] out_data;
  logic [15:0] out_row;

  function_table dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(in_row),
      .in_channel(16'b0),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(out_row),
      .out_channel()
  );
  held #(24) out (clk, rst, out_valid, out_ready, {out_data, out_row});

  logic has_word;
  logic [15:0] row;
  always @(posedge clk) begin
    if (out_valid && out_ready) has_word <= 0;
    if (in_valid && in_ready) begin
      has_word <= 1;
      row <= in_row;
    end
    if (rst) has_word <= 0;
    if (!rst) begin
      assert (out_valid == has_word);
      if (has_word) assert (out_row == row);
    end
  end
endmodule
