// A convolution: in each cycle, a weight of each of FILTERS filters is multiplied by BANKS rows of
// windows. If the columns are in PARTS parts, each part needs a cycle. With TERMS, the weights of
// TERMS channels are multiplied in a cycle.
//
// Stages: 0 weights, 1 addresses in a window, 2 addresses, 3 memories, 4 their output registers,
// 5 columns, 6 products, then the sums. The last weight of a filter waits at stage 0 until the sums
// of the previous filter have left.
module convolution #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter OUT_ROWS = 1,
    parameter OUT_CHANNELS = 1,
    parameter OUT_COLUMNS = 1,
    parameter INPUT_BITS = 8,  // of a column
    parameter RESULT_BITS = 8,
    parameter KERNEL_ROWS = 1,
    parameter KERNEL_COLUMNS = 1,
    parameter GROUP_CHANNELS = 1,
    parameter GROUP_BLOCKS = 1,
    parameter BLOCKS = 1,
    parameter FILTERS = 1,
    parameter SPARSE = 0,
    parameter BY_ROW = 0,  // dense weights in the order of the rows of the window
    parameter DELTA_BITS = 0,  // of sparse weights; 0 if they have positions
    parameter ENTRIES = 1,
    parameter PAIRED = 0,  // a multiplier has 1: two lanes of a filter, 2: two filters of a lane
    parameter TERMS = 1,  // a power of two
    parameter PARTS = 1,
    parameter PART_WORDS = 1,  // of the window buffer, per row of a channel
    // The window buffer.
    parameter TOP = 0,
    parameter PAD = 0,
    parameter PADDED_ROWS = 1,
    parameter SLOT_ROWS = 1,
    parameter SLOTS = 2,
    parameter SLOT_WORDS = 1,
    parameter FRAME_SLOTS = 1,
    parameter BANKS = 1,
    parameter STRIDE = 1,
    parameter PHASES = 1,
    parameter [16*PHASES-1:0] STARTS = 0,
    parameter FIRST = 0,
    parameter STORED = 1,
    parameter ADDRESS_BITS = 1,
    // The padded rows that the first and the last group of rows need.
    parameter FIRST_ROWS = 1,
    parameter LAST_ROWS = 1,
    parameter GROUPS = 1,
    parameter REACH = 0,  // from the first to the last row of a window
    parameter ROW_STEP = 1,  // from a row of a window to the next
    // The sequencer.
    parameter ROTATION_BITS = 1,
    parameter SHIFT_BITS = 1,
    parameter MOST_SHIFT = 0,
    parameter [KERNEL_ROWS*(ADDRESS_BITS+ROTATION_BITS)-1:0] ROW_TABLE = 0,
    parameter [KERNEL_COLUMNS*(ADDRESS_BITS+SHIFT_BITS)-1:0] COLUMN_TABLE = 0,
    parameter [KERNEL_ROWS*KERNEL_COLUMNS*(ADDRESS_BITS+ROTATION_BITS+SHIFT_BITS)-1:0] TAP_TABLE = 0,
    // The arithmetic.
    parameter WEIGHT_BITS = 8,
    parameter BIPOLAR = 0,  // a weight of 1 bit is 1, or -1 if the bit is set
    parameter TABLES = 0,  // lookup tables multiply
    parameter UNIFORM = 0,
    parameter SUM_BITS = 32,
    parameter FURTHER_BITS = 0,  // of an extra shift per filter, stored with the bias; 0 without
    parameter RESIDUAL = 0,
    parameter RESIDUAL_SHIFT = 0,
    parameter RESIDUAL_CAPACITY = 2,
    parameter RESIDUAL_ADDRESS_BITS = 1,
    parameter SHIFT = 0,
    parameter LOW = -128,
    parameter HIGH = 127,
    parameter TIES = 0,
    parameter LIMITS = 0,  // per channel: a reached limit adds 1 to LOW, the first limit is 0
    parameter LIMIT_VALUES = "",  // the others
    parameter WEIGHTS = "",
    parameter BIASES = "",
    parameter ROW_MAP = ""
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [INPUT_BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    input logic second_valid,  // the residual
    output logic second_ready,
    input logic [8*OUT_COLUMNS-1:0] second_data,
    input logic [15:0] second_row,
    input logic [15:0] second_channel,
    output logic out_valid,
    input logic out_ready,
    output logic [RESULT_BITS*OUT_COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  localparam DEPTH = SLOTS * SLOT_WORDS;
  localparam READERS = SPARSE ? FILTERS : 1;
  localparam PART_COLUMNS = (OUT_COLUMNS + PARTS - 1) / PARTS;
  localparam PART_BITS = PARTS > 1 ? $clog2(PARTS) : 1;
  localparam LANES = BANKS * PART_COLUMNS;
  localparam WORD = INPUT_BITS * STORED;
  localparam FACTORS = TERMS * WEIGHT_BITS;  // the weights of a filter
  localparam AMOUNT = FURTHER_BITS ? FURTHER_BITS : 1;
  localparam CONSTANT = SUM_BITS + FURTHER_BITS;
  localparam WINDOW_BITS = $clog2(KERNEL_ROWS + 1);
  localparam BLOCK_BITS = BLOCKS > 1 ? $clog2(BLOCKS) : 1;
  localparam PLACES = BY_ROW ? BLOCKS * PARTS : PARTS;
  localparam PLACE_BITS = PLACES > 1 ? $clog2(PLACES) : 1;

  // Groups of rows: the slots that they read, and the times at which these are written.
  logic [15:0] rows_written, channels_written, slots_freed, frame_rows, needed, group;
  logic [15:0] window_channels, reached;
  logic [WINDOW_BITS-1:0] window_rows;
  logic [ADDRESS_BITS:0] base, next_base, jump;
  logic go, group_ends, last_group, pending, done;

  function automatic logic [ADDRESS_BITS:0] wrap(input logic [ADDRESS_BITS:0] address);
    wrap = address >= (ADDRESS_BITS + 1)'(DEPTH) ? address - (ADDRESS_BITS + 1)'(DEPTH) : address;
  endfunction

  assign last_group = group == 16'(GROUPS - 1);

  // The next group needs these at stage 1, at least five cycles after `group_ends`.
  always_ff @(posedge clk) begin
    next_base <= wrap(base + (ADDRESS_BITS + 1)'(SLOT_WORDS));
    jump <= wrap(base + (ADDRESS_BITS + 1)'((FRAME_SLOTS - GROUPS + 1) % SLOTS * SLOT_WORDS));
  end

  always_ff @(posedge clk) begin
    go <= (BY_ROW || 16'(rows_written - needed) < 16'h8000) && !group_ends;
    // The rows of the last windows of the group that exist, and the channels of the last row.
    window_channels <= 16'(rows_written + 1) == needed && !group_ends ? channels_written : 0;
    if (window_rows != WINDOW_BITS'(KERNEL_ROWS) && 16'(rows_written - needed - reached) < 16'h8000) begin
      window_rows <= window_rows + 1;
      reached <= reached + 16'(ROW_STEP);
    end
    if (group_ends || rst) begin
      window_rows <= 0;
      reached <= 16'(-REACH);
    end
    if (group_ends) begin
      group <= group + 1;
      base <= next_base;
      slots_freed <= slots_freed + 1;
      needed <= group + 2 == 16'(GROUPS) ? frame_rows + 16'(LAST_ROWS) : needed + 16'(SLOT_ROWS);
      if (last_group) begin
        group <= 0;
        base <= jump;
        slots_freed <= slots_freed + 16'(FRAME_SLOTS - GROUPS + 1);
        frame_rows <= frame_rows + 16'(FRAME_SLOTS * SLOT_ROWS);
        needed <= frame_rows + 16'(FRAME_SLOTS * SLOT_ROWS + FIRST_ROWS);
      end
    end
    if (rst) begin
      go <= 0;
      group <= 0;
      base <= 0;
      slots_freed <= 0;
      frame_rows <= 0;
      needed <= 16'(FIRST_ROWS);
    end
  end

  // Stage 0.
  logic valid0, first0, last0, turn0, ends0;  // of a filter, and of the parts of a weight
  logic [PART_BITS-1:0] part0;
  logic [ADDRESS_BITS-1:0] part_offset;
  logic [READERS*ADDRESS_BITS-1:0] offset;
  logic [READERS*ROTATION_BITS-1:0] rotation0;
  logic [READERS*SHIFT_BITS-1:0] shift0;
  logic [FILTERS*FACTORS-1:0] weight0;

  generate
    if (SPARSE) assign turn0 = last0;
    if (DELTA_BITS != 0) begin : delta
      delta_sequencer #(
          .ENTRIES(ENTRIES),
          .FILTERS(FILTERS),
          .TAPS(KERNEL_ROWS * KERNEL_COLUMNS),
          .CHANNELS(GROUP_CHANNELS),
          .PHASES(PHASES),
          .DELTA_BITS(DELTA_BITS),
          .OFFSET_BITS(ADDRESS_BITS),
          .ROTATION_BITS(ROTATION_BITS),
          .SHIFT_BITS(SHIFT_BITS),
          .WEIGHT_BITS(WEIGHT_BITS),
          .TAP_TABLE(TAP_TABLE),
          .WEIGHTS(WEIGHTS)
      ) sequencer (
          .clk(clk),
          .rst(rst),
          .go(go),
          .free(!pending),
          .next(ends0),
          .valid(valid0),
          .first(first0),
          .last(last0),
          .group_ends(group_ends),
          .offset(offset),
          .rotation(rotation0),
          .shift(shift0),
          .weight(weight0)
      );
    end else if (SPARSE) begin : sparse
      coo_sequencer #(
          .ENTRIES(ENTRIES),
          .FILTERS(FILTERS),
          .OFFSET_BITS(ADDRESS_BITS),
          .ROTATION_BITS(ROTATION_BITS),
          .SHIFT_BITS(SHIFT_BITS),
          .WEIGHT_BITS(WEIGHT_BITS),
          .WEIGHTS(WEIGHTS)
      ) sequencer (
          .clk(clk),
          .rst(rst),
          .go(go),
          .free(!pending),
          .next(ends0),
          .valid(valid0),
          .first(first0),
          .last(last0),
          .group_ends(group_ends),
          .offset(offset),
          .rotation(rotation0),
          .shift(shift0),
          .weight(weight0)
      );
    end else begin : dense
      dense_sequencer #(
          .BLOCKS(BLOCKS),
          .GROUP_BLOCKS(GROUP_BLOCKS),
          .KERNEL_ROWS(KERNEL_ROWS),
          .KERNEL_COLUMNS(KERNEL_COLUMNS),
          .CHANNELS(GROUP_CHANNELS / TERMS),
          .PHASES(PHASES),
          .FILTERS(FILTERS),
          .BY_ROW(BY_ROW),
          .OFFSET_BITS(ADDRESS_BITS),
          .ROTATION_BITS(ROTATION_BITS),
          .SHIFT_BITS(SHIFT_BITS),
          .WEIGHT_BITS(FACTORS),
          .UNIFORM(UNIFORM),
          .ROW_TABLE(ROW_TABLE),
          .COLUMN_TABLE(COLUMN_TABLE),
          .WEIGHTS(WEIGHTS)
      ) sequencer (
          .clk(clk),
          .rst(rst),
          .go(go),
          .free(!pending),
          .next(ends0),
          .window_rows(16'(window_rows)),
          .window_channels(window_channels),
          .valid(valid0),
          .first(first0),
          .last(last0),
          .turn(turn0),
          .group_ends(group_ends),
          .offset(offset),
          .rotation(rotation0),
          .shift(shift0),
          .weight(weight0)
      );
    end
  endgenerate

  assign ends0 = part0 == PART_BITS'(PARTS - 1);

  always_ff @(posedge clk) begin
    if (valid0) begin
      part0 <= ends0 ? 0 : part0 + 1;
      part_offset <= ends0 ? 0 : part_offset + ADDRESS_BITS'(PART_WORDS);
    end
    if (rst) begin
      part0 <= 0;
      part_offset <= 0;
    end
  end

  // Stages 1 to 6, and the sums.
  logic [6:1] valid, first, last, turn, ends;
  logic [PLACE_BITS-1:0] base_place, place;  // the first place of the filters
  logic [6*PART_BITS-1:0] parts;  // of stages 1 to 6
  logic [PART_BITS-1:0] sums_part;
  logic [READERS*ROTATION_BITS-1:0] rotation1, rotation2, rotation3;
  logic [READERS*SHIFT_BITS-1:0] shift1, shift2, shift3;
  logic [READERS*BANKS-1:0] rotated;  // one bit for each rotation
  logic [READERS*(MOST_SHIFT+1)-1:0] shifted;
  logic [FILTERS*FACTORS-1:0] weight1, weight2, weight3, weight4, weight5;
  logic [READERS*BANKS*ADDRESS_BITS-1:0] address;
  logic [READERS*BANKS*TERMS*WORD-1:0] data;
  logic [READERS*TERMS*INPUT_BITS*LANES-1:0] selected, columns;
  logic [FILTERS*LANES*SUM_BITS-1:0] sums;
  logic [BLOCK_BITS-1:0] block;
  logic [FILTERS*CONSTANT-1:0] biases[0:BLOCKS-1];
  logic [FILTERS*CONSTANT-1:0] bias;
  logic [FILTERS*AMOUNT-1:0] further;
  // The first address of the group, of the next slot, and both if the ring has started again.
  logic [ADDRESS_BITS:0] base1, base_below1, next_base1, next_below1;

  generate
    if (BIASES != "") initial $readmemh(BIASES, biases);
  endgenerate

  always_ff @(posedge clk) begin
    valid <= {valid[5:1], valid0};
    first <= {first[5:1], first0};
    last <= {last[5:1], last0};
    turn <= {turn[5:1], turn0};
    ends <= {ends[5:1], ends0};
    parts <= {parts[5*PART_BITS-1:0], part0};
    rotation1 <= rotation0;
    rotation2 <= rotation1;
    rotation3 <= rotation2;
    shift1 <= shift0;
    shift2 <= shift1;
    shift3 <= shift2;
    for (int r = 0; r < READERS; r++) begin
      for (int s = 0; s < BANKS; s++)
      rotated[r*BANKS+s] <= rotation3[r*ROTATION_BITS+:ROTATION_BITS] == ROTATION_BITS'(s);
      for (int s = 0; s <= MOST_SHIFT; s++)
      shifted[r*(MOST_SHIFT+1)+s] <= shift3[r*SHIFT_BITS+:SHIFT_BITS] == SHIFT_BITS'(s);
    end
    weight1 <= weight0;
    weight2 <= weight1;
    weight3 <= weight2;
    weight4 <= weight3;
    weight5 <= weight4;
    base1 <= base;
    base_below1 <= base - (ADDRESS_BITS + 1)'(DEPTH);
    next_base1 <= next_base;
    next_below1 <= next_base - (ADDRESS_BITS + 1)'(DEPTH);
    columns <= selected;
    // At stage 5 the current filter is known. The bias is available at stage 6.
    bias <= biases[block];
    place <= base_place + PLACE_BITS'(parts[4*PART_BITS+:PART_BITS]);
    if (valid[5] && turn[5] && ends[5]) begin
      block <= block == BLOCK_BITS'(BLOCKS - 1) ? 0 : block + 1;
      if (BY_ROW) base_place <= block == BLOCK_BITS'(BLOCKS - 1) ? 0 : base_place + PLACE_BITS'(PARTS);
    end
    if (done) pending <= 0;
    if (valid0 && last0 && ends0) pending <= 1;
    if (rst) begin
      valid <= 0;
      block <= 0;
      base_place <= 0;
      pending <= 0;
    end
  end

  // A bank below the rotation has the row in the next slot.
  generate
    for (genvar r = 0; r < READERS; r++) begin : reader
      logic [ADDRESS_BITS:0] here, later, here_below, later_below;
      logic [ADDRESS_BITS-1:0] tap;
      always_ff @(posedge clk) tap <= offset[r*ADDRESS_BITS+:ADDRESS_BITS] + part_offset;
      assign here_below = base_below1 + (ADDRESS_BITS + 1)'(tap);
      assign later_below = next_below1 + (ADDRESS_BITS + 1)'(tap);
      assign here = here_below[ADDRESS_BITS] ? base1 + (ADDRESS_BITS + 1)'(tap) : here_below;
      assign later = later_below[ADDRESS_BITS] ? next_base1 + (ADDRESS_BITS + 1)'(tap) : later_below;
      for (genvar b = 0; b < BANKS; b++) begin : bank
        always_ff @(posedge clk) begin
          address[(r*BANKS+b)*ADDRESS_BITS+:ADDRESS_BITS] <=
              ADDRESS_BITS'(b < rotation1[r*ROTATION_BITS+:ROTATION_BITS] ? later : here);
        end
      end
      // Window row b reads bank b + rotation; window x of a row begins `shift` columns later.
      for (genvar t = 0; t < TERMS; t++) begin : term
        for (genvar b = 0; b < BANKS; b++) begin : row
          logic [WORD-1:0] word;
          always_comb begin
            word = '0;
            for (int s = 0; s < BANKS; s++)
            word |= data[((r*BANKS+(b+s)%BANKS)*TERMS+t)*WORD+:WORD]
                & {WORD{rotated[r*BANKS+s]}};
          end
          for (genvar x = 0; x < PART_COLUMNS; x++) begin : window
            localparam LANE = (r * LANES + b * PART_COLUMNS + x) * TERMS + t;
            always_comb begin
              selected[LANE*INPUT_BITS+:INPUT_BITS] = '0;
              for (int s = 0; s <= MOST_SHIFT; s++) begin
                if (x + s >= FIRST && x + s - FIRST < STORED)
                  selected[LANE*INPUT_BITS+:INPUT_BITS] |= word[INPUT_BITS*(x+s-FIRST)+:INPUT_BITS]
                      & {INPUT_BITS{shifted[r*(MOST_SHIFT+1)+s]}};
                else
                  selected[LANE*INPUT_BITS+:INPUT_BITS] |= INPUT_BITS'(PAD)
                      & {INPUT_BITS{shifted[r*(MOST_SHIFT+1)+s]}};
              end
            end
          end
        end
      end
    end
    for (genvar f = 0; f < FILTERS; f++) begin : shifts
      if (FURTHER_BITS) assign further[f*AMOUNT+:AMOUNT] = bias[f*CONSTANT+SUM_BITS+:AMOUNT];
      else assign further[f*AMOUNT+:AMOUNT] = '0;
    end
    if (PAIRED == 2) begin : filter_pairs
      // The weights of two filters are the columns of a multiplier, and the column is the weight.
      localparam FACTOR = BIPOLAR ? 2 : WEIGHT_BITS;
      for (genvar f = 0; f < FILTERS; f = f + 2) begin : filter
        localparam COUNT = FILTERS - f < 2 ? FILTERS - f : 2;
        logic [FACTOR*COUNT-1:0] factors;
        logic [SUM_BITS*COUNT-1:0] both_biases;
        for (genvar k = 0; k < COUNT; k++) begin : factor
          if (BIPOLAR) assign factors[k*FACTOR+:FACTOR] = {weight5[f+k], 1'b1};
          else assign factors[k*FACTOR+:FACTOR] = weight5[(f+k)*WEIGHT_BITS+:WEIGHT_BITS];
          assign both_biases[k*SUM_BITS+:SUM_BITS] = bias[(f+k)*CONSTANT+:SUM_BITS];
        end
        multiplier #(
            .LANES(COUNT),
            .PARTS(PARTS),
            .PART_BITS(PART_BITS),
            .PLACES(PLACES),
            .PLACE_BITS(PLACE_BITS),
            .INPUT_BITS(FACTOR),
            .WEIGHT_BITS(INPUT_BITS),
            .SUM_BITS(SUM_BITS)
        ) multiply (
            .clk(clk),
            .first(first[6]),
            .add(valid[6]),
            .last(last[6]),
            .part(parts[5*PART_BITS+:PART_BITS]),
            .place(place),
            .sums_part(sums_part),
            .columns(factors),
            .weight(columns),
            .bias(both_biases),
            .sums(sums[f*SUM_BITS+:SUM_BITS*COUNT])
        );
      end
    end else begin : filters
      for (genvar f = 0; f < FILTERS; f++) begin : filter
        localparam READER = SPARSE ? f : 0;
        localparam STEP = PAIRED ? 2 : 1;
        for (genvar lane = 0; lane < LANES; lane = lane + STEP) begin : lanes
          localparam COUNT = LANES - lane < STEP ? LANES - lane : STEP;
          multiplier #(
              .LANES(COUNT),
              .PARTS(PARTS),
              .PART_BITS(PART_BITS),
              .PLACES(PLACES),
              .PLACE_BITS(PLACE_BITS),
              .INPUT_BITS(INPUT_BITS),
              .WEIGHT_BITS(WEIGHT_BITS),
              .BIPOLAR(BIPOLAR),
              .TABLES(TABLES),
              .TERMS(TERMS),
              .SUM_BITS(SUM_BITS)
          ) multiply (
              .clk(clk),
              .first(first[6]),
              .add(valid[6]),
              .last(last[6]),
              .part(parts[5*PART_BITS+:PART_BITS]),
              .place(place),
              .sums_part(sums_part),
              .columns(columns[(READER*LANES+lane)*TERMS*INPUT_BITS+:TERMS*INPUT_BITS*COUNT]),
              .weight(weight5[f*FACTORS+:FACTORS]),
              .bias({COUNT{bias[f*CONSTANT+:SUM_BITS]}}),
              .sums(sums[(f*LANES+lane)*SUM_BITS+:SUM_BITS*COUNT])
          );
        end
      end
    end
  endgenerate

  window_buffer #(
      .ROWS(ROWS),
      .CHANNELS(CHANNELS),
      .COLUMNS(COLUMNS),
      .BITS(INPUT_BITS),
      .TOP(TOP),
      .PADDED_ROWS(PADDED_ROWS),
      .SLOT_ROWS(SLOT_ROWS),
      .SLOTS(SLOTS),
      .SLOT_WORDS(SLOT_WORDS),
      .FRAME_SLOTS(FRAME_SLOTS),
      .BANKS(BANKS),
      .STRIDE(STRIDE),
      .PHASES(PHASES),
      .STARTS(STARTS),
      .STORED(STORED),
      .TERMS(TERMS),
      .PAD(PAD),
      .READERS(READERS),
      .ADDRESS_BITS(ADDRESS_BITS),
      .ROW_MAP(ROW_MAP)
  ) buffer (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(in_row),
      .in_channel(in_channel),
      .rows_written(rows_written),
      .channels_written(channels_written),
      .slots_freed(slots_freed),
      .read_address(address),
      .read_data(data)
  );

  localparam RESIDUAL_ROWS = RESIDUAL ? $clog2(RESIDUAL_CAPACITY) : 0;

  logic read, sent_valid, sent_ready;
  logic [15:0] read_channel, sent_row, sent_channel;
  logic [RESIDUAL_ROWS:0] read_row, residual_written, residual_freed;
  logic [RESULT_BITS*OUT_COLUMNS-1:0] sent_data;
  logic [8*OUT_COLUMNS-1:0] residual;

  generate
    if (RESIDUAL) begin : addition
      row_ring #(
          .ROWS(OUT_ROWS),
          .CHANNELS(OUT_CHANNELS),
          .COLUMNS(OUT_COLUMNS),
          .CAPACITY(RESIDUAL_CAPACITY),
          .ADDRESS_BITS(RESIDUAL_ADDRESS_BITS)
      ) ring (
          .clk(clk),
          .rst(rst),
          .in_valid(second_valid),
          .in_ready(second_ready),
          .in_data(second_data),
          .in_row(second_row),
          .in_channel(second_channel),
          .rows_written(residual_written),
          .rows_freed(residual_freed),
          .read(read),
          .read_row(read_row),
          .read_channel(read_channel),
          .read_data(residual)
      );
    end else begin : no_addition
      assign second_ready = 0;
      assign residual_written = 0;
      assign residual = 0;
    end
  endgenerate

  epilogue #(
      .OUT_ROWS(OUT_ROWS),
      .OUT_CHANNELS(OUT_CHANNELS),
      .COLUMNS(OUT_COLUMNS),
      .PARTS(PARTS),
      .PART_COLUMNS(PART_COLUMNS),
      .PART_BITS(PART_BITS),
      .BANKS(BANKS),
      .FILTERS(FILTERS),
      .SUM_BITS(SUM_BITS),
      .RESULT_BITS(RESULT_BITS),
      .RESIDUAL(RESIDUAL),
      .RESIDUAL_ROWS(RESIDUAL_ROWS),
      .RESIDUAL_SHIFT(RESIDUAL_SHIFT),
      .FURTHER_BITS(FURTHER_BITS),
      .SHIFT(SHIFT),
      .LOW(LOW),
      .HIGH(HIGH),
      .TIES(TIES),
      .LIMITS(LIMITS),
      .LIMIT_VALUES(LIMIT_VALUES)
  ) finish (
      .clk(clk),
      .rst(rst),
      .load(valid[6] && last[6] && ends[6]),
      .part(sums_part),
      .sums(sums),
      .further(further),
      .done(done),
      .read(read),
      .read_row(read_row),
      .read_channel(read_channel),
      .rows_written(residual_written),
      .rows_freed(residual_freed),
      .residual(residual),
      .out_valid(sent_valid),
      .out_ready(sent_ready),
      .out_data(sent_data),
      .out_row(sent_row),
      .out_channel(sent_channel)
  );

  skid_buffer #(
      .COLUMNS(OUT_COLUMNS),
      .BITS(RESULT_BITS)
  ) skid (
      .clk(clk),
      .rst(rst),
      .in_valid(sent_valid),
      .in_ready(sent_ready),
      .in_data(sent_data),
      .in_row(sent_row),
      .in_channel(sent_channel),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(out_row),
      .out_channel(out_channel)
  );
endmodule
