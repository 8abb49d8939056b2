// Properties of the stream modules, for formal proofs. Each top module has free inputs. Properties in
// BOUNDED are proven for a number of cycles after a reset, all others by induction.

// No word is lost, duplicated or changed: a shift register is the reference. At most MOST words are
// between input and output, and without such words the input is ready.
module in_order #(
    parameter WIDTH = 1,
    parameter MOST = 1
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic in_ready,
    input logic [WIDTH-1:0] in_word,
    input logic out_valid,
    input logic out_ready,
    input logic [WIDTH-1:0] out_word
);
  logic [WIDTH*(MOST+1)-1:0] words;
  logic [2:0] count;

  always @(posedge clk) begin
    if (in_valid && in_ready) words[WIDTH*(count-(out_valid&&out_ready))+:WIDTH] <= in_word;
    if (out_valid && out_ready) begin
      words[WIDTH*MOST-1:0] <= words[WIDTH*(MOST+1)-1:WIDTH];
      if (in_valid && in_ready) words[WIDTH*(count-1)+:WIDTH] <= in_word;
    end
    count <= count + (in_valid && in_ready) - (out_valid && out_ready);
    if (rst) count <= 0;
`ifdef BOUNDED
    if (!rst) begin
      assert (count <= MOST);
      if (out_valid) assert (count != 0 && out_word == words[WIDTH-1:0]);
      if (count == 0) assert (in_ready);
    end
`endif
  end
endmodule

// A FIFO of three words and an output register.
module fifo_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic out_ready
);
  logic in_ready, out_valid;
  logic [7:0] out_data;

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
  in_order #(8, 4) words (clk, rst, in_valid, in_ready, in_data, out_valid, out_ready, out_data);
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
  in_order #(16, 2) rows (clk, rst, in_valid, in_ready, in_row, out_valid, out_ready, out_row);
endmodule

// A word is offered from the cycle in which it arrives until it is taken.
module skid_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic [15:0] in_row,
    input logic out_ready
);
  logic in_ready, out_valid, has_word;
  logic [7:0] out_data;
  logic [15:0] out_row;
  logic [23:0] word;

  skid_buffer dut (
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
  obeys #(24) source (clk, rst, in_valid, in_ready, {in_data, in_row});
  held #(24) out (clk, rst, out_valid, out_ready, {out_data, out_row});

  always @(posedge clk) begin
    if (in_valid && in_ready) word <= {in_data, in_row};
    has_word <= out_valid && !out_ready;
    if (rst) has_word <= 0;
    if (!rst) begin
      assert (in_ready == !has_word && out_valid == (has_word || in_valid));
      if (out_valid) assert ({out_data, out_row} == (has_word ? word : {in_data, in_row}));
    end
  end
endmodule

// Rows are accepted in order while the ring has room, and a complete row returns the written words.
module ring_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic free
);
  logic in_ready, frees;
  logic [7:0] read_data;
  logic [1:0] rows_written, freed, channel;
  logic [2:0] rows;  // that have started and are not free
  logic [1:0] row, sent_row, waited;
  logic [15:0] words;  // of channel 1, by row

  row_ring #(
      .ROWS(3),
      .CHANNELS(2),
      .COLUMNS(1),
      .CAPACITY(2),
      .ADDRESS_BITS(2)
  ) dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row({14'b0, row}),
      .in_channel({15'b0, channel[0]}),
      .rows_written(rows_written),
      .rows_freed(freed),
      .read(1'b1),
      .read_row(freed),
      .read_channel(16'b1),
      .read_data(read_data)
  );

  assign frees = free && rows_written != freed && waited == 2;

  always @(posedge clk) begin
    if (in_valid && in_ready) begin
      channel <= channel == 1 ? 0 : 1;
      if (channel == 1) begin
        words[8*sent_row[0]+:8] <= in_data;
        row <= row == 2 ? 0 : row + 1;
        sent_row <= sent_row + 1;
      end
    end
    rows <= rows + (in_valid && in_ready && channel == 0) - frees;
    waited <= frees || rows_written == freed ? 0 : waited == 2 ? 2 : waited + 1;
    if (frees) freed <= freed + 1;
    if (rst) begin
      channel <= 0;
      row <= 0;
      sent_row <= 0;
      rows <= 0;
      freed <= 0;
      waited <= 0;
    end
`ifdef BOUNDED
    if (!rst) begin
      assert (rows <= 2);
      if (rows < 2) assert (in_ready);
      if (waited == 2) assert (read_data == words[8*freed[0]+:8]);
    end
`endif
  end
endmodule

// The words of the range pass, in order; words outside of it are taken without a result.
module selection_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [15:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    input logic out_ready
);
  logic in_ready, out_valid;
  logic [7:0] out_data;
  logic [15:0] out_row, out_channel;

  selection #(
      .COLUMNS(2),
      .ROW(1),
      .OUT_ROWS(2),
      .CHANNEL(3),
      .OUT_CHANNELS(2),
      .COLUMN(1),
      .OUT_COLUMNS(1)
  ) dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(in_row),
      .in_channel(in_channel),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(out_row),
      .out_channel(out_channel)
  );
  held #(40) out (clk, rst, out_valid, out_ready, {out_data, out_row, out_channel});

  logic has_word;
  logic [39:0] word;
  always @(posedge clk) begin
    if (out_valid && out_ready) has_word <= 0;
    if (in_valid && in_ready && in_row >= 1 && in_row < 3 && in_channel >= 3 && in_channel < 5) begin
      has_word <= 1;
      word <= {in_data[15:8], in_row - 16'd1, in_channel - 16'd3};
    end
    if (rst) has_word <= 0;
    if (!rst) begin
      assert (out_valid == has_word);
      if (has_word) assert ({out_data, out_row, out_channel} == word);
      if (!has_word) assert (in_ready);
    end
  end
endmodule

// Each word leaves three times, in three rows.
module repetition_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [15:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    input logic out_ready
);
  logic in_ready, out_valid;
  logic [31:0] out_data;
  logic [15:0] out_row, out_channel;

  repetition #(
      .COLUMNS(2),
      .ROW_FACTOR(3),
      .COLUMN_FACTOR(2)
  ) dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(in_row),
      .in_channel(in_channel),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(out_row),
      .out_channel(out_channel)
  );
  held #(64) out (clk, rst, out_valid, out_ready, {out_data, out_row, out_channel});

  logic [1:0] copies;  // of the current word that have not left
  logic [15:0] word, row, channel;
  always @(posedge clk) begin
    if (out_valid && out_ready) begin
      copies <= copies - 1;
      row <= row + 1;
    end
    if (in_valid && in_ready) begin
      copies <= 3;
      word <= in_data;
      row <= in_row + in_row + in_row;
      channel <= in_channel;
    end
    if (rst) copies <= 0;
`ifdef BOUNDED
    if (!rst) begin
      assert (out_valid == (copies != 0));
      assert (in_ready == (copies == 0 || (copies == 1 && out_ready)));
      if (out_valid)
        assert ({out_data, out_row, out_channel} == {
          {2{word[15:8]}}, {2{word[7:0]}}, row, channel
        });
    end
`endif
  end
endmodule

// The channels of two streams, two of each in a row, leave in order. Each word leaves once.
module concatenation_properties #(
    parameter SECOND_IS_LOWER = 0
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic second_valid,
    input logic [7:0] second_data,
    input logic out_ready
);
  logic in_ready, second_ready, out_valid;
  logic [7:0] out_data;
  logic [15:0] out_row, out_channel;
  logic [4:0] firsts, seconds, sent;  // words since the reset

  concatenation #(
      .ROWS(2),
      .FIRST_CHANNELS(2),
      .SECOND_CHANNELS(2),
      .COLUMNS(1),
      .SECOND_IS_LOWER(SECOND_IS_LOWER),
      .CAPACITY(2),
      .ADDRESS_BITS(2)
  ) dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row({15'b0, firsts[1]}),
      .in_channel({15'b0, firsts[0]}),
      .second_valid(second_valid),
      .second_ready(second_ready),
      .second_data(second_data),
      .second_row({15'b0, seconds[1]}),
      .second_channel({15'b0, seconds[0]}),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(out_row),
      .out_channel(out_channel)
  );
  obeys #(8) first (clk, rst, in_valid, in_ready, in_data);
  obeys #(8) second (clk, rst, second_valid, second_ready, second_data);
  held #(40) out (clk, rst, out_valid, out_ready, {out_data, out_row, out_channel});

  // The next word of the output: its stream, and its number in the stream.
  logic from_second;
  logic [3:0] number;
  logic [127:0] first_words, second_words;
  assign from_second = sent[1] != (SECOND_IS_LOWER != 0);
  assign number = {sent[4:2], sent[0]};

  always @(posedge clk) begin
    if (in_valid && in_ready) begin
      firsts <= firsts + 1;
      first_words[8*firsts[3:0]+:8] <= in_data;
    end
    if (second_valid && second_ready) begin
      seconds <= seconds + 1;
      second_words[8*seconds[3:0]+:8] <= second_data;
    end
    if (out_valid && out_ready) sent <= sent + 1;
    if (rst) begin
      firsts <= 0;
      seconds <= 0;
      sent <= 0;
    end
`ifdef BOUNDED
    if (!rst) begin
      if (out_valid) begin
        assert ({1'b0, number} < (from_second ? seconds : firsts));
        assert (out_data == (from_second ? second_words[8*number+:8] : first_words[8*number+:8]));
        assert (out_row == sent[2] && out_channel == sent[1:0]);
      end
      // The circuit waits for the next word only if it is not offered.
      else if (!from_second) assert (in_ready || firsts != {1'b0, number});
      else assert (second_ready || seconds != {1'b0, number});
    end
`endif
  end
endmodule

module upper_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic second_valid,
    input logic [7:0] second_data,
    input logic out_ready
);
  concatenation_properties #(0) properties (.*);
endmodule

module lower_proof (
    input logic clk,
    input logic rst,
    input logic in_valid,
    input logic [7:0] in_data,
    input logic second_valid,
    input logic [7:0] second_data,
    input logic out_ready
);
  concatenation_properties #(1) properties (.*);
endmodule
