// Distribute a stream to several readers. The next word is offered when all have taken the current.
module stream_fork #(
    parameter READERS = 2
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    output logic [READERS-1:0] out_valid,
    input logic [READERS-1:0] out_ready
);
  logic [READERS-1:0] taken;

  assign out_valid = in_valid ? ~taken : '0;
  assign in_ready = &(taken | out_ready);

  always_ff @(posedge clk) begin
    if (in_valid) taken <= in_ready ? '0 : taken | out_ready;
    if (rst) taken <= '0;
  end
endmodule
