// Store the rows of an input that windows still need, in BANKS memories that are read in parallel.
//
// Rows are padded: PAD is the value of the rows above and below the input. BANKS * (vertical
// stride) padded rows are a slot. SLOTS slots are stored, and a frame begins with a new slot. A
// word of the input is stored as PHASES words: for each part of the columns, a word for each
// residue modulo STRIDE of the padded columns that windows read. Adjacent windows therefore read
// adjacent columns. A memory has TERMS parts, which are read together: channel c is in part
// c % TERMS, and TERMS channels have one address.
//
// ROW_MAP specifies for each padded row: the bank, and the address in the bank if the first slot of
// the frame is at 0.
//
// Rows start and complete in order, also if the words of several rows alternate. A row waits only
// with the first channel, so `in_ready` depends on counters. The memories have a word three cycles
// after the counters include it, in which the first address of a window that reads it arrives.
module window_buffer #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
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
    parameter TERMS = 1,  // a power of two
    parameter PAD = 0,
    parameter READERS = 1,
    parameter ADDRESS_BITS = 1,
    parameter ROW_MAP = ""
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic [15:0] rows_written,  // of all frames, padded, modulo 2^16
    output logic [15:0] channels_written,  // of the next row, divided by TERMS
    input logic [15:0] slots_freed,
    input logic [READERS*BANKS*ADDRESS_BITS-1:0] read_address,
    output logic [READERS*BANKS*TERMS*BITS*STORED-1:0] read_data  // two cycles after the address
);
  localparam DEPTH = SLOTS * SLOT_WORDS;
  localparam FRAME_WORDS = (FRAME_SLOTS % SLOTS) * SLOT_WORDS;
  localparam ROW_BITS = PADDED_ROWS > 1 ? $clog2(PADDED_ROWS) : 1;
  localparam CHANNEL_BITS = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam TERM_BITS = $clog2(TERMS);
  localparam PHASE_BITS = PHASES > 1 ? $clog2(PHASES) : 1;
  localparam STEP_BITS = SLOT_ROWS > 1 ? $clog2(SLOT_ROWS) : 1;
  // A row that no window reads can wait although its slot has been freed.
  localparam SLOT_BITS = $clog2(SLOTS + FRAME_SLOTS + 1) + 1;
  localparam WORD = BITS * STORED;

  logic padding;  // whether the next row is above or below the input
  logic [PHASE_BITS-1:0] phase;
  logic [CHANNEL_BITS-1:0] pad_channel, channel;
  logic [ROW_BITS-1:0] row, started, complete;  // the next rows to start and to complete
  logic [STEP_BITS-1:0] started_step;  // of `started` in its slot
  logic [SLOT_BITS-1:0] frame_limit, limit;  // the slot of the next row to start, minus SLOTS
  logic [SLOT_BITS-1:0] waits;  // not negative if no slot is free
  logic room, write, ends, starts, row_ends, frame_starts;
  logic [ADDRESS_BITS:0] frame_address, frame_below, next_frame;
  logic [PHASES*WORD-1:0] phases;
  logic [WORD-1:0] current;

  function automatic logic [ADDRESS_BITS:0] wrap(input logic [ADDRESS_BITS:0] address);
    wrap = address >= (ADDRESS_BITS + 1)'(DEPTH) ? address - (ADDRESS_BITS + 1)'(DEPTH) : address;
  endfunction

  assign row = padding ? complete : ROW_BITS'(in_row) + ROW_BITS'(TOP);
  assign channel = padding ? pad_channel : CHANNEL_BITS'(in_channel);
  assign waits = limit - SLOT_BITS'(slots_freed);
  assign room = waits[SLOT_BITS-1] || channel != 0;
  assign ends = phase == PHASE_BITS'(PHASES - 1);
  assign write = (padding || in_valid) && room;
  assign in_ready = !padding && room && ends;
  assign starts = write && ends && channel == 0;
  assign row_ends = write && ends && channel == CHANNEL_BITS'(CHANNELS - 1);
  assign frame_starts = started == ROW_BITS'(PADDED_ROWS - 1);
  assign next_frame = wrap(frame_address + (ADDRESS_BITS + 1)'(FRAME_WORDS));

  generate
    for (genvar p = 0; p < PHASES; p++) begin : split
      for (genvar k = 0; k < STORED; k++) begin : stored
        localparam signed [15:0] START = STARTS[16*p+:16];
        localparam integer FROM = START + STRIDE * k;
        if (FROM >= 0 && FROM < COLUMNS) begin : from_input
          assign phases[p*WORD+BITS*k+:BITS] = padding ? BITS'(PAD) : in_data[BITS*FROM+:BITS];
        end else begin : around
          assign phases[p*WORD+BITS*k+:BITS] = BITS'(PAD);
        end
      end
    end
  endgenerate

  always_comb begin
    current = '0;
    for (int p = 0; p < PHASES; p++)
    current |= phases[p*WORD+:WORD] & {WORD{phase == PHASE_BITS'(p)}};
  end

  always_ff @(posedge clk) begin
    if (write) phase <= ends ? 0 : phase + 1;
    if (write && ends) begin
      if (padding) pad_channel <= row_ends ? 0 : pad_channel + 1;
      if (row == complete) channels_written <= 16'((32'(channel) + 1) >> TERM_BITS);
    end
    if (starts) begin
      started <= started + 1;
      started_step <= started_step + 1;
      if (started_step == STEP_BITS'(SLOT_ROWS - 1)) begin
        started_step <= 0;
        limit <= limit + 1;
      end
      if (frame_starts) begin
        started <= 0;
        started_step <= 0;
        frame_limit <= frame_limit + SLOT_BITS'(FRAME_SLOTS);
        limit <= frame_limit + SLOT_BITS'(FRAME_SLOTS);
      end
    end
    if (row_ends) begin
      complete <= complete + 1;
      channels_written <= 0;
      rows_written <= rows_written + 1;
      padding <= 16'(complete) + 1 < 16'(TOP) || 16'(complete) + 1 >= 16'(TOP + ROWS);
      if (complete == ROW_BITS'(PADDED_ROWS - 1)) begin
        complete <= 0;
        rows_written <= rows_written + 16'(FRAME_SLOTS * SLOT_ROWS - PADDED_ROWS + 1);
        padding <= TOP > 0;
        frame_address <= next_frame;
        frame_below <= next_frame - (ADDRESS_BITS + 1)'(DEPTH);
      end
    end
    if (rst) begin
      phase <= 0;
      pad_channel <= 0;
      padding <= TOP > 0;
      started <= 0;
      started_step <= 0;
      complete <= 0;
      frame_limit <= SLOT_BITS'(-SLOTS);
      limit <= SLOT_BITS'(-SLOTS);
      rows_written <= 0;
      channels_written <= 0;
      frame_address <= 0;
      frame_below <= (ADDRESS_BITS + 1)'(-DEPTH);
    end
  end

  // Stages of a write: 1 row and channel, 2 position in the frame, 3 address. `below` is the address
  // if the ring has started again.
  logic write1, write2;
  logic [ROW_BITS-1:0] row1;
  logic [CHANNEL_BITS-1:0] channel1;
  logic [PHASE_BITS-1:0] phase1;
  logic [23:0] map[0:PADDED_ROWS-1];
  logic [7:0] bank1, bank2;
  logic [15:0] start1;
  logic [ADDRESS_BITS:0] frame1, frame2, below1, below2, below;
  logic [ADDRESS_BITS-1:0] within2, address;
  logic [WORD-1:0] word1, word2, word;
  logic [TERMS-1:0] term2;  // one bit for each part
  logic [BANKS*TERMS-1:0] enable;

  generate
    if (ROW_MAP != "") initial $readmemh(ROW_MAP, map);
  endgenerate

  assign {bank1, start1} = map[row1];
  assign below = below2 + (ADDRESS_BITS + 1)'(within2);

  always_ff @(posedge clk) begin
    write1 <= write && !rst;
    row1 <= row;
    channel1 <= channel;
    phase1 <= phase;
    frame1 <= frame_address;
    below1 <= frame_below;
    word1 <= current;
    write2 <= write1 && !rst;
    bank2 <= bank1;
    within2 <= ADDRESS_BITS'(start1 + (16'(channel1) >> TERM_BITS) * PHASES + 16'(phase1));
    for (int t = 0; t < TERMS; t++) term2[t] <= (32'(channel1) & (TERMS - 1)) == t;
    frame2 <= frame1;
    below2 <= below1;
    word2 <= word1;
    for (int b = 0; b < BANKS; b++)
    enable[b*TERMS+:TERMS] <= term2 & {TERMS{write2 && !rst && bank2 == 8'(b)}};
    address <= ADDRESS_BITS'(below[ADDRESS_BITS] ? frame2 + (ADDRESS_BITS + 1)'(within2) : below);
    word <= word2;
  end

  generate
    for (genvar r = 0; r < READERS; r++) begin : reader
      for (genvar b = 0; b < BANKS * TERMS; b++) begin : banks
        logic [WORD-1:0] memory[0:DEPTH-1];
        logic [WORD-1:0] data, data_register;
        always_ff @(posedge clk) begin
          if (enable[b]) memory[address] <= word;
          data <= memory[read_address[(r*BANKS+b/TERMS)*ADDRESS_BITS+:ADDRESS_BITS]];
          data_register <= data;
        end
        assign read_data[(r*BANKS*TERMS+b)*WORD+:WORD] = data_register;
      end
    end
  endgenerate
endmodule
