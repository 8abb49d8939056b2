// The limits of the words of a layer, generated from layer_registers.sv.
module register_limits (
    input logic [5:0] word,
    input logic [31:0] value,
    output logic outside,
    output logic [50:0] zero_outside  // for each word, with the value 0
);
  assign zero_outside = 51'h58700367d7e00;

  always_comb begin
    case (word)
      6'd1: outside = value[31:8] != 0;
      6'd3: outside = value[31:8] != 0;
      6'd5: outside = value[31:8] != 0;
      6'd7: outside = value[31:8] != 0;
      6'd8: outside = value[31:10] != 0;
      6'd9: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd10: outside = value[31:23] != 0 || value[31:0] == 0;
      6'd11: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd12: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd13: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd14: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd15: outside = value[31:31] != 0;
      6'd16: outside = value[31:23] != 0 || value[31:0] == 0;
      6'd17: outside = value[31:31] != 0;
      6'd18: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd19: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd20: outside = value[31:9] != 0 || value[31:0] == 0;
      6'd21: outside = value[31:9] != 0 || value[31:0] == 0;
      6'd22: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd23: outside = value[31:16] != 0;
      6'd24: outside = (value[31:23] != 0 && value[31:23] != '1);
      6'd25: outside = value[31:23] != 0 || value[31:0] == 0;
      6'd26: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd27: outside = value[31:23] != 0;
      6'd28: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd29: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd30: outside = value[23:23] != 0;
      6'd31: outside = (value[31:23] != 0 && value[31:23] != '1);
      6'd32: outside = value[31:23] != 0;
      6'd33: outside = value[31:31] != 0;
      6'd34: outside = value[31:31] != 0;
      6'd35: outside = value[31:31] != 0;
      6'd36: outside = value[31:31] != 0;
      6'd37: outside = value[31:31] != 0;
      6'd38: outside = value[31:23] != 0;
      6'd39: outside = value[31:23] != 0;
      6'd40: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd41: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd42: outside = value[31:16] != 0 || value[31:0] == 0;
      6'd43: outside = value[31:16] != 0;
      6'd44: outside = value[31:24] != 0;
      6'd45: outside = value[31:24] != 0;
      6'd46: outside = value[31:13] != 0;
      6'd47: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd48: outside = value[31:31] != 0 || value[31:0] == 0;
      6'd50: outside = value[31:27] != 0 || value[23:20] != 0 || value[23:16] == 0 || value[15:5] != 0;
      default: outside = 0;
    endcase
  end
endmodule
