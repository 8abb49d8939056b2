// A memory with unaligned writes of WRITE bytes and reads of READ bytes. Each column of the memory
// has a separate address, so that an access needs a single cycle. Addresses wrap at the end. The
// latency of a read is four cycles: address, memory, its output register, and rotation.
module byte_buffer #(
    parameter BYTES = 4096,
    parameter WRITE = 16,
    parameter READ = 16,
    parameter ADDRESS_BITS = $clog2(BYTES)
) (
    input logic clk,
    input logic [WRITE-1:0] write,  // enable per byte
    input logic [ADDRESS_BITS-1:0] write_address,
    input logic [8*WRITE-1:0] write_data,
    input logic [ADDRESS_BITS-1:0] read_address,
    output logic [8*READ-1:0] read_data
);
  localparam COLUMNS = WRITE > READ ? WRITE : READ;
  localparam TURN = $clog2(COLUMNS);
  localparam WORD = ADDRESS_BITS - TURN;

  logic [TURN-1:0] write_turn, read_turn, turn1, turn2, turn3;
  logic [WORD-1:0] write_word, read_word;
  logic [COLUMNS-1:0] wide_write, columns_write;
  logic [8*COLUMNS-1:0] wide_data, columns_data, words, stored, turned;

  assign {write_word, write_turn} = write_address;
  assign {read_word, read_turn} = read_address;
  assign wide_write = COLUMNS'(write);
  assign wide_data = (8 * COLUMNS)'(write_data);

  always_ff @(posedge clk) begin
    columns_write <= COLUMNS'(({wide_write, wide_write} << write_turn) >> COLUMNS);
    columns_data <= (8 * COLUMNS)'(({wide_data, wide_data} << {write_turn, 3'b0}) >> 8 * COLUMNS);
    turn1 <= read_turn;
    turn2 <= turn1;
    turn3 <= turn2;
    stored <= words;
    turned <= (8 * COLUMNS)'({stored, stored} >> {turn3, 3'b0});
  end

  assign read_data = turned[8*READ-1:0];

  generate
    for (genvar c = 0; c < COLUMNS; c++) begin : column
      logic [7:0] memory[0:BYTES/COLUMNS-1];
      logic [WORD-1:0] to, from;
      always_ff @(posedge clk) begin
        to <= write_word + WORD'(TURN'(c) < write_turn);
        from <= read_word + WORD'(TURN'(c) < read_turn);
        if (columns_write[c]) memory[to] <= columns_data[8*c+:8];
        words[8*c+:8] <= memory[from];
      end
    end
  endgenerate
endmodule
