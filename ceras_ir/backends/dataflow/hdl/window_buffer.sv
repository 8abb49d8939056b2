// Store the rows of an input that windows still need, in BANKS memories that are read in parallel.
//
// Rows are padded: PAD is the value of the rows above and below the input. BANKS * (vertical
// stride) padded rows are a slot. SLOTS slots are stored, and a frame begins with a new slot. A
// word of the input is stored as PHASES words: for each part of the columns, a word for each
// residue modulo STRIDE of the padded columns that windows read. Adjacent windows therefore read
// adjacent columns.
//
// ROW_MAP specifies for each padded row: the slot in the frame, the bank, and the address in the
// bank if the first slot of the frame is at 0.
module window_buffer #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter TOP = 0,
    parameter PADDED_ROWS = 1,
    parameter SLOT_ROWS = 1,
    parameter SLOTS = 2,
    parameter SLOT_WORDS = 1,
    parameter FRAME_SLOTS = 1,
    parameter BANKS = 1,
    parameter STRIDE = 1,
    parameter PHASES = 1,
    parameter [16*PHASES-1:0] STARTS = 0,  // the input column of stored column 0 of each phase
    parameter STORED = 1,
    parameter PAD = 0,
    parameter READERS = 1,
    parameter ADDRESS_BITS = 1,
    parameter ROW_MAP = ""
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [8*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic [15:0] rows_written,  // of all frames, padded, modulo 2^16
    output logic [15:0] channels_written,  // of the next row
    input logic [15:0] slots_freed,
    input logic [READERS*BANKS*ADDRESS_BITS-1:0] read_address,
    output logic [READERS*BANKS*8*STORED-1:0] read_data
);
  localparam DEPTH = SLOTS * SLOT_WORDS;
  localparam FRAME_WORDS = (FRAME_SLOTS % SLOTS) * SLOT_WORDS;
  localparam ROW_BITS = PADDED_ROWS > 1 ? $clog2(PADDED_ROWS) : 1;
  localparam WORD = 8 * STORED;

  logic [39:0] map[0:PADDED_ROWS-1];
  logic padding;  // whether the next row is above or below the input
  logic [15:0] pad_row, pad_channel, frame_slot, frame_rows, phase;
  logic [16:0] frame_address, sum, next_frame;
  logic [15:0] row, channel, following, slot, start;
  logic [7:0] bank;
  logic room, write, row_ends;
  logic [PHASES*WORD-1:0] phases;
  logic [WORD-1:0] current;

  generate
    if (ROW_MAP != "") initial $readmemh(ROW_MAP, map);
  endgenerate

  assign row = padding ? pad_row : in_row + 16'(TOP);
  assign channel = padding ? pad_channel : in_channel;
  assign {slot, bank, start} = map[ROW_BITS'(row)];
  // Negative for a row that no window reads, if the slot has already been read.
  assign room = $signed(16'(frame_slot + slot - slots_freed)) < $signed(16'(SLOTS));
  assign write = (padding || in_valid) && room;
  assign in_ready = !padding && room && phase == 16'(PHASES - 1);
  assign row_ends = write && phase == 16'(PHASES - 1) && channel == 16'(CHANNELS - 1);
  assign following = row + 1;
  assign sum = frame_address + 17'(start);
  assign next_frame = frame_address + 17'(FRAME_WORDS);

  generate
    for (genvar p = 0; p < PHASES; p++) begin : split
      for (genvar k = 0; k < STORED; k++) begin : stored
        localparam signed [15:0] START = STARTS[16*p+:16];
        localparam integer FROM = START + STRIDE * k;
        if (FROM >= 0 && FROM < COLUMNS) begin : from_input
          assign phases[p*WORD+8*k+:8] = padding ? 8'(PAD) : in_data[8*FROM+:8];
        end else begin : around
          assign phases[p*WORD+8*k+:8] = 8'(PAD);
        end
      end
    end
  endgenerate

  always_comb begin
    current = '0;
    for (int p = 0; p < PHASES; p++) current |= phases[p*WORD+:WORD] & {WORD{phase == 16'(p)}};
  end

  always_ff @(posedge clk) begin
    if (write) begin
      phase <= phase == 16'(PHASES - 1) ? 0 : phase + 1;
      if (padding && phase == 16'(PHASES - 1)) pad_channel <= row_ends ? 0 : pad_channel + 1;
      // The rows of a batch are written together, but complete in order.
      if (phase == 16'(PHASES - 1) && 16'(frame_rows + row) == rows_written)
        channels_written <= channel + 1;
    end
    if (row_ends) begin
      channels_written <= 0;
      rows_written <= frame_rows + following;
      padding <= following < 16'(TOP) || following >= 16'(TOP + ROWS);
      pad_row <= following;
      if (following == 16'(PADDED_ROWS)) begin
        rows_written <= frame_rows + 16'(FRAME_SLOTS * SLOT_ROWS);
        frame_rows <= frame_rows + 16'(FRAME_SLOTS * SLOT_ROWS);
        frame_slot <= frame_slot + 16'(FRAME_SLOTS);
        frame_address <= next_frame >= 17'(DEPTH) ? next_frame - 17'(DEPTH) : next_frame;
        padding <= TOP > 0;
        pad_row <= 0;
      end
    end
    if (rst) begin
      phase <= 0;
      pad_channel <= 0;
      pad_row <= 0;
      padding <= TOP > 0;
      rows_written <= 0;
      channels_written <= 0;
      frame_rows <= 0;
      frame_slot <= 0;
      frame_address <= 0;
    end
  end

  logic [BANKS-1:0] enable;
  logic [ADDRESS_BITS-1:0] address;
  logic [WORD-1:0] word;

  always_ff @(posedge clk) begin
    for (int b = 0; b < BANKS; b++) enable[b] <= write && !rst && bank == 8'(b);
    address <= ADDRESS_BITS'((sum >= 17'(DEPTH) ? sum - 17'(DEPTH) : sum)
                             + 17'(channel) * PHASES + 17'(phase));
    word <= current;
  end

  generate
    for (genvar r = 0; r < READERS; r++) begin : reader
      for (genvar b = 0; b < BANKS; b++) begin : banks
        logic [WORD-1:0] memory[0:DEPTH-1];
        logic [WORD-1:0] data;
        always_ff @(posedge clk) begin
          if (enable[b]) memory[address] <= word;
          data <= memory[read_address[(r*BANKS+b)*ADDRESS_BITS+:ADDRESS_BITS]];
        end
        assign read_data[(r*BANKS+b)*WORD+:WORD] = data;
      end
    end
  endgenerate
endmodule
