// Send the sums of FILTERS filters and BANKS rows as words, a word per cycle, in the order of
// filters: apply the extra shift of the filter, then add the residual and requantize. Words after
// the last filter or row are omitted. A word with columns in PARTS parts needs PARTS cycles.
module epilogue #(
    parameter OUT_ROWS = 1,
    parameter OUT_CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter PARTS = 1,
    parameter PART_COLUMNS = 1,
    parameter PART_BITS = 1,
    parameter BANKS = 1,
    parameter FILTERS = 1,
    parameter SUM_BITS = 32,
    parameter RESULT_BITS = 8,
    parameter RESIDUAL = 0,
    parameter RESIDUAL_ROWS = 0,  // log2 of the rows that the ring of the residual stores
    parameter RESIDUAL_SHIFT = 0,
    parameter FURTHER_BITS = 0,  // of the extra shift of a filter; 0 if all shifts are equal
    parameter SHIFT = 0,
    parameter LOW = -128,
    parameter HIGH = 127,
    parameter TIES = 0,
    parameter LIMITS = 0,  // per channel: a reached limit adds 1 to LOW, the first limit is 0
    parameter LIMIT_VALUES = ""  // the others
) (
    input logic clk,
    input logic rst,
    input logic load,  // from now on, `sums` belong to the next filters
    output logic [PART_BITS-1:0] part,
    input logic [FILTERS*BANKS*PART_COLUMNS*SUM_BITS-1:0] sums,  // of this part
    input logic [FILTERS*(FURTHER_BITS?FURTHER_BITS:1)-1:0] further,  // of the next filters
    output logic done,  // the last sum is leaving
    output logic read,
    output logic [RESIDUAL_ROWS:0] read_row,  // of all frames, modulo 2^(RESIDUAL_ROWS+1)
    output logic [15:0] read_channel,
    input logic [RESIDUAL_ROWS:0] rows_written,
    output logic [RESIDUAL_ROWS:0] rows_freed,
    input logic [8*COLUMNS-1:0] residual,  // after two reads
    output logic out_valid,
    input logic out_ready,
    output logic [RESULT_BITS*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  localparam WORD = PART_COLUMNS * SUM_BITS;
  localparam PART = RESULT_BITS * PART_COLUMNS;
  localparam FURTHER_LIMITS = LIMITS > 1 ? LIMITS - 1 : 1;
  localparam AMOUNT = FURTHER_BITS ? FURTHER_BITS : 1;

  localparam ROW_BITS = OUT_ROWS > 1 ? $clog2(OUT_ROWS) : 1;
  localparam CHANNEL_BITS = OUT_CHANNELS > 1 ? $clog2(OUT_CHANNELS) : 1;
  localparam FILTER_BITS = FILTERS > 1 ? $clog2(FILTERS) : 1;
  localparam BANK_BITS = BANKS > 1 ? $clog2(BANKS) : 1;

  logic full, step, take, ends_word, ends_filter, ends_block, ends_group, there;
  logic [FILTER_BITS-1:0] filter;
  logic [BANK_BITS-1:0] bank;
  logic [ROW_BITS-1:0] group_row, row, middle_row, moved_row;  // of the group, of the word
  logic [CHANNEL_BITS-1:0] channel, middle_channel, moved_channel;
  logic middle_valid, middle_ends, moved_valid, moved_ends;
  logic [WORD-1:0] chosen, middle, shifted, moved;
  logic [PART_COLUMNS-1:0] exact, moved_exact;  // a shift dropped only zeros
  logic [PART-1:0] result;
  logic [8*PART_COLUMNS-1:0] added_to;
  logic [FURTHER_LIMITS*SUM_BITS-1:0] limits;  // of the channel of `moved`
  logic [PARTS*PART-1:0] collected;
  logic [PART_BITS-1:0] middle_part, moved_part;
  logic [FILTERS*AMOUNT-1:0] amounts;
  logic [AMOUNT-1:0] amount, middle_amount;

  // Select a word by masks, which is cheaper than a shifter.
  always_comb begin
    chosen = '0;
    amount = '0;
    for (int f = 0; f < FILTERS; f++)
    amount |= amounts[f*AMOUNT+:AMOUNT] & {AMOUNT{filter == FILTER_BITS'(f)}};
    for (int f = 0; f < FILTERS; f++)
    for (int b = 0; b < BANKS; b++)
    chosen |= sums[(f*BANKS+b)*WORD+:WORD]
        & {WORD{filter == FILTER_BITS'(f) && bank == BANK_BITS'(b)}};
  end

  assign step = !out_valid || out_ready;
  // The rows of a group are read in order with the first channel.
  assign there = RESIDUAL == 0 || channel != 0 || rows_written != read_row;
  assign take = full && step && there;
  assign ends_word = part == PART_BITS'(PARTS - 1);
  assign ends_filter = ends_word
      && (bank == BANK_BITS'(BANKS - 1) || row == ROW_BITS'(OUT_ROWS - 1));
  assign ends_group = ends_filter && channel == CHANNEL_BITS'(OUT_CHANNELS - 1);
  assign ends_block = ends_group || (ends_filter && filter == FILTER_BITS'(FILTERS - 1));
  assign done = take && ends_block;
  assign read = step;
  assign read_channel = 16'(channel);

  always_ff @(posedge clk) begin
    if (done) full <= 0;
    if (load) begin
      full <= 1;
      amounts <= further;
    end
    if (take) begin
      part <= ends_word ? 0 : part + 1;
      if (ends_word) begin
        bank <= bank + 1;
        row <= row + 1;
        read_row <= read_row + 1;
      end
      if (ends_filter) begin
        bank <= 0;
        row <= group_row;
        read_row <= rows_freed;
        filter <= filter + 1;
        channel <= channel + 1;
      end
      if (ends_block) filter <= 0;
      if (ends_group) begin
        channel <= 0;
        group_row <= row == ROW_BITS'(OUT_ROWS - 1) ? 0 : row + 1;
        row <= row == ROW_BITS'(OUT_ROWS - 1) ? 0 : row + 1;
        read_row <= read_row + 1;
        rows_freed <= read_row + 1;
      end
    end
    if (step) begin
      middle_valid <= take;
      middle_ends <= ends_word;
      middle_part <= part;
      middle <= chosen;
      middle_amount <= amount;
      middle_row <= row;
      middle_channel <= channel;
      moved_valid <= middle_valid;
      moved_ends <= middle_ends;
      moved_part <= middle_part;
      moved <= shifted;
      moved_exact <= exact;
      moved_row <= middle_row;
      moved_channel <= middle_channel;
      out_valid <= moved_valid && moved_ends;
      if (moved_valid) collected <= (PARTS * PART)'({result, collected} >> PART);
      out_row <= 16'(moved_row);
      out_channel <= 16'(moved_channel);
    end
    if (rst) begin
      full <= 0;
      part <= 0;
      bank <= 0;
      filter <= 0;
      channel <= 0;
      row <= 0;
      group_row <= 0;
      read_row <= 0;
      rows_freed <= 0;
      middle_valid <= 0;
      moved_valid <= 0;
      out_valid <= 0;
    end
  end

  // Parts enter at the top and move down, so that the first part ends at column 0.
  assign out_data = collected[RESULT_BITS*COLUMNS-1:0];
  assign added_to = (8 * PART_COLUMNS)'((8 * PARTS * PART_COLUMNS)'(residual)
      >> (moved_part * 8 * PART_COLUMNS));

  generate
    if (LIMITS > 1) begin : stored_limits
      logic [FURTHER_LIMITS*SUM_BITS-1:0] memory[0:OUT_CHANNELS-1];
      if (LIMIT_VALUES != "") initial $readmemh(LIMIT_VALUES, memory);
      always_ff @(posedge clk) if (step) limits <= memory[middle_channel];
    end else begin : no_limits
      assign limits = '0;
    end
    for (genvar x = 0; x < PART_COLUMNS; x++) begin : column
      logic signed [SUM_BITS-1:0] sum, added;
      assign sum = middle[x*SUM_BITS+:SUM_BITS];
      assign shifted[x*SUM_BITS+:SUM_BITS] = FURTHER_BITS == 0 ? sum : sum >>> middle_amount;
      assign exact[x] = TIES != 0 && (SHIFT > 0 || (FURTHER_BITS != 0 && middle_amount != 0))
          && (FURTHER_BITS == 0
              || $signed(shifted[x*SUM_BITS+:SUM_BITS]) <<< middle_amount == sum);
      assign added = RESIDUAL == 0 ? '0
          : SUM_BITS'($signed(added_to[8*x+:8])) <<< RESIDUAL_SHIFT;
      if (LIMITS != 0) begin : compare
        // A sum that is not negative has reached the first limit.
        logic [FURTHER_LIMITS-1:0] reached;
        always_comb begin
          for (int k = 0; k < FURTHER_LIMITS; k++)
          reached[k] = LIMITS > 1
              && $signed(moved[x*SUM_BITS+:SUM_BITS]) >= $signed(limits[k*SUM_BITS+:SUM_BITS]);
        end
        assign result[RESULT_BITS*x+:RESULT_BITS] = RESULT_BITS'(LOW)
            + RESULT_BITS'(!moved[x*SUM_BITS+SUM_BITS-1]) + RESULT_BITS'($countones(reached));
      end else begin : shift
        requantize #(
            .SUM_BITS(SUM_BITS),
            .RESULT_BITS(RESULT_BITS),
            .SHIFT(SHIFT),
            .LOW(LOW),
            .HIGH(HIGH),
            .TIES(TIES)
        ) finish (
            .exact(moved_exact[x]),
            .sum(moved[x*SUM_BITS+:SUM_BITS] + added),
            .result(result[RESULT_BITS*x+:RESULT_BITS])
        );
      end
    end
  endgenerate
endmodule
