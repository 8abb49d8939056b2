// The nnet circuits: convolution, depthwise convolution, matrix product, pooling and addition on an
// array.
//
// AXI4-Lite registers specify a layer. An AXI4 master reads input, constants and residual, and
// writes the result. Without waits, the array processes a pixel per cycle.
module nnet_core #(
    parameter LANES = 16,
    parameter BUS_BYTES = 16,
    parameter LINE_BYTES = 262144,
    parameter RESULT_BYTES = 65536,
    parameter PIXELS = 256,
    parameter PAIRED = 1,
    parameter TABLES = 16,  // of a layer: a power of two >= 2, or 0
    parameter ADDRESS_BITS = 40,
    parameter BURST_BYTES = 256
) (
    input logic clk,
    input logic rst,  // with the memory port: all transfers are forgotten
    input logic core_rst,  // without it: transfers are finished
    output logic irq,
    input logic s_awvalid,
    output logic s_awready,
    input logic [8:0] s_awaddr,
    input logic s_wvalid,
    output logic s_wready,
    input logic [31:0] s_wdata,
    input logic [3:0] s_wstrb,
    output logic s_bvalid,
    input logic s_bready,
    output logic [1:0] s_bresp,
    input logic s_arvalid,
    output logic s_arready,
    input logic [8:0] s_araddr,
    output logic s_rvalid,
    input logic s_rready,
    output logic [31:0] s_rdata,
    output logic [1:0] s_rresp,
    output logic m_arvalid,
    input logic m_arready,
    output logic [ADDRESS_BITS-1:0] m_araddr,
    output logic [7:0] m_arlen,
    input logic m_rvalid,
    output logic m_rready,
    input logic [8*BUS_BYTES-1:0] m_rdata,
    input logic [1:0] m_rresp,
    input logic m_rlast,
    output logic m_awvalid,
    input logic m_awready,
    output logic [ADDRESS_BITS-1:0] m_awaddr,
    output logic [7:0] m_awlen,
    output logic m_wvalid,
    input logic m_wready,
    output logic [8*BUS_BYTES-1:0] m_wdata,
    output logic [BUS_BYTES-1:0] m_wstrb,
    output logic m_wlast,
    input logic m_bvalid,
    output logic m_bready,
    input logic [1:0] m_bresp
);
  localparam LINE_BITS = $clog2(LINE_BYTES);
  localparam RESULT_BITS = $clog2(RESULT_BYTES);
  localparam SIZE_BITS = $clog2(BURST_BYTES) + 1;
  localparam CHAIN = LANES < 8 ? LANES : 8;
  // Stages after the read of a value: byte buffer, padding, array, sums.
  localparam READ = 4;
  localparam VALUE = READ + 1;
  localparam TERM = VALUE + CHAIN + 2;
  localparam EPILOGUE = READ + 8;
  localparam TABLE_BITS = $clog2(TABLES);

  layer_registers::layer_t layer;
  logic start, done, launched, emptied;
  // Starts and ends of launches.
  logic start_layer, start_queue, abort, outside, queue_outside, busy, ended, halt, reset, oversize;
  logic read_failed, write_failed, reader_quiet, writer_quiet, copy, copied, wants_layer;
  logic [3:0] status;
  logic [5:0] copy_word;
  logic [31:0] copy_value, launches, cycles, queue_length;
  logic [63:0] queue_address;

  // All modules except registers and transfers.
  assign reset = rst || core_rst || halt;

  control_registers #(
      .LANES(LANES),
      .BUS_BYTES(BUS_BYTES),
      .LINE_BYTES(LINE_BYTES),
      .RESULT_BYTES(RESULT_BYTES),
      .TABLES(TABLES)
  ) control (
      .clk(clk),
      .rst(rst),
      .core_rst(core_rst),
      .s_awvalid(s_awvalid),
      .s_awready(s_awready),
      .s_awaddr(s_awaddr),
      .s_wvalid(s_wvalid),
      .s_wready(s_wready),
      .s_wdata(s_wdata),
      .s_wstrb(s_wstrb),
      .s_bvalid(s_bvalid),
      .s_bready(s_bready),
      .s_bresp(s_bresp),
      .s_arvalid(s_arvalid),
      .s_arready(s_arready),
      .s_araddr(s_araddr),
      .s_rvalid(s_rvalid),
      .s_rready(s_rready),
      .s_rdata(s_rdata),
      .s_rresp(s_rresp),
      .irq(irq),
      .start_layer(start_layer),
      .start_queue(start_queue),
      .abort(abort),
      .outside(outside),
      .queue_outside(queue_outside),
      .queue_address(queue_address),
      .queue_length(queue_length),
      .busy(busy),
      .finished(ended),
      .status(status),
      .launches(launches),
      .cycles(cycles),
      .copy(copy),
      .copy_word(copy_word),
      .copy_value(copy_value),
      .layer(layer)
  );

  launch_control launch (
      .clk(clk),
      .rst(rst),
      .core_rst(core_rst),
      .start_layer(start_layer),
      .start_queue(start_queue),
      .abort(abort),
      .outside(outside),
      .queue_outside(queue_outside),
      .length(queue_length),
      .wants_layer(wants_layer),
      .layer_there(copied),
      .oversize(oversize),
      .read_failed(read_failed),
      .write_failed(write_failed),
      .done(done),
      .quiet(reader_quiet && writer_quiet),
      .start(start),
      .halt(halt),
      .busy(busy),
      .finished(ended),
      .status(status),
      .launches(launches),
      .cycles(cycles)
  );

  // Memory. Constants have priority, because they are few. Then the residual and rows alternate. The
  // next layer of a queue is last.
  localparam CLIENTS = 4;
  logic [CLIENTS-1:0] burst_valid, burst_ready, burst_last, beat_valid;
  logic [CLIENTS*ADDRESS_BITS-1:0] burst_address;
  logic [CLIENTS*SIZE_BITS-1:0] burst_bytes;
  logic [CLIENTS*LINE_BITS-1:0] burst_place;
  logic [LINE_BITS-1:0] beat_place;
  logic [BUS_BYTES-1:0] beat_mask;
  logic [8*BUS_BYTES-1:0] beat_data;
  logic beat_last;

  axi_reader #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(LINE_BITS),
      .BUS_BYTES(BUS_BYTES),
      .BURST_BYTES(BURST_BYTES)
  ) reader (
      .clk(clk),
      .rst(rst),
      .halt(halt),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_bytes(burst_bytes),
      .burst_place(burst_place),
      .burst_last(burst_last),
      .arvalid(m_arvalid),
      .arready(m_arready),
      .araddr(m_araddr),
      .arlen(m_arlen),
      .rvalid(m_rvalid),
      .rready(m_rready),
      .rdata(m_rdata),
      .rresp(m_rresp),
      .rlast(m_rlast),
      .beat_valid(beat_valid),
      .beat_place(beat_place),
      .beat_mask(beat_mask),
      .beat_data(beat_data),
      .beat_last(beat_last),
      .failed(read_failed),
      .quiet(reader_quiet)
  );

  assign burst_place[3*LINE_BITS+:LINE_BITS] = '0;
  assign burst_last[3] = 0;

  launch_queue #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .BUS_BYTES(BUS_BYTES),
      .BURST_BYTES(BURST_BYTES)
  ) queue (
      .clk(clk),
      .rst(reset),
      .start(start_queue),
      .first(ADDRESS_BITS'(queue_address)),
      .length(queue_length),
      .burst_valid(burst_valid[3]),
      .burst_ready(burst_ready[3]),
      .burst_address(burst_address[3*ADDRESS_BITS+:ADDRESS_BITS]),
      .burst_bytes(burst_bytes[3*SIZE_BITS+:SIZE_BITS]),
      .beat_valid(beat_valid[3]),
      .beat_data(beat_data),
      .wants_layer(wants_layer),
      .write(copy),
      .word(copy_word),
      .value(copy_value),
      .written(copied)
  );

  logic [15:0] stream_beat;
  logic [8*BUS_BYTES-1:0] stream_data;
  logic [15:0] table_place;
  logic [63:0] table_data;
  logic load_table, load_header, load_bank, load_tile, weights_there, tile_read, swap;
  logic [1:0] header_ready, header_taken;

  assign burst_place[LINE_BITS-1:0] = '0;
  assign burst_last[0] = 0;

  stream_loader #(
      .LANES(LANES),
      .BUS_BYTES(BUS_BYTES),
      .ADDRESS_BITS(ADDRESS_BITS),
      .BURST_BYTES(BURST_BYTES)
  ) constants (
      .clk(clk),
      .rst(reset),
      .start(start),
      .layer(layer),
      .burst_valid(burst_valid[0]),
      .burst_ready(burst_ready[0]),
      .burst_address(burst_address[0+:ADDRESS_BITS]),
      .burst_bytes(burst_bytes[0+:SIZE_BITS]),
      .beat_valid(beat_valid[0]),
      .beat_data(beat_data),
      .beat(stream_beat),
      .data(stream_data),
      .load_table(load_table),
      .table_place(table_place),
      .table_data(table_data),
      .load_header(load_header),
      .header_bank(load_bank),
      .load_tile(load_tile),
      .tile_ready(weights_there),
      .tile_taken(tile_read),
      .header_ready(header_ready),
      .header_taken(header_taken)
  );

  logic [1:0] residual_there, residual_taken;
  logic [RESULT_BITS-1:0] residual_place;

  residual_loader #(
      .LANES(LANES),
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(RESULT_BITS),
      .BURST_BYTES(BURST_BYTES)
  ) residuals (
      .clk(clk),
      .rst(reset),
      .start(start),
      .layer(layer),
      .arrives(beat_valid[1] && beat_last),
      .there(residual_there),
      .taken(residual_taken),
      .burst_valid(burst_valid[1]),
      .burst_ready(burst_ready[1]),
      .burst_address(burst_address[ADDRESS_BITS+:ADDRESS_BITS]),
      .burst_bytes(burst_bytes[SIZE_BITS+:SIZE_BITS]),
      .burst_place(residual_place),
      .burst_last(burst_last[1])
  );

  assign burst_place[LINE_BITS+:LINE_BITS] = LINE_BITS'(residual_place);

  logic [31:0] rows_there, rows_freed;
  logic lines_idle;

  line_loader #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(LINE_BITS),
      .BURST_BYTES(BURST_BYTES)
  ) lines (
      .clk(clk),
      .rst(reset),
      .start(start),
      .layer(layer),
      .rows_free(rows_freed),
      .row_arrives(beat_valid[2] && beat_last),
      .rows_there(rows_there),
      .idle(lines_idle),
      .burst_valid(burst_valid[2]),
      .burst_ready(burst_ready[2]),
      .burst_address(burst_address[2*ADDRESS_BITS+:ADDRESS_BITS]),
      .burst_bytes(burst_bytes[2*SIZE_BITS+:SIZE_BITS]),
      .burst_place(burst_place[2*LINE_BITS+:LINE_BITS]),
      .burst_last(burst_last[2])
  );

  // Tiles and their reads.
  logic planner_idle, runner_idle, tile_valid, tile_taken, first, last, half, weights_ready;
  logic [LINE_BITS-1:0] ring, read_address;
  logic signed [23:0] y, position, read_position;
  logic [8:0] block_rows, block_columns;
  logic [31:0] rows_free;
  logic [1:0] claimed, half_free, group_ends, full;
  logic [1:0][9:0] pixels;
  logic [1:0][31:0] group, group_place, group_bytes;
  logic read, read_begins, read_counts, read_outside, read_half, read_first, read_ends;
  logic [7:0] read_pixel;
  logic values, swapping;

  tile_planner #(
      .LANES(LANES),
      .PIXELS(PIXELS),
      .PLACE_BITS(LINE_BITS)
  ) planner (
      .clk(clk),
      .rst(reset),
      .start(start),
      .idle(planner_idle),
      .layer(layer),
      .rows_there(rows_there),
      .oversize(oversize),
      .tile_valid(tile_valid),
      .tile_taken(tile_taken),
      .ring(ring),
      .y(y),
      .position(position),
      .block_rows(block_rows),
      .block_columns(block_columns),
      .first(first),
      .last(last),
      .half(half),
      .rows_free(rows_free),
      .half_free(half_free),
      .claimed(claimed),
      .pixels(pixels),
      .group(group),
      .group_place(group_place),
      .group_bytes(group_bytes),
      .group_ends(group_ends)
  );

  assign values = layer.mode[layer_registers::TAKES_VALUES];
  assign weights_ready = values || (weights_there && !swapping);

  tile_runner #(
      .LANES(LANES),
      .PLACE_BITS(LINE_BITS)
  ) runner (
      .clk(clk),
      .rst(reset),
      .start(start),
      .layer(layer),
      .idle(runner_idle),
      .tile_valid(tile_valid),
      .weights_ready(weights_ready),
      .tile_taken(tile_taken),
      .ring(ring),
      .y(y),
      .position(position),
      .block_rows(block_rows),
      .block_columns(block_columns),
      .first(first),
      .last(last),
      .half(half),
      .rows_free(rows_free),
      .rows_freed(rows_freed),
      .read(read),
      .read_begins(read_begins),
      .read_counts(read_counts),
      .read_address(read_address),
      .read_position(read_position),
      .read_outside(read_outside),
      .read_pixel(read_pixel),
      .read_half(read_half),
      .read_first(read_first),
      .read_ends(read_ends)
  );

  logic [8*LANES-1:0] line_data, value;
  logic [VALUE-1:0] begins;
  logic [LANES-1:0] outside1;
  logic [LANES*READ-1:0] late_outside;

  byte_buffer #(
      .BYTES(LINE_BYTES),
      .WRITE(BUS_BYTES),
      .READ(LANES)
  ) line_buffer (
      .clk(clk),
      .write(beat_mask & {BUS_BYTES{beat_valid[2]}}),
      .write_address(beat_place),
      .write_data(beat_data),
      .read_address(read_address),
      .read_data(line_data)
  );

  // The next weights follow a cycle after `tile_read`, in the order of the rows, as does `swap`.
  assign tile_read = begins[VALUE-2] && !values;
  assign swap = begins[VALUE-1] && !values;

  // Signals that accompany a value to the sums.
  logic [TERM:0] reads, firsts, halves, endings;
  logic [8*(TERM+1)-1:0] read_pixels;

  delay_line #(
      .WIDTH(1),
      .STAGES(VALUE - 1),
      .RESET(1)
  ) begins_line (
      .clk(clk),
      .rst(reset),
      .now(read_begins),
      .taps(begins)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(TERM),
      .RESET(1)
  ) reads_line (
      .clk(clk),
      .rst(reset),
      .now(read && read_counts),
      .taps(reads)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(TERM),
      .RESET(1)
  ) endings_line (
      .clk(clk),
      .rst(reset),
      .now(read && read_ends),
      .taps(endings)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(TERM),
      .RESET(0)
  ) firsts_line (
      .clk(clk),
      .rst(reset),
      .now(read_first),
      .taps(firsts)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(TERM),
      .RESET(0)
  ) halves_line (
      .clk(clk),
      .rst(reset),
      .now(read_half),
      .taps(halves)
  );
  delay_line #(
      .WIDTH(8),
      .STAGES(TERM),
      .RESET(0)
  ) read_pixels_line (
      .clk(clk),
      .rst(reset),
      .now(read_pixel),
      .taps(read_pixels)
  );

  always_ff @(posedge clk) begin
    if (tile_taken && !values) swapping <= 1;
    else if (tile_read) swapping <= 0;
    for (int j = 0; j < LANES; j++) begin
      outside1[j] <= read_outside || read_position + 24'(j) < 0
          || read_position + 24'(j) >= $signed(24'(layer.row_bytes));
      value[8*j+:8] <= late_outside[LANES*(READ-1)+j] ? layer.outside : line_data[8*j+:8];
    end
    if (reset) swapping <= 0;
  end

  delay_line #(
      .WIDTH(LANES),
      .STAGES(READ - 1)
  ) outside_line (
      .clk(clk),
      .rst(reset),
      .now(outside1),
      .taps(late_outside)
  );

  logic [32*LANES-1:0] products, terms, next;
  logic [8*LANES*(CHAIN+2)-1:0] late_values;

  product_array #(
      .LANES(LANES),
      .BUS_BYTES(BUS_BYTES),
      .PAIRED(PAIRED)
  ) multiply (
      .clk(clk),
      .load(load_tile),
      .load_beat(stream_beat),
      .load_data(stream_data),
      .four_bits(layer.mode[layer_registers::FOUR_BITS]),
      .two_bits(layer.mode[layer_registers::TWO_BITS]),
      .by_channel(layer.mode[layer_registers::BY_CHANNEL]),
      .swap(swap),
      .values(value),
      .sums(products)
  );

  delay_line #(
      .WIDTH(8 * LANES),
      .STAGES(CHAIN + 1)
  ) late_line (
      .clk(clk),
      .rst(reset),
      .now(value),
      .taps(late_values)
  );

  generate
    for (genvar j = 0; j < LANES; j++) begin : term
      logic signed [31:0] late, shifted;
      assign late = 32'($signed(late_values[8*(LANES*(CHAIN+1)+j)+:8]));
      always_ff @(posedge clk) shifted <= late <<< layer.input_shift[4:0];
      assign terms[32*j+:32] = values ? shifted : products[32*j+:32];
    end
  endgenerate

  // Sums of two tiles of outputs: one is accumulated, the other is in the epilogue.
  logic [32*LANES-1:0] sums0, sums1, old, finished;
  logic [7:0] sum_address, write_pixel;
  logic sum_half, write_sum, write_half, write_ends;
  logic [32*LANES-1:0] write_sums;

  sum_memory #(
      .LANES(LANES),
      .PIXELS(PIXELS)
  ) first_sums (
      .clk(clk),
      .write(write_sum && !write_half),
      .write_address(write_pixel),
      .write_data(write_sums),
      .read_address(full[0] ? sum_address : read_pixels[8*(TERM-2)+:8]),
      .read_data(sums0)
  );

  sum_memory #(
      .LANES(LANES),
      .PIXELS(PIXELS)
  ) second_sums (
      .clk(clk),
      .write(write_sum && write_half),
      .write_address(write_pixel),
      .write_data(write_sums),
      .read_address(full[1] ? sum_address : read_pixels[8*(TERM-2)+:8]),
      .read_data(sums1)
  );

  assign old = halves[TERM] ? sums1 : sums0;
  assign finished = sum_half ? sums1 : sums0;

  always_comb begin
    for (int j = 0; j < LANES; j++) begin
      if (firsts[TERM]) next[32*j+:32] = terms[32*j+:32];
      else if (layer.mode[layer_registers::TAKES_GREATEST])
        next[32*j+:32] = $signed(terms[32*j+:32]) > $signed(old[32*j+:32])
            ? terms[32*j+:32] : old[32*j+:32];
      else next[32*j+:32] = old[32*j+:32] + terms[32*j+:32];
    end
  end

  always_ff @(posedge clk) begin
    write_sum <= reads[TERM];
    write_half <= halves[TERM];
    write_pixel <= read_pixels[8*TERM+:8];
    write_ends <= endings[TERM];
    write_sums <= next;
    full <= full & ~half_free;
    if (write_ends) full[write_half] <= 1;
    if (reset) begin
      write_sum <= 0;
      write_ends <= 0;
      full <= 0;
    end
  end

  // The epilogue.
  logic [64*LANES-1:0] header0, header1;
  logic header_bank, table_bank, epilogue_idle, result_idle;
  logic [RESULT_BITS-1:0] residual_address, result_place, written_address, read_result;
  logic [8*LANES-1:0] residual_data, clamped, results;
  logic [LANES-1:0] write_result;
  logic [1:0] result_full, result_written;
  logic [1:0][9:0] result_pixels;
  logic [1:0][31:0] result_group, result_bytes;
  logic [1:0] write_quarter;
  logic floats;

  assign floats = layer.mode[layer_registers::MAKES_FLOATS];

  localparam HEADER_BEATS = 8 * LANES / BUS_BYTES;

  always_ff @(posedge clk)
    for (int b = 0; b < HEADER_BEATS; b++)
    if (load_header && stream_beat == 16'(b)) begin
      if (load_bank) header1[8*BUS_BYTES*b+:8*BUS_BYTES] <= stream_data;
      else header0[8*BUS_BYTES*b+:8*BUS_BYTES] <= stream_data;
    end

  epilogue_sequencer #(
      .LANES(LANES),
      .PLACE_BITS(RESULT_BITS),
      .LATENCY(EPILOGUE)
  ) sequencer (
      .clk(clk),
      .rst(reset),
      .start(start),
      .idle(epilogue_idle),
      .layer(layer),
      .full(full),
      .pixels(pixels),
      .group(group),
      .group_place(group_place),
      .group_bytes(group_bytes),
      .group_ends(group_ends),
      .half_free(half_free),
      .header_ready(header_ready),
      .header_taken(header_taken),
      .header_bank(header_bank),
      .table_bank(table_bank),
      .residual_there(residual_there),
      .residual_taken(residual_taken),
      .residual_address(residual_address),
      .sum_address(sum_address),
      .sum_half(sum_half),
      .write(write_result),
      .write_address(written_address),
      .write_quarter(write_quarter),
      .result_full(result_full),
      .result_written(result_written),
      .result_pixels(result_pixels),
      .result_group(result_group),
      .result_bytes(result_bytes)
  );

  byte_buffer #(
      .BYTES(RESULT_BYTES),
      .WRITE(BUS_BYTES),
      .READ(LANES)
  ) residual_buffer (
      .clk(clk),
      .write(beat_mask & {BUS_BYTES{beat_valid[1]}}),
      .write_address(RESULT_BITS'(beat_place)),
      .write_data(beat_data),
      .read_address(residual_address),
      .read_data(residual_data)
  );

  generate
    for (genvar j = 0; j < LANES; j++) begin : lane
      logic [39:0] constant;
      // The shift is needed a cycle after the constant. Both remain for the entire tile, and the
      // next tile starts at least two cycles later.
      assign constant = header_bank ? header1[64*j+:40] : header0[64*j+:40];
      // In a header, byte 4 is the shift, 5 the table, 6 the residual shift.
      logic [4:0] residual_shift;
      assign residual_shift = header_bank ? header1[64*j+48+:5] : header0[64*j+48+:5];
      logic [7:0] shift;
      always_ff @(posedge clk) shift <= constant[39:32];
      lane_epilogue finish (
          .clk(clk),
          .sum(finished[32*j+:32]),
          .constant(constant[31:0]),
          .residual(layer.mode[layer_registers::HAS_RESIDUAL] ? residual_data[8*j+:8] : 8'b0),
          .residual_shift(residual_shift),
          .shift(shift),
          .to_even(layer.mode[layer_registers::TO_EVEN]),
          .zero_point(layer.zero_point),
          .low(layer.low),
          .high(layer.high),
          .result(clamped[8*j+:8])
      );
    end
    if (TABLES != 0) begin : with_tables
      logic [8*LANES-1:0] looked_up;
      logic [32*LANES-1:0] entries;
      always_ff @(posedge clk)
        results <= floats ? entries[8*LANES*write_quarter+:8*LANES] : looked_up;
      for (genvar j = 0; j < LANES; j = j + 2) begin : two
        // A header remains until the lookup of the last pixel.
        logic [2*TABLE_BITS-1:0] number;
        assign number = table_bank
            ? {header1[64*(j+1)+40+:TABLE_BITS], header1[64*j+40+:TABLE_BITS]}
            : {header0[64*(j+1)+40+:TABLE_BITS], header0[64*j+40+:TABLE_BITS]};
        lane_table #(
            .TABLES(TABLES)
        ) lookup (
            .clk(clk),
            .write(load_table),
            .write_place(table_place[TABLE_BITS+4:0]),
            .write_data(table_data),
            .use_table(layer.table_bytes != 0),
            .floats(floats),
            .number(number),
            .in_data(clamped[8*j+:16]),
            .out_data(looked_up[8*j+:16]),
            .out_floats(entries[32*j+:64])
        );
      end
    end else begin : without_tables
      logic [8*LANES-1:0] waiting;
      always_ff @(posedge clk) {results, waiting} <= {waiting, clamped};
    end
  endgenerate

  logic [8*BUS_BYTES-1:0] result_data;

  byte_buffer #(
      .BYTES(RESULT_BYTES),
      .WRITE(LANES),
      .READ(BUS_BYTES)
  ) result_buffer (
      .clk(clk),
      .write(write_result),
      .write_address(written_address),
      .write_data(results),
      .read_address(read_result),
      .read_data(result_data)
  );

  logic writer_start, writer_ready, read_done;
  logic [ADDRESS_BITS-1:0] result_address;
  logic [31:0] result_runs, result_length, result_step;

  result_writer #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(RESULT_BITS)
  ) results_out (
      .clk(clk),
      .rst(reset),
      .start(start),
      .idle(result_idle),
      .layer(layer),
      .full(result_full),
      .written(result_written),
      .pixels(result_pixels),
      .group(result_group),
      .bytes(result_bytes),
      .writer_start(writer_start),
      .writer_ready(writer_ready),
      .address(result_address),
      .runs(result_runs),
      .length(result_length),
      .pitch(result_step),
      .place(result_place),
      .read_done(read_done)
  );

  axi_writer #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(RESULT_BITS),
      .BUS_BYTES(BUS_BYTES),
      .BURST_BYTES(BURST_BYTES),
      .READ(READ)
  ) writer (
      .clk(clk),
      .rst(rst),
      .halt(halt || core_rst),
      .start(writer_start),
      .ready(writer_ready),
      .address(result_address),
      .runs(result_runs),
      .length(result_length),
      .pitch(result_step),
      .place(result_place),
      .read_done(read_done),
      .quiet(writer_quiet),
      .read_address(read_result),
      .read_data(result_data),
      .awvalid(m_awvalid),
      .awready(m_awready),
      .awaddr(m_awaddr),
      .awlen(m_awlen),
      .wvalid(m_wvalid),
      .wready(m_wready),
      .wdata(m_wdata),
      .wstrb(m_wstrb),
      .wlast(m_wlast),
      .bvalid(m_bvalid),
      .bready(m_bready),
      .bresp(m_bresp),
      .failed(write_failed)
  );

  // The launch is done: a cycle ago, no tiles, sums or results were left, and all are written.
  assign done = emptied && writer_quiet;

  always_ff @(posedge clk) begin
    emptied <= launched && !start && planner_idle && runner_idle && reads[TERM:1] == 0
        && lines_idle && !write_sum && claimed == 0 && full == 0 && epilogue_idle
        && result_full == 0 && result_idle && reader_quiet;
    if (done) launched <= 0;
    if (start) launched <= 1;
    if (reset) begin
      launched <= 0;
      emptied <= 0;
    end
  end
endmodule
