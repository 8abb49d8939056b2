// The states of a launch or of a queue of launches. A failure, an abort or a reset of the core stops
// the circuits with `halt` until the memory port has finished its transfers, so that the next launch
// finds no data of this one.
module launch_control (
    input logic clk,
    input logic rst,
    input logic core_rst,
    input logic start_layer,
    input logic start_queue,
    input logic abort,
    input logic outside,  // a register of the layer has a value outside its limits
    input logic queue_outside,  // a register of the queue
    input logic [31:0] length,  // of the queue
    output logic wants_layer,  // the next layer of the queue
    input logic layer_there,
    input logic oversize,  // a block of the layer has more pixels than the core
    input logic read_failed,
    input logic write_failed,
    input logic done,
    input logic quiet,  // all transfers of the memory port are finished
    output logic start,
    output logic halt,
    output logic busy,
    output logic finished,  // in the last busy cycle
    output logic [3:0] status,
    output logic [31:0] launches,
    output logic [31:0] cycles
);
  typedef enum logic [2:0] {
    IDLE,
    LOAD,
    WRITE,
    RUN,
    STOP
  } state_t;
  state_t state;
  logic in_queue, after_reset, last, running;
  logic [3:0] failures;

  assign busy = state != IDLE;
  assign halt = state == STOP;
  assign wants_layer = state == LOAD;
  assign running = state == LOAD || state == WRITE || state == RUN;
  assign finished = (state == RUN && failures == 0 && done && last)
      || (state == STOP && quiet && !after_reset);

  always_comb begin
    failures = '0;
    failures[layer_registers::READ_FAILED] = running && read_failed;
    failures[layer_registers::WRITE_FAILED] = running && write_failed;
    failures[layer_registers::ABORTED] = running && abort;
    failures[layer_registers::REJECTED] = (state == IDLE && start_queue && queue_outside)
        || (state == RUN && ((start && outside) || oversize));
  end

  always_ff @(posedge clk) begin
    start <= 0;
    last <= !in_queue || launches + 1 == length;
    status <= status | failures;
    cycles <= cycles + 32'(busy);
    case (state)
      IDLE:
      if (start_layer || start_queue) begin
        in_queue <= !start_layer;
        start <= start_layer;
        state <= start_layer ? RUN : LOAD;
        status <= failures;
        launches <= 0;
        cycles <= 0;
      end
      LOAD: if (layer_there) state <= WRITE;
      WRITE: begin
        start <= 1;
        state <= RUN;
      end
      RUN:
      if (done) begin
        launches <= launches + 1;
        state <= last ? IDLE : LOAD;
      end
      default:
      if (quiet) begin
        state <= IDLE;
        after_reset <= 0;
      end
    endcase
    if (failures != 0) begin
      start <= 0;
      launches <= state == IDLE ? '0 : launches;
      state <= STOP;
    end
    if (rst || core_rst) begin
      start <= 0;
      state <= rst ? IDLE : STOP;
      after_reset <= !rst;
      in_queue <= 0;
      status <= 0;
      launches <= 0;
      cycles <= 0;
    end
  end
endmodule
