// Properties of the ports of the nnet core, for formal proofs. Each top module has free inputs.
// Properties in BOUNDED are proven for a number of cycles after a reset, all others by induction.

// AXI4-Lite: responses remain until they are accepted, and each access is answered once.
module lite_proof (
    input logic clk,
    input logic rst,
    input logic awvalid,
    input logic wvalid,
    input logic arvalid,
    input logic bready,
    input logic rready,
    input logic refused,
    input logic [8:0] address,
    input logic [31:0] data,
    input logic [31:0] found
);
  logic awready, wready, arready, bvalid, rvalid, act, writes;
  logic [1:0] bresp, rresp;
  logic [31:0] rdata;
  logic has_address, has_data, has_read, acted_write, acted_read;

  axi_lite_port dut (
      .clk(clk),
      .rst(rst),
      .s_awvalid(awvalid),
      .s_awready(awready),
      .s_awaddr(address),
      .s_wvalid(wvalid),
      .s_wready(wready),
      .s_wdata(data),
      .s_wstrb(data[3:0]),
      .s_bvalid(bvalid),
      .s_bready(bready),
      .s_bresp(bresp),
      .s_arvalid(arvalid),
      .s_arready(arready),
      .s_araddr(address),
      .s_rvalid(rvalid),
      .s_rready(rready),
      .s_rdata(rdata),
      .s_rresp(rresp),
      .word(),
      .found(found),
      .current(),
      .act(act),
      .writes(writes),
      .value(),
      .written(),
      .refused(refused)
  );
  held #(2) b (clk, rst, bvalid, bready, bresp);
  held #(34) r (clk, rst, rvalid, rready, {rresp, rdata});

  // What was accepted and has had no effect; what had an effect and has no response.
  always @(posedge clk) begin
    if (act && writes) {has_address, has_data} <= 0;
    if (act && !writes) has_read <= 0;
    if (awvalid && awready) has_address <= 1;
    if (wvalid && wready) has_data <= 1;
    if (arvalid && arready) has_read <= 1;
    if (bvalid && bready) acted_write <= 0;
    if (rvalid && rready) acted_read <= 0;
    if (act && writes) acted_write <= 1;
    if (act && !writes) acted_read <= 1;
    if (rst) {has_address, has_data, has_read, acted_write, acted_read} <= 0;
    if (!rst) begin
      assert (awready == !has_address && wready == !has_data && arready == !has_read);
      assert (bvalid == acted_write && rvalid == acted_read);
      if (act && writes) assert (has_address && has_data && !acted_write);
      if (act && !writes) assert (has_read && !acted_read);
    end
  end
endmodule

// A burst remains until it is accepted, and crosses no multiple of 256 bytes. The bursts of a start
// are those of a reference that adds the bytes of one after the other.
module walker_proof (
    input logic clk,
    input logic rst,
    input logic start,
    input logic [11:0] address,
    input logic [31:0] runs,
    input logic [31:0] length,
    input logic [31:0] pitch,
    input logic burst_ready
);
  logic ready, valid, last;
  logic [11:0] at;
  logic [8:0] bytes;
  logic [7:0] place;

  run_walker #(
      .ADDRESS_BITS(12),
      .PLACE_BITS(8)
  ) dut (
      .clk(clk),
      .rst(rst),
      .start(start),
      .ready(ready),
      .address(address),
      .runs(runs),
      .length(length),
      .pitch(pitch),
      .place(8'b0),
      .burst_valid(valid),
      .burst_ready(burst_ready),
      .burst_address(at),
      .burst_bytes(bytes),
      .burst_place(place),
      .burst_last(last)
  );
  held #(30) burst (clk, rst, valid, burst_ready, {at, bytes, place, last});

  logic [11:0] next_at, run;
  logic [31:0] left, whole, step, runs_left;
  logic [7:0] next_place;
  logic [9:0] size;

  assign size = left < 256 - next_at[7:0] ? left : 256 - next_at[7:0];

  always @(posedge clk) begin
    if (!rst && valid) assert (at[7:0] + bytes <= 256);
`ifdef BOUNDED
    // The last burst is accepted before the next start.
    assume (!start || (!valid && runs != 0 && length != 0));
    if (!rst && valid) begin
      assert (at == next_at && bytes == size && place == next_place);
      assert (last == (runs_left == 1 && left == size));
    end
    if (valid && burst_ready) begin
      next_at <= left == size ? run + step : next_at + size;
      run <= left == size ? run + step : run;
      left <= left == size ? whole : left - size;
      runs_left <= runs_left - (left == size);
      next_place <= next_place + size;
    end
    if (start && ready) begin
      {next_at, run, whole, left} <= {address, address, length, length};
      {step, runs_left, next_place} <= {pitch, runs, 8'b0};
    end
`endif
  end
endmodule

// The result of the output stage is that of a single sum, division and rounding.
module finish_proof (
    input logic clk,
    input logic rst,
    input logic [31:0] sum,
    input logic [31:0] constant,
    input logic [7:0] residual,
    input logic [4:0] residual_shift,
    input logic [7:0] shift,
    input logic to_even,
    input logic [7:0] zero_point,
    input logic [7:0] low,
    input logic [7:0] high
);
  logic [7:0] result;
  logic [3:0] age;
  logic [24:0] held;
  logic [6*32-1:0] totals;
  logic [5*8-1:0] shifts;
  logic signed [31:0] total, near;
  logic signed [7:0] amount;
  logic signed [32:0] twice, halves;
  logic signed [33:0] left, down, rounded;
  logic [5:0] right;
  logic [7:0] expected;
  logic up;

  lane_epilogue dut (
      .clk(clk),
      .sum(sum),
      .constant(constant),
      .residual(residual),
      .residual_shift(residual_shift),
      .shift(shift),
      .to_even(to_even),
      .zero_point(zero_point),
      .low(low),
      .high(high),
      .result(result)
  );

  assign total = totals[6*32-1-:32];
  assign amount = shifts[5*8-1-:8];
  assign near = total < -32768 ? -32768 : total > 32768 ? 32768 : total;
  assign right = amount > 33 ? 33 : amount;
  assign twice = {total, 1'b0};
  assign halves = twice >>> right;
  // A bit of half a unit is rounded up, unless the rest is 0 and the result is even.
  assign up = halves[0] && (!to_even || (halves << right) != twice || halves[1]);
  assign down = (halves >>> 1) + $signed({1'b0, up});
  assign left = near * (34'sd1 <<< -amount);
  assign rounded = $signed(zero_point) + (amount < 0 ? left : down);
  assign expected = rounded < $signed(low) ? low : rounded > $signed(high) ? high : rounded[7:0];

  always @(posedge clk) begin
    age <= age == 15 ? 15 : age + 1;
    totals <= {totals, sum + constant + ($signed({{24{residual[7]}}, residual}) <<< residual_shift)};
    shifts <= {shifts, shift};
    held <= {to_even, zero_point, low, high};
    if (rst) age <= 0;
`ifdef BOUNDED
    assume ($signed(shift) >= -8 && $signed(low) <= $signed(high));
    assume (age == 0 || held == {to_even, zero_point, low, high});
    if (!rst && age > 6) assert (result == expected);
`endif
  end
endmodule

// A launch starts two cycles after the last write to the registers of the layer.
module start_proof (
    input logic clk,
    input logic rst,
    input logic start_queue,
    input logic [31:0] length,
    input logic outside,
    input logic done,
    input logic beat_valid
);
  logic wants_layer, write, written, start, wrote;

  launch_control control (
      .clk(clk),
      .rst(rst),
      .core_rst(1'b0),
      .start_layer(1'b0),
      .start_queue(start_queue),
      .abort(1'b0),
      .outside(outside),
      .queue_outside(1'b0),
      .length(length),
      .wants_layer(wants_layer),
      .layer_there(written),
      .oversize(1'b0),
      .read_failed(1'b0),
      .write_failed(1'b0),
      .done(done),
      .quiet(1'b1),
      .start(start),
      .halt(),
      .busy(),
      .finished(),
      .status(),
      .launches(),
      .cycles()
  );
  launch_queue queue (
      .clk(clk),
      .rst(rst),
      .start(start_queue),
      .first(40'b0),
      .length(length),
      .burst_valid(),
      .burst_ready(1'b1),
      .burst_address(),
      .burst_bytes(),
      .beat_valid(beat_valid),
      .beat_data(128'b0),
      .wants_layer(wants_layer),
      .write(write),
      .word(),
      .value(),
      .written(written)
  );

  always @(posedge clk) begin
    wrote <= write;
    if (!rst && start) assert (!write && !wrote);
  end
endmodule

// Requests remain until they are accepted. At most 16 bursts are outstanding. A halted reader
// passes no data, and makes no request.
module reader_proof (
    input logic clk,
    input logic rst,
    input logic halt,
    input logic [3:0] burst_valid,
    input logic [47:0] burst_address,
    input logic [35:0] burst_bytes,
    input logic arready,
    input logic rvalid,
    input logic rlast,
    input logic [63:0] rdata,
    input logic [1:0] rresp
);
  logic [3:0] burst_ready, beat_valid;
  logic arvalid, rready, quiet, halted;
  logic [11:0] araddr;
  logic [7:0] arlen;
  logic [4:0] asked, sent;

  axi_reader #(
      .ADDRESS_BITS(12),
      .PLACE_BITS(8),
      .BUS_BYTES(8)
  ) dut (
      .clk(clk),
      .rst(rst),
      .halt(halt),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_bytes(burst_bytes),
      .burst_place(32'b0),
      .burst_last(4'b0),
      .arvalid(arvalid),
      .arready(arready),
      .araddr(araddr),
      .arlen(arlen),
      .rvalid(rvalid),
      .rready(rready),
      .rdata(rdata),
      .rresp(rresp),
      .rlast(rlast),
      .beat_valid(beat_valid),
      .beat_place(),
      .beat_mask(),
      .beat_data(),
      .beat_last(),
      .failed(),
      .quiet(quiet)
  );
  held #(20) ar (clk, rst, arvalid, arready, {araddr, arlen});

  // `asked` bursts are not answered, of which `sent` are in the memory.
  always @(posedge clk) begin
    asked <= asked + (burst_ready != 0) - (rvalid && rlast);
    sent <= sent + (arvalid && arready) - (rvalid && rlast);
    halted <= halt && !rst;
    if (rst) {asked, sent} <= 0;
    if (!rst) begin
`ifdef BOUNDED
      assume (!rvalid || sent != 0);
      assert (asked <= 16 && asked == sent + arvalid);
      assert (quiet == (asked == 0));
`endif
      assert (rready);
      assert ((burst_ready & ~burst_valid) == 0 && (burst_ready & (burst_ready - 1)) == 0);
      if (halt) assert (burst_ready == 0);
      if (halted) assert (beat_valid == 0);
    end
  end
endmodule
